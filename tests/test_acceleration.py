"""Acceleration: whether it is used, and that it computes what plain torch computes.

Kernels need a CUDA device, or TRITON_INTERPRET=1 and Triton; everything around them is tested without.
"""

import copy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("egorecovery.acceleration.modules")

from torch import Tensor  # noqa: E402 - torch is an extra

from egorecovery import accelerator  # noqa: E402
from egorecovery.acceleration import kernels, parity, verdicts  # noqa: E402
from egorecovery.acceleration.kernels.dispatch import INTERPRETED, triton  # noqa: E402
from egorecovery.acceleration.modules import ACCELERATED, PARTS, accelerate  # noqa: E402
from egorecovery.acceleration.replacements import DeferringBackward, concurrent_objective  # noqa: E402
from egorecovery.acceleration.verdicts import Verdict  # noqa: E402
from egorecovery.cli.main import main  # noqa: E402
from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.policy import CorrectionConfig, VisionConfig  # noqa: E402
from egorecovery.policy.objective import objective  # noqa: E402
from egorecovery.training.backend import Backend, backend_on  # noqa: E402
from tiny_policy import HUMANS, ROBOTS, observations, tiny_config, tiny_policy  # noqa: E402

CPU, GPU = torch.device("cpu"), torch.device("cuda")
HALF = torch.bfloat16
CUDA = torch.cuda.is_available()
WITHOUT_KERNELS = tuple(part for part in PARTS if part not in ("augmentation", "optimiser"))
plain_cpu = pytest.mark.skipif(INTERPRETED, reason="the CPU runs kernels under TRITON_INTERPRET")
KIND = {"gpu": "a GPU", "precision": "bfloat16", "torch": "2.11"}
POLICIES = {
    "the paper's": {},
    "film on humans": {"correction": CorrectionConfig(film_std=0.5, film_on_human=True)},
    "frozen batch norm": {"vision": VisionConfig(norm="frozen_batch", stem_width=8, widths=(8, 16), depths=(1, 1))},
    "bottlenecks": {
        "vision": VisionConfig(block="bottleneck", stem_width=8, widths=(16, 32), depths=(1, 2), group_channels=4)
    },
}


def predicted_and_gradients(policy: torch.nn.Module, fast: bool) -> dict[str, Tensor]:
    prediction = policy(*observations(policy.config), ROBOTS)
    targets = parity.made_up_targets(policy.config, ROBOTS + HUMANS, torch.Generator().manual_seed(0), CPU)
    terms = (concurrent_objective if fast else objective)(prediction, targets, parity.LossWeights())
    destinations = {id(weight): torch.zeros_like(weight) for weight in policy.parameters()}
    DeferringBackward()(terms["loss"], destinations) if fast else terms["loss"].backward()
    outputs = {name: value for name, value in vars(prediction).items() if isinstance(value, Tensor)}
    gradients = {name: weight.grad for name, weight in policy.named_parameters() if weight.grad is not None}
    return {**outputs, **terms, **gradients}


@plain_cpu
@pytest.mark.parametrize("changes", POLICIES.values(), ids=POLICIES.keys())
def test_where_no_kernel_runs_an_accelerated_policy_gives_the_bits_of_the_plain_one(changes):
    plain = tiny_policy(**changes)
    fast = copy.deepcopy(plain)
    accelerate(fast)
    wanted, found = predicted_and_gradients(plain, fast=False), predicted_and_gradients(fast, fast=True)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if not torch.equal(found[name], wanted[name])] == []


