"""What a policy is called: its method in words, its task, its step. Read off the recipe, which has no field for it."""

from collections.abc import Mapping
from typing import Any

METHOD_WORDS = {  # where an underscore for a space is not enough
    "robot_success_human_success": "robot and human success",
    "robot_success_human_recovery": "robot success and human recovery",
    "egorecovery": "EgoRecovery",
    "robot_success_effector": "robot success, effector space",
    "robot_recovery_effector": "robot recovery, effector space",
    "direct_mix_effector": "direct mix, effector space",
    "shared_egorecovery": "shared decoder with gate and intent",
}
MODULATIONS = {"none": "without_intent_modulation", "always_on": "always_on_modulation"}
PLAIN = {  # methods without gate and intent, by what they are trained on beside robot successes
    frozenset[str](): "robot_success",
    frozenset({"human_success"}): "robot_success_human_success",
    frozenset({"human_recovery"}): "robot_success_human_recovery",
    frozenset({"robot_recovery"}): "robot_recovery",
    frozenset({"robot_recovery", "human_success"}): "human_success_mix",
    frozenset({"robot_recovery", "human_recovery"}): "direct_human_recovery_mix",
}


def policy_name(recipe: Mapping[str, Any], step: int) -> str:
    """Such as: robot recovery, effector space; cube stack; step 2,400."""
    return f"{method_words(recipe)}; {str(recipe.get('task')).replace('_', ' ')}; step {step:,}"


def method_words(recipe: Mapping[str, Any]) -> str:
    """The method in words; the recipe's own name where it is no recipe of this project's."""
    method = method_of(recipe)
    if method is None:
        return str(recipe.get("name"))
    return METHOD_WORDS.get(method, method.replace("_", " "))


def method_of(recipe: Mapping[str, Any]) -> str | None:
    """Which of `training.methods` made the recipe, a recipe as JSON: it may be somebody else's."""
    policy, budget = recipe.get("policy"), recipe.get("budget")
    if not (isinstance(policy, Mapping) and isinstance(budget, Mapping)):
        return None
    shared, correction = policy.get("decoders") == "shared", policy.get("correction")
    if isinstance(correction, Mapping):
        return "shared_egorecovery" if shared else _corrected(recipe, correction)
    if shared:
        return "shared_decoder"
    sources = frozenset(str(name) for name, count in budget.items() if count) - {"robot_success"}
    if policy.get("action_space") != "effector":
        return PLAIN.get(sources)
    if any(name.startswith("human") for name in sources):
        return "direct_mix_effector"
    return "robot_recovery_effector" if sources else "robot_success_effector"


def _corrected(recipe: Mapping[str, Any], correction: Mapping[str, Any]) -> str:
    losses = recipe.get("losses")
    if recipe.get("intent_target") == "raw_trajectory":
        return "raw_future_trajectory"
    if isinstance(losses, Mapping) and losses.get("intent") == 0:
        return "without_intent_loss"
    if recipe.get("segment_mask") is False:
        return "without_segment_mask"
    return MODULATIONS.get(str(correction.get("modulation")), "egorecovery")
