"""The network: shapes, sizes, pretrained vision, who may influence whom, and its configuration."""

import json
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from hypothesis import given, settings  # noqa: E402 - torch is an extra
from hypothesis import strategies as st  # noqa: E402

from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.policy import CorrectionConfig, LossWeights, PolicyConfig, VisionConfig  # noqa: E402
from egorecovery.policy.config_json import changed, differences, flat  # noqa: E402
from egorecovery.policy.policy import Policy  # noqa: E402
from egorecovery.policy.vision import ViewEncoder, transformers_config  # noqa: E402
from egorecovery.storage.typed_json import from_json, to_json  # noqa: E402
from egorecovery.training.methods import METHODS  # noqa: E402
from egorecovery.training.recipe import RECIPES, Recipe, paper  # noqa: E402
from tiny_policy import HUMANS, ROBOTS, observations, tiny_config, tiny_policy  # noqa: E402


def on_paper(config: PolicyConfig) -> Policy:
    """Every tensor's shape, no tensor's memory."""
    with torch.device("meta"):
        return Policy(config)


def millions(module: torch.nn.Module) -> float:
    return sum(weight.numel() for weight in module.parameters()) / 1e6


def test_a_prediction_has_the_shapes_its_names_say():
    policy = tiny_policy()
    prediction = policy(*observations(policy.config), ROBOTS)
    found = {name: tuple(value.shape) for name, value in vars(prediction).items()}
    assert found == {
        "pooled_BD": (ROBOTS + HUMANS, 32),
        "robot_action_RHA": (ROBOTS, 5, 14),
        "human_action_MHA": (HUMANS, 5, 14),
        "intent_BC": (ROBOTS + HUMANS, 4),
        "gate_logit_B": (ROBOTS + HUMANS,),
        "film_scale_RD": (ROBOTS, 32),
        "film_shift_RD": (ROBOTS, 32),
    }


@pytest.mark.parametrize("robots", [0, ROBOTS + HUMANS])
def test_a_batch_of_one_embodiment_gives_actions_of_that_one_alone(robots):
    policy = tiny_policy()
    prediction = policy(*observations(policy.config), robots)
    assert (prediction.robot_action_RHA is None) == (robots == 0)
    assert (prediction.human_action_MHA is None) == (robots > 0)


def test_the_papers_policy_has_the_sizes_of_the_design():
    config = paper("cube_stack").policy
    policy = on_paper(config)
    assert millions(policy) == pytest.approx(66, abs=1)
    assert len(policy.views) == 3
    assert millions(policy.views[0]) == pytest.approx(11.18, abs=0.01)  # ResNet-18 without its classifier
    assert config.cells_along_side**2 == 49
    assert (config.action_tokens, config.stem_tokens, config.width, config.heads) == (64, 16, 256, 8)
    assert policy.place_ND.shape == (4 * 16, 256)  # three views and proprioception
    assert len(policy.trunk.blocks) == 16
    for head in (policy.robot, policy.human):
        assert len(head.decoder.layers) == 8
        assert head.decoder.queries.tokens_ND.shape == (100, 256)
        assert head.projection.out_features == 14
    assert (policy.intent.out_features, policy.gate.out_features) == (4, 1)


def test_drop_path_rises_linearly_to_a_tenth_in_pairs_of_branches():
    rates = PolicyConfig().drop_path_rates
    assert len(rates) == 32
    assert rates[:2] == (0, 0)
    assert rates[-2:] == pytest.approx((0.1, 0.1))
    assert all(rates[2 * block] == rates[2 * block + 1] == pytest.approx(0.1 * block / 15) for block in range(16))


def test_a_policy_without_human_data_has_no_human_part():
    names = [name for name, _ in tiny_policy(human_decoder=False).named_parameters()]
    assert not [name for name in names if "human" in name]


def test_a_policy_without_correction_has_no_head_for_it():
    policy = Policy(replace(tiny_config(), correction=None))
    assert not {"pooling", "intent", "gate", "modulation"} & {name for name, _ in policy.named_children() if _}
    prediction = policy(*observations(policy.config), ROBOTS)
    assert prediction.intent_BC is None
    assert prediction.gate_logit_B is None
    assert prediction.film_scale_RD is None


