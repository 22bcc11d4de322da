"""The operator's loop: stage the failure, record, judge, reset, repeat. Every second belongs to one state."""

from enum import StrEnum

from egorecovery.errors import CaptureError


class State(StrEnum):
    """Activities of the operator."""

    SYNCHRONISING = "synchronising"  # the rig is not delivering yet
    SETTING_UP = "setting up"
    STAGING = "staging"  # making the failure from which the next clip starts
    RECORDING = "recording"
    JUDGING = "judging"
    RESETTING = "resetting"  # after the verdict
    PAUSED = "paused"
    ENDED = "ended"


class Action(StrEnum):
    """Actions of the operator's keys."""

    START = "start"
    STOP = "stop"
    ACCEPT = "accept"
    DISCARD = "discard"
    NEXT = "next"
    PAUSE = "pause"
    QUIT = "quit"


TRANSITIONS: dict[State, dict[Action, State]] = {
    State.SYNCHRONISING: {Action.QUIT: State.ENDED},
    State.SETTING_UP: {
        Action.START: State.RECORDING,
        Action.NEXT: State.STAGING,
        Action.PAUSE: State.PAUSED,
        Action.QUIT: State.ENDED,
    },
    State.STAGING: {Action.START: State.RECORDING, Action.PAUSE: State.PAUSED, Action.QUIT: State.ENDED},
    State.RECORDING: {Action.STOP: State.JUDGING, Action.DISCARD: State.RESETTING},
    State.JUDGING: {Action.ACCEPT: State.RESETTING, Action.DISCARD: State.RESETTING},
    State.RESETTING: {
        Action.START: State.RECORDING,
        Action.NEXT: State.STAGING,
        Action.PAUSE: State.PAUSED,
        Action.QUIT: State.ENDED,
    },
    State.PAUSED: {Action.NEXT: State.STAGING, Action.PAUSE: State.STAGING, Action.QUIT: State.ENDED},
    State.ENDED: {},
}
USUAL_KEYS: dict[Action, tuple[str, ...]] = {
    Action.START: ("space",),
    Action.STOP: ("space",),
    Action.ACCEPT: ("space", "enter"),  # so that a single pedal suffices for everything except a discard
    Action.DISCARD: ("d", "backspace"),
    Action.NEXT: ("n",),
    Action.PAUSE: ("p",),
    Action.QUIT: ("q",),
}


class KeyMap:
    """Maps keys to actions, by state."""

    def __init__(self, keys: dict[Action, tuple[str, ...]] | None = None) -> None:
        self.keys = {**USUAL_KEYS, **(keys or {})}
        for state, moves in TRANSITIONS.items():
            taken: dict[str, Action] = {}
            for action in moves:
                for key in self.keys[action]:
                    if key in taken:
                        raise CaptureError(
                            f"key {key!r} would mean both {taken[key]} and {action} while {state}; give one of them "
                            f"another key, as in --keys {action}=x"
                        )
                    taken[key] = action

    @classmethod
    def parse(cls, settings: tuple[str, ...]) -> "KeyMap":
        """Parses `action=key`, or several keys: `accept=enter+y`."""
        changed: dict[Action, tuple[str, ...]] = {}
        for setting in settings:
            name, _, keys = setting.partition("=")
            if name not in list(Action) or not keys:
                raise CaptureError(f"key {setting!r}: write ACTION=KEY, where ACTION is one of {', '.join(Action)}")
            names = tuple(keys.split("+")) if keys != "+" else ("+",)
            unknown = [key for key in names if len(key) != 1 and key not in NAMED_KEYS]
            if unknown or "" in names:
                raise CaptureError(
                    f"key {setting!r}: {unknown[0] if unknown else ''!r} is no key; "
                    f"one character or one of {', '.join(NAMED_KEYS)}"
                )
            changed[Action(name)] = names
        return cls(changed)

    def action(self, key: str, state: State) -> Action | None:
        """The action of a key in a state; None if it has none."""
        return next((action for action in TRANSITIONS[state] if key in self.keys[action]), None)

    def offered(self, state: State) -> list[tuple[str, Action]]:
        """The first key of each possible action, for the operator."""
        return [(self.keys[action][0], action) for action in TRANSITIONS[state]]


NAMED_KEYS = (
    *("space", "enter", "tab", "backspace", "escape", "up", "down", "left", "right"),
    *("pageup", "pagedown", "home", "end", *(f"f{number}" for number in range(1, 13))),
)
