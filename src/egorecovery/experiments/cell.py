"""A cell: one condition, trained once on one task and evaluated in one way. Experiments are lists of cells."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import Any

from egorecovery.errors import RecipeError
from egorecovery.evaluation.protocol import EvaluationProtocol
from egorecovery.experiments.condition import Condition, episode_counts
from egorecovery.policy.config_json import changed
from egorecovery.storage.checksummed_json import digest
from egorecovery.storage.typed_json import to_json
from egorecovery.training import METHODS, Recipe
from egorecovery.training.human_supervision import HumanSupervision
from egorecovery.workcell.collection import Order

RecipeOf = Callable[[str], Recipe]  # a task's recipe, such as `RECIPES["bench"]`
ProtocolOf = Callable[[str], EvaluationProtocol]  # a task's protocol, such as `bench_protocol`
SHORT = 16  # hex digits of a hash in a folder's name
# Settings that are younger than published results, by part of a card, and what was done before there were any. At that
# value they are left out of hashes, so that older results and trainings keep theirs.
ADDED_LATER: dict[str, dict[tuple[str, ...], Any]] = {
    "recipe": {
        ("policy", "relative_actions"): False,
        ("policy", "action_space"): "joint",
        ("policy", "decoders"): "separate",
        ("policy", "hidden_embodiment"): False,
        ("policy", "near_m"): None,
        ("policy", "picture_fit"): "exact",
        ("losses", "human_beta"): None,
        ("human_supervision",): to_json(HumanSupervision()),
        ("intent_target",): "dct_magnitude",
    },
    "orders": {
        ("stand_in",): False,
        ("hidden_embodiment",): False,
        ("near_misses",): False,
        ("off_centre_grips",): False,
        ("turned_hands",): False,
    },
}


def without_unused_settings(part: str, settings: Any) -> Any:
    """A part of a card as it decides results: without younger settings that change nothing."""
    if isinstance(settings, list):
        return [without_unused_settings(part, entry) for entry in settings]
    kept = deepcopy(settings)
    for (*path, last), former in ADDED_LATER.get(part, {}).items():
        place = kept
        for name in path:
            place = place[name]
        if last in place and place[last] == former:
            del place[last]
    return kept


@dataclass(frozen=True, kw_only=True)
class Cell(Condition):
    """A condition on one task, trained with one seed."""

    suite: str
    task: str
    seed: int  # of the training

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise RecipeError(f"there is no method {self.method!r}; there are {', '.join(METHODS)}")
        if self.settings and not self.variant:
            raise RecipeError(f"{self.method} with other settings needs a variant's name: {dict(self.settings)}")

    @property
    def id(self) -> str:
        """Readable, safe as a folder, and different for every cell of a suite."""
        episodes = ".".join(map(str, episode_counts(self.budget)))
        parts = [self.task, self.method, f"b{episodes}", *self._unusual_data]
        parts += [str(self.variant)] * bool(self.settings)
        parts += ["zero_intent"] * self.intervention.zero_intent
        parts += [f"gate_{self.intervention.gate}"] * (self.intervention.gate != "learned")
        return "-".join([*parts, f"s{self.seed}"])

    @property
    def store(self) -> str:
        """The name of its data. Budgets are drawn from all that a store holds, so each way to collect has its own."""
        return "-".join([self.task, *self._unusual_data])

    @property
    def _unusual_data(self) -> list[str]:
        return (
            [self.robot_failures] * (self.robot_failures != "staged")
            + [self.humans] * (self.humans != "people")
            + ["hidden"] * self.hidden_embodiment
            + ["off_centre"] * self.off_centre_grips
            + ["turned"] * self.turned_hands
        )

    def recipe(self, recipe_of: RecipeOf) -> Recipe:
        recipe = METHODS[self.method](replace(recipe_of(self.task).with_budget(self.budget), seed=self.seed))
        if recipe.budget != self.budget:
            raise RecipeError(f"{self.id}: {self.method} would train on {recipe.budget}, not on the cell's budget")
        recipe = changed(recipe, dict(self.settings))
        return replace(recipe, policy=replace(recipe.policy, hidden_embodiment=self.hidden_embodiment))


@dataclass(frozen=True, kw_only=True)
class CellPlan:
    """A cell with everything that decides its result."""

    cell: Cell
    recipe: Recipe
    orders: tuple[Order, ...]  # of the sources it trains on: the pool its budget is drawn from
    protocol: EvaluationProtocol

    @property
    def id(self) -> str:
        return self.cell.id

    @property
    def _settings(self) -> dict[str, Any]:
        return without_unused_settings("recipe", to_json(self.recipe))

    @property
    def _orders(self) -> list[dict[str, Any]]:
        return without_unused_settings("orders", to_json(self.orders))

    @property
    def training_id(self) -> str:
        """The same for cells that differ only in what is done to the trained policy."""
        return digest({"recipe": self._settings, "orders": self._orders})[:SHORT]

    @property
    def recipe_hash(self) -> str:
        return digest(self._settings)

    @property
    def hash(self) -> str:
        """Changes if and only if the result could; the number of rollouts adds to a result and does not change it."""
        return digest(self.identity())

    def identity(self) -> dict[str, Any]:
        return {
            "recipe": self._settings,
            "orders": self._orders,
            "intervention": asdict(self.cell.intervention),
            "protocol": self.protocol.identity(),
        }

    def card(self) -> dict[str, Any]:
        """What `cell.json` says before there is a result."""
        return {
            "schema": 1,
            **asdict(self.cell),
            "settings": dict(self.cell.settings),
            "recipe": to_json(self.recipe),
            "recipe_hash": self.recipe_hash,
            "protocol": asdict(self.protocol),
            "orders": to_json(self.orders),
            "training_id": self.training_id,
            "cell_hash": self.hash,
        }