@torch.no_grad()
def test_robot_rows_do_not_depend_on_the_human_rows_of_a_batch():
    policy = tiny_policy().eval()
    images, state = observations(policy.config)
    other_images, other_state = images.clone(), state.clone()
    other_images[:, ROBOTS:] *= -3
    other_state[ROBOTS:] += 5
    whole = policy(images, state, ROBOTS)
    disturbed = policy(other_images, other_state, ROBOTS)
    alone = policy(images[:, :ROBOTS], state[:ROBOTS], ROBOTS)
    for name in ("robot_action_RHA", "film_scale_RD", "intent_BC", "gate_logit_B"):
        mine = getattr(whole, name)[:ROBOTS]
        assert torch.equal(mine, getattr(disturbed, name)[:ROBOTS]), name
        torch.testing.assert_close(mine, getattr(alone, name), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(whole.human_action_MHA, disturbed.human_action_MHA, atol=1e-3)


@torch.no_grad()
def test_drop_path_factor_zero_removes_every_branch_of_that_sample_and_of_no_other():
    trunk = tiny_policy().trunk
    stream_BND = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0))
    keep_KB = torch.ones(4, 3)
    keep_KB[:, 1] = 0
    found_BND, whole_BND = trunk(stream_BND, keep_KB), trunk(stream_BND, None)
    torch.testing.assert_close(found_BND[1], trunk.final_norm(stream_BND)[1])
    assert not torch.allclose(found_BND[1], whole_BND[1], atol=1e-3)
    torch.testing.assert_close(found_BND[[0, 2]], whole_BND[[0, 2]])


