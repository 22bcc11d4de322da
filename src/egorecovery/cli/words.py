"""Words for people, of what programs name."""

PLURALS = {
    "robot_success": "robot successes",
    "robot_recovery": "robot recoveries",
    "human_success": "human successes",
    "human_recovery": "human recoveries",
}


def plural(source: str) -> str:
    return PLURALS[source]
