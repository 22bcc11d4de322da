"""Limits files of the examples, for tests."""

from dataclasses import replace
from pathlib import Path

from egorecovery.robot import Limits, read_limits

FOLDER = Path(__file__).parent.parent / "examples" / "limits"


def workcell_limits(**changes) -> Limits:
    return replace(read_limits(FOLDER / "workcell.json"), **changes)


def unbound_limits(**changes) -> Limits:
    """Those that a policy never meets."""
    return replace(read_limits(FOLDER / "workcell_unbound.json"), **changes)
