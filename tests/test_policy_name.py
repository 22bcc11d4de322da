"""What a policy is called, wherever a person meets it."""

from dataclasses import replace

import pytest

from egorecovery.policy.policy_name import METHOD_WORDS, method_of, method_words, policy_name
from egorecovery.storage.typed_json import to_json
from egorecovery.training import METHODS, RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("method", METHODS)
def test_the_method_of_a_policy_is_read_off_its_recipe(method, recipe):
    assert method_of(to_json(METHODS[method](RECIPES[recipe]("cube_stack")))) == method


def test_every_special_name_is_that_of_a_method():
    assert set(METHOD_WORDS) <= set(METHODS)


def test_a_policy_is_named_by_method_task_and_step_in_words():
    recipe = to_json(METHODS["robot_recovery_effector"](RECIPES["demo"]("cube_stack")))
    assert policy_name(recipe, 2400) == "robot recovery, effector space; cube stack; step 2,400"


def test_other_amounts_of_data_change_nothing_in_the_name():
    recipe = METHODS["direct_human_recovery_mix"](RECIPES["bench"]("cup_brush"))
    fewer = recipe.with_budget(replace(recipe.budget, robot_success=3, robot_recovery=2, human_recovery=1))
    assert method_words(to_json(fewer)) == "direct human recovery mix"


@pytest.mark.parametrize("recipe", [{"name": "mine"}, {"name": "mine", "policy": 3, "budget": []}])
def test_a_recipe_of_another_kind_lends_its_own_name(recipe):
    assert policy_name({**recipe, "task": "fold_towel"}, 7) == "mine; fold towel; step 7"
