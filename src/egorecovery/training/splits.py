"""Which episodes a run trains on, and which it never does."""

import difflib
import hashlib
import shlex
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from egorecovery.capture.picture_fit import PictureFit
from egorecovery.episodes import EpisodeId, EpisodeStore, Source
from egorecovery.errors import RecipeError
from egorecovery.intent import IntentSpec
from egorecovery.intent.current_labels import label_state
from egorecovery.intent.label_store import LabelStore
from egorecovery.recovery import AnnotationJournal
from egorecovery.training.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Pools:
    """Episodes per source. `held_out` is the same for every budget and every seed of a store."""

    training: Mapping[Source, tuple[EpisodeId, ...]]
    held_out: Mapping[Source, tuple[EpisodeId, ...]]

    @property
    def episodes(self) -> list[tuple[Source, EpisodeId]]:
        """Training episodes, robots first."""
        return in_order(self.training)


def everything(store: EpisodeStore, recipe: Recipe) -> list[tuple[Source, EpisodeId]]:
    """All episodes that a recipe could use, as none were trained on."""
    return in_order(select(store, replace(recipe, held_out=len(store.ids())), checked=False).held_out)


def in_order(pool: Mapping[Source, tuple[EpisodeId, ...]]) -> list[tuple[Source, EpisodeId]]:
    return [(source, episode) for source in Source for episode in pool.get(source, ())]


def select(store: EpisodeStore, recipe: Recipe, checked: bool = True) -> Pools:
    """Held-out episodes first, by a rank that only the episode's name decides; then the budget, by the run's seed.

    A larger budget of the same seed contains the smaller one. Unchecked, a budget that cannot be filled is not.
    """
    usable = _usable(store, recipe.task, recipe.intent)
    if checked and not any(source.seen for source in usable.values()):
        raise RecipeError(_no_such_task(store, recipe.task))
    held_out: dict[Source, tuple[EpisodeId, ...]] = {}
    training: dict[Source, tuple[EpisodeId, ...]] = {}
    for source in Source:
        there = sorted(usable[source].kept, key=lambda episode: _rank("held out", episode))
        wanted = recipe.budget.of(source)
        held_out[source], rest = tuple(there[: recipe.held_out]), there[recipe.held_out :]
        if checked and wanted > len(rest):
            raise RecipeError(_too_few(store, recipe, source, usable))
        training[source] = tuple(sorted(rest, key=lambda episode: _rank(f"budget {recipe.seed}", episode))[:wanted])
    return Pools(training=training, held_out=held_out)


