"""What `egorecovery --help` shows: every verb in one line, in the order in which people need them."""

import textwrap

WIDTH = 80
GROUPS = {
    "start": {"demo": "the whole system in minutes, without robot or GPU"},
    "data": {
        "simulate": "collect demonstrations in the simulated workcell",
        "record": "record demonstrations with your cameras",
        "track": "find hands in human clips",
        "import": "add recordings, ALOHA, LeRobot, EgoVerse data to a store",
        "annotate": "set recovery boundaries in the browser",
        "label": "derive labels and intent targets",
        "inspect": "show a store, an episode, results or a rollout",
        "audit": "count accepted demonstrations per operator hour",
    },
    "policies": {
        "train": "train a policy on a store",
        "evaluate": "try it in closed loop in the workcell",
        "watch": "watch films of rollouts in the browser",
        "diagnose": "say why a policy works or not",
        "experiment": "run a whole table of trainings and evaluations",
        "bench": "measure training and inference speed",
    },
    "robots": {
        "serve": "serve a policy to robots",
        "control": "let a served policy control a robot inside limits",
        "score": "score rollout videos blind in the browser",
    },
    "exchange": {
        "export": "write a store as LeRobot data, or a policy as ONNX",
        "push": "push a store or policy to a Hugging Face hub",
        "pull": "pull one from there",
        "verify": "check every byte, and say what to do about damage",
    },
}


def overview(description: str) -> str:
    lines = [*textwrap.wrap(description, WIDTH), "", "usage: egorecovery VERB ...", ""]
    for group, verbs in GROUPS.items():
        for number, (verb, words) in enumerate(verbs.items()):
            lines.append(f"  {group if number == 0 else '':10s}{verb:12s}{words}")
    return "\n".join([*lines, "", "options of a verb: egorecovery VERB --help; the version: egorecovery --version"])