def test_the_last_block_leaves_out_tokens_that_nobody_reads_and_changes_nothing_else():
    trunk = tiny_policy().trunk
    stream_BND = torch.randn(3, 7, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    keep_KB = torch.rand(4, 3, generator=torch.Generator().manual_seed(1))
    towards_BND = torch.randn(3, 4, 32, generator=torch.Generator().manual_seed(2))
    weights = [stream_BND, *trunk.parameters()]
    all_BND, some_BND = trunk(stream_BND, keep_KB)[:, :4], trunk(stream_BND, keep_KB, wanted=4)
    torch.testing.assert_close(some_BND, all_BND, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(found, weights, towards_BND) for found in (all_BND, some_BND)]
    for of_all, of_some in zip(*gradients, strict=True):
        torch.testing.assert_close(of_some, of_all, rtol=1e-4, atol=1e-5)


def test_a_decoder_whose_queries_come_once_says_what_each_sample_alone_would_hear():
    decoder = tiny_policy().robot.decoder
    tokens_BND = torch.randn(3, 4, 32, generator=torch.Generator().manual_seed(0), requires_grad=True)
    together_BHD = decoder(tokens_BND)
    alone_BHD = torch.cat([decoder(one_1ND) for one_1ND in tokens_BND.split(1)])
    torch.testing.assert_close(together_BHD, alone_BHD, rtol=1e-5, atol=1e-5)
    weights = [tokens_BND, *decoder.parameters()]
    gradients = [torch.autograd.grad(found.square().sum(), weights) for found in (together_BHD, alone_BHD)]
    for of_batch, of_samples in zip(*gradients, strict=True):
        torch.testing.assert_close(of_batch, of_samples, rtol=1e-4, atol=1e-4)


def test_a_dropped_branch_is_not_trained():
    policy = tiny_policy()
    keep_KB = torch.ones(4, ROBOTS + HUMANS)
    keep_KB[1] = 0  # the first block's MLP
    policy(*observations(policy.config), ROBOTS, keep_KB).robot_action_RHA.sum().backward()
    first, second = policy.trunk.blocks
    assert not any(weight.grad.any() for weight in first.mlp.parameters())
    assert all(weight.grad.any() for weight in second.mlp.parameters())
    assert first.attention.qkv.weight.grad.any()


def pretrained_network(config: VisionConfig) -> transformers.ResNetModel:
    """Weights and running statistics as after some training: nothing at its start value."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = transformers.ResNetModel(transformers_config(config)).eval()
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor, low, high in (
                (module.weight, 0.5, 1.5),
                (module.bias, -0.5, 0.5),
                (module.running_mean, -0.5, 0.5),
                (module.running_var, 0.001, 1.0),  # small enough for the norm's epsilon to show
            ):
                tensor.data.uniform_(low, high, generator=generator)
    return network


FROZEN = VisionConfig(norm="frozen_batch", stem_width=16, widths=(16, 32, 48), depths=(2, 1, 2))


@torch.no_grad()
@pytest.mark.parametrize("block", ["basic", "bottleneck"])
def test_the_view_encoder_computes_what_transformers_computes_with_the_same_pretrained_weights(tmp_path, block):
    config = replace(FROZEN, block=block)
    network = pretrained_network(config)
    network.save_pretrained(tmp_path)
    encoder = ViewEncoder(config)
    encoder.load_pretrained(str(tmp_path))
    pixels_B3HW = torch.randn(2, 3, 48, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    wanted_BPC = network.double()(pixels_B3HW).last_hidden_state.flatten(2).transpose(1, 2)
    assert wanted_BPC.shape == (2, (48 // config.stride) * (32 // config.stride), 48)
    torch.testing.assert_close(encoder.double()(pixels_B3HW), wanted_BPC, rtol=1e-9, atol=1e-9)


def test_frozen_norms_are_not_trained_but_are_saved():
    encoder = ViewEncoder(FROZEN)
    assert not [name for name, _ in encoder.named_parameters() if "normalization" in name]
    assert [name for name in encoder.state_dict() if "running_var" in name]


def test_pretrained_weights_of_another_structure_are_refused_by_the_first_tensor_that_does_not_fit(tmp_path):
    pretrained_network(FROZEN).save_pretrained(tmp_path)
    with pytest.raises(RecipeError, match=r"does not have the structure .* should have shape .* set vision.widths"):
        ViewEncoder(replace(FROZEN, widths=(16, 32, 64))).load_pretrained(str(tmp_path))


def test_pretrained_weights_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(RecipeError, match="cannot be loaded"):
        ViewEncoder(FROZEN).load_pretrained(str(tmp_path / "nowhere"))


@torch.no_grad()
def test_vision_from_scratch_looks_at_each_picture_alone():
    encoder = ViewEncoder(tiny_config().vision)
    pixels_B3HW = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(encoder(pixels_B3HW)[:1], encoder(pixels_B3HW[:1]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PolicyConfig(width=250), "width 250 is not a multiple of 8 heads"),
        (lambda: PolicyConfig(image_size=100), "image_size 100 is not a multiple of the vision stride 32"),
        (lambda: PolicyConfig(cameras=()), "at least one camera"),
        (lambda: PolicyConfig(drop_path=1.0), "drop_path must lie in 0..1"),
        (lambda: PolicyConfig(blocks=0), "blocks must be positive"),
        (lambda: PolicyConfig(horizon=0), "horizon must be positive"),
        (lambda: VisionConfig(widths=(64, 128)), "one depth per width"),
        (lambda: VisionConfig(pretrained="somewhere"), 'set norm to "frozen_batch"'),
        (lambda: VisionConfig(widths=(64, 100), depths=(1, 1)), "width 100 is not a multiple of group_channels 16"),
        (lambda: VisionConfig(block="bottleneck", stem_width=32, widths=(32,), depths=(1,)), "group_channels"),
        (lambda: CorrectionConfig(intent_dim=0), "intent_dim must be positive"),
        (lambda: CorrectionConfig(gate_floor=1.0), "gate_floor must lie in 0..1"),
        (lambda: LossWeights(nominal=-0.1), "losses.nominal must be finite and not be negative"),
        (lambda: LossWeights(intent=float("nan")), "losses.intent"),
    ],
)
def test_sizes_and_switches_that_make_no_sense_are_refused(make, message):
    with pytest.raises(RecipeError, match=message):
        make()


def test_frozen_norms_need_no_groups():
    assert VisionConfig(norm="frozen_batch", stem_width=10, widths=(10,), depths=(1,)).stride == 4


ALL_RECIPES = [
    pytest.param(method(recipe("cube_stack")), id=f"{size}-{name}")
    for size, recipe in RECIPES.items()
    for name, method in METHODS.items()
]


@pytest.mark.parametrize("recipe", ALL_RECIPES)
def test_every_recipe_of_every_method_survives_json(recipe):
    again = from_json(Recipe, json.loads(json.dumps(to_json(recipe))), "recipe", RecipeError)
    assert again == recipe
    assert differences(again, recipe) == []


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("polciy", {}, r"recipe\.polciy is not known; did you mean policy\?"),
        ("batch", {"robots": 3}, r"recipe\.batch\.robots is not known; did you mean robot\?"),
        ("batch", {"zebra": 3}, r"recipe\.batch\.zebra is not known; it may have robot, human"),
        ("batch", 3, r"recipe\.batch must be an object, got 3"),
        ("seed", "0", r"recipe\.seed must be a whole number, got '0'"),
        ("seed", True, r"recipe\.seed must be a whole number, got True"),
        ("segment_mask", 1, r"recipe\.segment_mask must be true or false, got 1"),
        ("normalisation", "none", r"recipe\.normalisation must be one of zscore, quantile, got 'none'"),
        ("policy", {"cameras": ["head", "chest"]}, r"recipe\.policy\.cameras\[1\] must be one of head, .*'chest'"),
        ("policy", {"cameras": "head"}, r"recipe\.policy\.cameras must be a list"),
        ("policy", {"correction": {"modulation": "sometimes"}}, r"correction\.modulation must be one of gated"),
    ],
)
def test_json_that_is_not_a_recipe_is_refused_by_the_name_of_the_field(where, value, message):
    record = to_json(paper("cube_stack"))
    with pytest.raises(RecipeError, match=message):
        from_json(Recipe, {**record, where: value}, "recipe", RecipeError)


def test_a_recipe_without_what_it_must_have_is_refused_by_the_name_of_the_field():
    record = to_json(paper("cube_stack"))
    del record["task"]
    with pytest.raises(RecipeError, match=r"recipe\.task is missing"):
        from_json(Recipe, record, "recipe", RecipeError)


def test_dotted_settings_change_just_those_fields():
    before = paper("cube_stack")
    after = changed(
        before,
        {
            "optimisation.steps": "200",
            "losses.intent": "1",
            "policy.correction.modulation": "always_on",
            "policy.cameras": '["head"]',
            "optimisation.average_decay": "0.99",
        },
    )
    assert differences(before, after) == [
        "policy.cameras: ['head', 'left_wrist', 'right_wrist'] against ['head']",
        "policy.correction.modulation: gated against always_on",
        "losses.intent: 0.05 against 1.0",
        "optimisation.steps: 20000 against 200",
        "optimisation.average_decay: None against 0.99",
    ]
    assert changed(after, {"optimisation.average_decay": "null"}).optimisation.average_decay is None


def test_settings_of_text_stay_text_when_they_look_like_numbers():
    assert changed(paper("cube_stack"), {"name": "2026"}).name == "2026"


@settings(max_examples=50, deadline=None)
@given(st.data())
def test_a_setting_given_as_it_is_changes_nothing(data):
    recipe = paper("cube_stack")
    name, value = data.draw(st.sampled_from(sorted(flat(to_json(recipe)).items(), key=str)))
    assert changed(recipe, {name: json.dumps(value)}) == recipe


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("optimisation.step", "there is no setting 'optimisation.step'; did you mean 'optimisation.steps'?"),
        ("policy.widht", "did you mean 'policy.width'?"),
        ("seed.value", "there is no setting 'seed.value'"),
        ("", "there is no setting ''"),
    ],
)
def test_a_mistyped_setting_gets_a_suggestion(name, message):
    with pytest.raises(RecipeError) as refusal:
        changed(paper("cube_stack"), {name: "1"})
    assert message in str(refusal.value)


def test_a_setting_that_makes_a_recipe_nonsense_is_refused():
    with pytest.raises(RecipeError, match="width 250"):
        changed(paper("cube_stack"), {"policy.width": "250"})


def test_differences_name_fields_that_one_side_lacks():
    full = paper("cube_stack")
    found = differences(full, replace(full, policy=replace(full.policy, correction=None)))
    assert "policy.correction.intent_dim: 4 against absent" in found
    assert "policy.correction: absent against None" in found
    assert all(line.startswith("policy.correction") for line in found)