def with_budget_of_store(recipe: Recipe, store: EpisodeStore, given: Collection[str] = ()) -> Recipe:
    """The recipe on all episodes of its sources that are there, but for the held-out ones.

    `given` names sources, and held_out, that somebody asked for in so many numbers: these stay, the others fit.
    """
    usable = _usable(store, recipe.task, recipe.intent, report=False)  # `select` says what is skipped
    have = {source: len(usable[source].kept) for source in Source if recipe.budget.of(source)}
    if not have or not all(have.values()):  # a method's source is missing altogether: that is for `select` to say
        return recipe
    held_out = recipe.held_out
    if "held_out" not in given:
        spare = [count - recipe.budget.of(source) if source in given else count // 3 for source, count in have.items()]
        held_out = max(min(held_out, *spare), 0)
    there = {
        str(source): count - held_out
        for source, count in have.items()
        if source not in given and count > held_out  # too few of one: `select` says so
    }
    return replace(recipe, held_out=held_out, budget=replace(recipe.budget, **there))


def why_no_scores(asked: Recipe, store: EpisodeStore, given: Collection[str]) -> str | None:
    """That `with_budget_of_store` holds nothing out, where an amount that somebody asked for is the reason."""
    if not asked.held_out or "held_out" in given or with_budget_of_store(asked, store, given).held_out:
        return None
    usable = _usable(store, asked.task, asked.intent, report=False)
    have = {source: len(usable[source].kept) for source in Source if asked.budget.of(source)}
    left = min(asked.held_out, *(count // 3 for count in have.values()))
    takers = [source for source in have if source in given and asked.budget.of(source) == have[source]]
    if not takers or not left:  # too few episodes to hold any out
        return None
    taking = " and ".join(f"{_option(source)} {have[source]} takes all {have[source]}" for source in takers)
    fewer = " ".join(f"{_option(source)} {have[source] - left}" for source in takers)
    return (
        f"nothing is held out from any source, because {taking}: there will be no held-out scores; "
        f"{fewer} leaves {left} for them"
    )


def _option(source: Source) -> str:
    return f"--{source.replace('_', '-')}"


def with_picture_fit(recipe: Recipe, store: EpisodeStore, pools: Pools) -> Recipe:
    """The recipe with the rule that the robot's pictures went through: what feeds the policy later must use it too."""
    rules: dict[str, EpisodeId] = {}
    for source, episode in pools.episodes:
        if not source.is_human:
            rule = store.card(episode).picture_fit
            rules.setdefault("exact" if rule is None else PictureFit.from_json(rule).fit, episode)
    if len(rules) > 1:
        ways = ", ".join(f"{episode} by {fit}" for fit, episode in rules.items())
        raise RecipeError(
            f"{store.root}: pictures of robot episodes were fitted in different ways ({ways}); import them in one way"
        )
    fit = next(iter(rules), "exact")
    if recipe.policy.picture_fit not in ("exact", fit):
        raise RecipeError(
            f"policy.picture_fit is {recipe.policy.picture_fit}, but the pictures of {store.root} were fitted by {fit}"
        )
    return replace(recipe, policy=replace(recipe.policy, picture_fit=fit))


@dataclass(frozen=True, kw_only=True)
class _Usable:
    kept: list[EpisodeId]
    discarded: int
    unannotated: int
    stale: int

    @property
    def seen(self) -> int:
        return len(self.kept) + self.discarded + self.unannotated + self.stale


def _usable(store: EpisodeStore, task: str, spec: IntentSpec, report: bool = True) -> dict[Source, _Usable]:
    """Episodes of a task that are annotated, kept and labelled."""
    annotations = AnnotationJournal(store.annotations_path).latest()
    labels = LabelStore(store.labels_path)
    kept: dict[Source, list[EpisodeId]] = {source: [] for source in Source}
    left_out = {source: {"discarded": 0, "unannotated": 0, "stale": 0} for source in Source}
    damaged = store.damaged_among(store.ids())
    for episode, problem in damaged.items() if report else ():
        print(f"{episode} is skipped: {problem}", file=sys.stderr)
    for episode in (name for name in store.ids() if name not in damaged):
        card = store.card(episode)
        if card.task.name != task:
            continue
        label_card = labels.card(episode)
        state = label_state(card, annotations.get(episode), label_card, spec)
        if state == "current":
            kept[card.source].append(episode)
            continue
        left_out[card.source][state] += 1
        if report and state == "stale" and label_card is None and labels.there(episode):
            print(f"{episode} is skipped: its labels are damaged; run 'egorecovery label'", file=sys.stderr)
    return {source: _Usable(kept=kept[source], **left_out[source]) for source in Source}


def _rank(purpose: str, episode: str) -> str:
    return hashlib.sha256(f"{purpose}/{episode}".encode()).hexdigest()


def _no_such_task(store: EpisodeStore, task: str) -> str:
    """A mistyped task is no question of budgets."""
    damaged = store.damaged_among(store.ids())
    there = {store.card(episode).task.name for episode in store.ids() if episode not in damaged}
    if not there:
        return f"{store.root} has no readable episode; add some with 'egorecovery simulate' or 'egorecovery import'"
    near = difflib.get_close_matches(task, there, n=1)
    hint = f"did you mean --task {near[0]}?" if near else f"it has {', '.join(sorted(there))}"
    return f"{store.root} has no episode of task '{task}'; {hint}"


def _too_few(store: EpisodeStore, recipe: Recipe, source: Source, usable: "dict[Source, _Usable]") -> str:
    episodes = usable[source]
    there = len(episodes.kept)
    reasons = [
        f"{count} {words}"
        for count, words in (
            (episodes.discarded, "discarded by their annotation"),
            (episodes.unannotated, "not annotated"),
            (episodes.stale, "without current labels"),
        )
        if count
    ]
    held = min(recipe.held_out, there)
    return (
        f"{store.root}: the budget asks for {recipe.budget.of(source)} {source} episodes of {recipe.task}, but "
        f"{there - held} can be used ({there} labelled, {held} of them held out"
        + (f"; left out: {', '.join(reasons)}" if reasons else "")
        + f"); {_remedy(store, recipe, usable)}"
    )


def _remedy(store: EpisodeStore, recipe: Recipe, usable: "dict[Source, _Usable]") -> str:
    """Of the next step only: what it leaves short is said when it is done."""
    wanted = [source for source in Source if recipe.budget.of(source)]
    where = shlex.quote(str(store.root))
    if any(usable[source].unannotated for source in wanted):
        return f"run 'egorecovery annotate {where}' and 'egorecovery label {where}' first"
    if any(usable[source].stale for source in wanted):
        return f"run 'egorecovery label {where}' first"
    have = {source: len(usable[source].kept) for source in wanted}
    if not all(have.values()):
        absent = ", ".join(source for source, count in have.items() if not count)
        return f"there is no {absent} episode: collect some, or choose a --method that trains without"
    held_out = min(recipe.held_out, max(min(have.values()) // 3, 0))
    options = [
        f"{_option(source)} {count - held_out}"
        for source, count in have.items()
        if count - held_out < recipe.budget.of(source)
    ]
    options += [f"--set held_out {held_out}"] if held_out != recipe.held_out else []
    return f"collect more, or train on fewer with {' '.join(options)}"
