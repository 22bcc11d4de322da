"""Copies the policies of a finished demo into the package, for `egorecovery demo --quick`.

python tools/ship_demo.py runs/demo     # after `egorecovery demo`, with its default options
"""

import subprocess
from pathlib import Path

import tyro

from egorecovery.demo.plan import DemoPlan
from egorecovery.demo.shipped import HOME, export


def main(demo: tyro.conf.Positional[Path]) -> None:
    """Weights go in half precision; provenance.json says which run they are of, and what it measured."""
    revision = subprocess.run(["git", "describe", "--always", "--dirty"], check=True, capture_output=True, text=True)
    export(demo, DemoPlan(), HOME, revision.stdout.strip())
    for path in sorted(path for path in HOME.rglob("*") if path.is_file()):
        print(f"wrote: {path} ({path.stat().st_size / 1e6:.2f} MB)")


if __name__ == "__main__":
    tyro.cli(main)
