"""Writes docs/results/summary.json: every published cell as counts, from the archives of raw rollouts beside it.

python tools/results_summary.py

One object per cell and kind of start. `space`, `decoders` and `hidden_embodiment` are of the trained policy, `budget`
is robot success, robot recovery, human success, human recovery. Docs quote these counts; a test holds them to it.
"""

import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from egorecovery.evaluation.protocol import REGIMES
from egorecovery.evaluation.results import ResultFile

RESULTS = Path(__file__).parent.parent / "docs" / "results"
SUMMARY = RESULTS / "summary.json"
BUDGET = ("robot_success", "robot_recovery", "human_success", "human_recovery")


def rows(pattern: str = "*.tar.xz") -> Iterator[dict[str, Any]]:
    for archive in sorted(RESULTS.glob(pattern)):
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            for card_path in sorted(Path(folder).glob("**/cells/*/cell.json")):
                yield from _rows(json.loads(card_path.read_text()), card_path, archive, Path(folder))


def _rows(card: dict[str, Any], card_path: Path, archive: Path, root: Path) -> Iterator[dict[str, Any]]:
    policy = card["recipe"]["policy"]
    records = ResultFile(card_path.parent / "rollouts.jsonl").records()
    within = card_path.relative_to(root).parts[0]
    for regime in REGIMES:
        of_regime = [record for record in records if record.regime == regime]
        yield {
            "suite": card["suite"],
            "task": card["task"],
            "method": card["method"],
            "variant": card["variant"],
            "intervention": card["intervention"],
            "space": policy.get("action_space", "joint"),
            "decoders": policy.get("decoders", "separate"),
            "hidden_embodiment": card.get("hidden_embodiment", False),
            "settings": card.get("settings", {}),
            "off_centre_grips": card.get("off_centre_grips", False),
            "turned_hands": card.get("turned_hands", False),
            "robot_failures": card.get("robot_failures", "staged"),
            "humans": card.get("humans", "people"),
            "seed": card["seed"],
            "budget": [card["budget"][name] for name in BUDGET],
            "regime": regime,
            "successes": sum(record.succeeded for record in of_regime),
            "rollouts": len(of_regime),
            "starts": card["protocol"]["starts_seed"],
            "archive": archive.name,
            "folder": within if within != "cells" else "",
        }


def main() -> None:
    made = list(rows())
    lines = ",\n".join(json.dumps(row) for row in made)
    SUMMARY.write_text(f"[\n{lines}\n]\n")
    print(f"{SUMMARY}: {len(made)} rows")


if __name__ == "__main__":
    main()