def test_accelerating_keeps_every_parameter_its_name_and_its_memory():
    policy = tiny_policy()
    before = policy.state_dict(keep_vars=True)
    accelerate(policy)
    after = policy.state_dict(keep_vars=True)
    assert list(after) == list(before)
    assert all(after[name] is before[name] for name in before)
    assert {type(module) for module in policy.modules()}.isdisjoint(ACCELERATED)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_left_out(part):
    policy = tiny_policy()
    chosen = accelerator.replacements(CPU, [each for each in PARTS if each != part])
    chosen["prepare"](policy)
    Backend(**chosen)  # every name is an operation of the training step
    left = {type(module) for module in policy.modules() if type(module) in ACCELERATED}
    assert left == {plain for plain, (_, parts) in ACCELERATED.items() if set(parts) == {part}}


def test_an_unknown_part_is_refused_by_name():
    with pytest.raises(RecipeError, match="no part 'fast'; its parts are attention"):
        accelerator.replacements(CPU, ["fast"])


def test_a_cpu_computes_in_plain_torch_and_nothing_is_said():
    said: list[str] = []
    assert not accelerator.chosen("auto", CPU, torch.float32, said.append)
    assert not accelerator.chosen("off", GPU, HALF, said.append)
    assert said == []
    assert backend_on(CPU, accelerated=False) == Backend()


@pytest.mark.skipif(INTERPRETED and triton is not None, reason="kernels run on the CPU here")
def test_acceleration_that_is_asked_for_on_a_cpu_is_refused_with_the_reason(tmp_path, capsys):
    for verb in (
        ["bench", "--device", "cpu"],
        ["train", str(tmp_path), "--task", "cube_stack", "--run", str(tmp_path)],
    ):
        assert main([*verb, "--acceleration", "on", "--device", "cpu"]) == 2
        message = " ".join(capsys.readouterr().err.split())
        assert "acceleration 'on' cannot be had" in message
        assert "use 'auto' or 'off'" in message


def test_a_gpu_without_triton_computes_in_plain_torch_and_says_so(monkeypatch):
    monkeypatch.setattr("egorecovery.acceleration.kernels.dispatch.triton", None)
    said: list[str] = []
    assert not accelerator.chosen("auto", GPU, HALF, said.append)
    assert said == ["acceleration is off: Triton is not installed (pip install triton); plain torch computes"]


class Checks:
    """Gives the verdicts of parity checks in turn, or raises them, and counts."""

    def __init__(self, *verdicts: Verdict | Exception) -> None:
        self.verdicts, self.said, self.done = list(verdicts), [], 0

    def __call__(self, device: torch.device, precision: torch.dtype) -> Verdict:
        self.done += 1
        verdict = self.verdicts.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def asked(self) -> bool:
        return verdicts.passes_parity_check(GPU, HALF, self.said.append, self)


PASSED, FAILED = Verdict(passed=True, words="all well"), Verdict(passed=False, words="gradients off by 0.5")


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(verdicts, "kind_of_gpu", lambda device, precision: dict(KIND))
    return tmp_path / "egorecovery" / "acceleration.json"


def test_a_kind_of_gpu_is_checked_once_and_its_verdict_is_logged_and_kept(cache, monkeypatch):
    checks = Checks(PASSED, FAILED)
    assert checks.asked()
    assert checks.asked()
    assert checks.done == 1
    assert checks.said == [
        "first use on a GPU, bfloat16: checking accelerated kernels against plain torch; the verdict is kept",
        "acceleration is on: the parity check passed on a GPU, bfloat16 (all well)",
    ]
    monkeypatch.setattr(verdicts, "kind_of_gpu", lambda device, precision: {**KIND, "torch": "2.12"})
    assert not checks.asked()  # another kind: checked again
    assert checks.done == 2


def test_a_failed_check_is_kept_and_said_every_time(cache):
    checks = Checks(FAILED)
    assert not checks.asked()
    assert not checks.asked()
    assert checks.done == 1
    for line in checks.said[1:]:
        assert "acceleration is off on a GPU, bfloat16: the parity check failed (gradients off by 0.5)" in line
        assert str(cache) in line
    assert len(checks.said) == 3


