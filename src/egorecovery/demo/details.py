"""What the page tells beside the result: what each policy learned from, how it was measured, how to repeat it."""

from collections.abc import Mapping
from typing import Any

from egorecovery.demo.plan import METHODS, NAMES, DemoPlan, demo_protocol


def trained_here(plan: DemoPlan, cards: Mapping[str, Mapping[str, Any]], report: str) -> dict[str, Any]:
    """Of a demo that trained its policies; `report` is the file name of the experiment's full report."""
    seconds = {method: card["training"]["seconds"] for method, card in cards.items()}
    lead = f"{_opening(plan.task)} Three small policies, trained on this computer just now, try to recover."
    return {
        "lead": lead,
        "details": [
            _learned(plan, seconds),
            _measured(plan),
            {
                "title": "Repeat it",
                "table": [],
                "words": [],
                "commands": [command(plan)],
                "links": [
                    {"href": report, "words": "full report"},
                    {"href": "summary.json", "words": "summary.json"},
                ],
            },
        ],
    }


def shipped(plan: DemoPlan, provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Of the quick demo, whose policies were trained before."""
    full = provenance["rates"]
    table = [["policy", "from failures", "from ordinary starts"]]
    table += [
        [NAMES[method], *(_count(full[method][regime]) for regime in ("recovery", "initial"))] for method in METHODS
    ]
    return {
        "lead": (
            f"{_opening(plan.task)} Three small policies that come with EgoRecovery try to recover, on this computer "
            "just now."
        ),
        "details": [
            _learned(plan, None),
            {
                "title": "The full demo's counts",
                "table": table,
                "words": ["The run that trained these policies, on more of the same starts."],
                "commands": [],
                "links": [],
            },
            _measured(plan),
            {
                "title": "Train them yourself",
                "table": [],
                "words": [],
                "commands": [provenance["command"]],
                "links": [{"href": "summary.json", "words": "summary.json"}],
            },
        ],
    }


def _opening(task: str) -> str:
    goal = "The robot should put the yellow cube on the green one. " if task == "cube_stack" else ""
    return f"{goal}Each film begins after an attempt has failed."


def command(plan: DemoPlan) -> str:
    usual = DemoPlan()
    changed = [
        f"--{name.replace('_', '-')} {value}" for name, value in vars(plan).items() if value != getattr(usual, name)
    ]
    return " ".join(["egorecovery demo", *changed])


def _learned(plan: DemoPlan, seconds: Mapping[str, float] | None) -> dict[str, Any]:
    cameras = plan.recipe(plan.task).policy.cameras
    head = ["policy", "robot successes", "robot recoveries", "human clips"] + ["training"] * (seconds is not None)
    rows = []
    for method in METHODS:
        row = [NAMES[method], *map(str, plan.episodes(method).values())]
        rows.append(row + ([f"{seconds[method] / 60:.1f} min"] if seconds is not None else []))
    return {
        "title": "What each policy learned from",
        "table": [head, *rows],
        "words": [
            f"All take {plan.steps:,} steps and act in the same space: where the point between the fingertips goes. A "
            "gripper and a pinching hand are the same numbers there, so one decoder learns from both.",
            f"They see what these cameras see: {', '.join(camera.replace('_', ' ') for camera in cameras)}.",
            "Human clips show hands, never the robot. Where they begin nobody chose; the robot's recoveries begin at "
            "twelve failures that were set up by hand.",
        ],
        "commands": [],
        "links": [],
    }


def _measured(plan: DemoPlan) -> dict[str, Any]:
    protocol = demo_protocol(plan.task)
    return {
        "title": "How it was measured",
        "table": [],
        "words": [
            f"{plan.rollouts} failures and {plan.rollouts} ordinary starts that no demonstration began from, the same "
            f"for all policies. A rollout succeeds when the goal holds for {protocol.stable_s:g} s within "
            f"{protocol.time_limit_s:g} s.",
        ],
        "commands": [],
        "links": [],
    }


def _count(rate: Mapping[str, int]) -> str:
    return f"{rate['successes']} of {rate['rollouts']}"
