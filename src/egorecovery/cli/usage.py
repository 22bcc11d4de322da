"""What is wrong with the words after a verb, said in one sentence before anything reads them."""

import difflib
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from egorecovery.cli.help_page import usage
from egorecovery.cli.options import Option, is_flag, options_of
from egorecovery.errors import EgoRecoveryError


class UsageError(EgoRecoveryError):
    """Words after a verb that it does not know."""


def check_words(name: str, verb: type, words: Sequence[str]) -> None:
    options = options_of(verb)
    positional, given, loose = [one for one in options if one.positional], dict[str, list[str]](), list[str]()
    known = {one.flag: one for one in options if not one.positional}
    at: Option | None = None
    for word in words:
        flag, equals, value = word.partition("=")
        if is_flag(word):
            at = known.get(flag.replace("_", "-"))
            if at is None:
                raise UsageError(_unknown(name, flag, known))
            if equals and at.values == "none":
                raise UsageError(f"{at.flag} takes no value\n{_more(name)}")
            given.setdefault(at.flag, []).extend([value] if equals else [])
            at = None if equals or at.values == "none" else at
        elif at is None:
            loose.append(word)
        else:
            given[at.flag].append(word)
            at = None if at.values == "one" else at
    for flag, values in given.items():
        _check_values(name, known[flag], values)
    _check_positional(name, positional, loose, known, given)
    missing = [one for one in positional[len(loose) :] if one.required]
    missing += [one for one in options if one.required and not one.positional and one.flag not in given]
    if missing:
        each = "\n".join(f"  {one.invocation}: {one.words.partition(chr(10))[0]}" for one in missing)
        raise UsageError(f"{name} needs\n{each}\n{usage(name, options)}\n{_more(name)}")


def options_before_the_verb(words: Sequence[str], verbs: Sequence[str]) -> str:
    """Where somebody wrote options first."""
    verb = next((word for word in words if word in verbs), None)
    if verb is None:
        return f"name a verb first, its options after it; one of {', '.join(verbs)}"
    before = " ".join(words[: words.index(verb)])
    return f"the verb comes first, then its options: egorecovery {verb} ... {before}"


def _unknown(name: str, flag: str, known: dict[str, Option]) -> str:
    near = (
        difflib.get_close_matches(flag, [*known, "--help"], n=1, cutoff=0.5)
        or [one for one in known if one.startswith(flag)][:1]
    )
    hint = f"; did you mean {known[near[0]].invocation if near[0] in known else near[0]}?" if near else ""
    return f"{name} has no option {flag}{hint}\n{_more(name)}"


def _check_values(name: str, option: Option, values: list[str]) -> None:
    if option.values in ("one", "several") and not values:
        what = "a value" if option.values == "one" else "at least one value"
        if option.values == "one" or option.required:
            raise UsageError(f"{option.flag} needs {what}: {option.invocation}\n{_more(name)}")
    if option.values == "pairs" and len(values) % 2:
        raise UsageError(
            f"{option.flag} takes names with their values, as in {option.flag} seed 3; after it came "
            f"'{' '.join(values)}'. What is no part of it goes before it\n{_more(name)}"
        )
    for value in values:
        _check_value(name, option, value)


def _check_value(name: str, option: Option, value: str) -> None:
    if option.choices and value not in option.choices:
        near = difflib.get_close_matches(value, option.choices, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? There are" if near else "there are"
        raise UsageError(f"{option.flag} has no '{value}'; {hint} {', '.join(option.choices)}\n{_more(name)}")
    if option.kind in (int, float):
        try:
            option.kind(value)
        except ValueError:
            wanted = "a whole number" if option.kind is int else "a number"
            raise UsageError(f"{option.flag} is {wanted}, got '{value}'\n{_more(name)}") from None


def _check_positional(
    name: str, positional: list[Option], loose: list[str], known: Collection[str], given: Collection[str]
) -> None:
    several = any(one.values == "several" for one in positional)
    if len(loose) > len(positional) and not several:
        names = " and ".join(one.invocation for one in positional)
        more = " ".join(loose[len(positional) :])
        takes = f"takes {names} and options" if names else "takes options only"
        hint = f": what is '{more}'?"
        if "--out" in known and "--out" not in given:
            hint = f"; did you mean --out {more}?"
        elif "--episode" in known and _is_episode(loose[0], more):
            hint = f"; did you mean --episode {more}?"
        raise UsageError(f"{name} {takes}{hint}\n{_more(name)}")
    for option, value in zip(positional, loose, strict=False):
        _check_value(name, option, value)


def _is_episode(store: str, word: str) -> bool:
    from egorecovery.episodes import EpisodeStore

    try:
        return word in EpisodeStore(Path(store)).ids()
    except (EgoRecoveryError, OSError):
        return False


def _more(name: str) -> str:
    return f"'egorecovery {name} --help' shows all options"


def gathered(verb: type, words: Sequence[str]) -> list[str]:
    """`--set a 1 --set b 2` as `--set a 1 b 2`: of an option with several values that is given twice, both count."""
    several = {one.flag for one in options_of(verb) if one.values in ("several", "pairs")}
    values: dict[str, list[str]] = {}
    kept: list[str] = []
    option = ""
    for word in words:
        if word.startswith("--"):
            option = word if word in several and list(words).count(word) > 1 else ""
            if not option or option not in values:
                kept.append(word)
            values.setdefault(option, [])
        elif option:
            values[option].append(word)
        else:
            kept.append(word)
    return list(_filled(kept, values, several))


def _filled(kept: list[str], values: dict[str, list[str]], several: set[str]) -> Iterator[str]:
    for word in kept:
        yield word
        yield from values.get(word, []) if word in several else []