@pytest.mark.parametrize("fault", [ValueError("illegal memory access"), OSError("no memory")])
def test_a_check_that_could_not_be_done_is_no_verdict(cache, fault):
    checks = Checks(fault, PASSED)
    assert not checks.asked()
    assert f"the parity check could not be done ({fault}); plain torch computes" in checks.said[-1]
    assert checks.asked()


@pytest.mark.parametrize("payload", [b"", b"{", b"[1]", b'{"a": NaN}', b"\xff" * 9])
def test_a_damaged_cache_is_an_empty_one(cache, payload):
    cache.parent.mkdir()
    cache.write_bytes(payload)
    checks = Checks(PASSED)
    assert checks.asked()
    assert checks.asked()


def test_a_cache_that_cannot_be_written_costs_a_check_each_time_and_says_so(cache):
    cache.parent.write_text("a file where the folder should be")
    checks = Checks(PASSED, PASSED)
    assert checks.asked()
    assert "cannot be kept" in checks.said[0]
    assert checks.asked()
    assert checks.done == 2


def test_a_check_that_dies_in_its_process_says_why():
    with pytest.raises(ValueError, match=r"cuda:77|CUDA|device"):
        verdicts.check_in_a_process(torch.device("cuda:77"), HALF)


def findings_of(device: torch.device = CPU, precision: torch.dtype = torch.float32, **chosen) -> dict[str, bool]:
    found = parity.check(device, precision, tiny_config(), samples=6, parts=chosen.get("parts", WITHOUT_KERNELS))
    return {finding.name: finding.passed for finding in found}


@plain_cpu
@pytest.mark.parametrize("precision", [torch.float32, HALF], ids=str)
def test_parity_check_passes_where_both_paths_are_the_same(precision):
    found = findings_of(precision=precision)
    assert all(found.values())
    assert {"loss loss", "output robot_action_RHA", "gradients", "gradient of trunk.final_norm.weight"} <= found.keys()


WRONG = {
    "attention to the wrong keys": ("self_attention", lambda right: lambda qkv, *rest: right(qkv.flip(-1), *rest)),
    "a norm without its bias": ("layer_norm", lambda right: lambda x, w, b: right(x, w, 0 * b + 0.5)),
    "a lost gradient": ("linear", lambda right: lambda x, w: right(x, w.detach()) + 0 * w.sum()),
    "a gradient taken twice": ("mlp", lambda right: lambda x, up, down: right(x, up, 2 * down - down.detach())),
}


@pytest.mark.parametrize(("name", "broken"), WRONG.values(), ids=WRONG.keys())
def test_parity_check_finds_a_kernel_that_computes_something_else(name, broken, monkeypatch):
    monkeypatch.setattr(kernels, name, broken(getattr(kernels, name)))
    verdict = parity.verdict_of(parity.check(CPU, torch.float32, tiny_config(), samples=6, parts=WITHOUT_KERNELS))
    assert not verdict["passed"]
    assert "off by" in verdict["words"]


def test_a_nan_does_not_pass():
    assert not parity.Finding(name="loss", error=float("nan"), allowed=1.0).passed
    assert not parity.verdict_of([parity.Finding(name="loss", error=float("nan"), allowed=1.0)])["passed"]


@pytest.mark.gpu
@pytest.mark.skipif(triton is None or not (CUDA or INTERPRETED), reason="needs CUDA, or TRITON_INTERPRET=1")
def test_parity_check_passes_with_kernels_on_a_small_policy():
    found = findings_of(GPU if CUDA else CPU, HALF if CUDA else torch.float32, parts=PARTS)
    assert [name for name, passed in found.items() if not passed] == []
    assert {"augmentation", "optimiser"} <= found.keys()


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
@pytest.mark.parametrize("precision", [HALF, torch.float32], ids=str)
def test_this_gpu_passes_the_parity_check(precision):
    verdict = verdicts.check_in_a_process(GPU, precision)
    print(verdict.words)
    assert verdict.passed, verdict.words
