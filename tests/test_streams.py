"""Work at the same time gives what it gives one after another."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from egorecovery.acceleration.streams import launch_async, run_concurrently, tensors_in

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")],
    ),
]
LONG = 2**22  # numbers: work that takes a GPU much longer than its launch


@dataclass
class Pair:
    first: Tensor
    second: Tensor | None


def numbers(device: str, seed: int = 0) -> Tensor:
    return torch.randn(LONG if device == "cuda" else 64, generator=torch.Generator().manual_seed(seed)).to(device)


def slowly_doubled(given: Tensor, times: int = 30) -> Tensor:
    for _ in range(times):
        given = given.sin().asin() * 1.0
    return given * 2


@pytest.mark.parametrize("device", DEVICES)
def test_work_launched_apart_gives_its_result_when_asked_for_it(device):
    given = numbers(device)
    doubled = launch_async("doubling", torch.device(device), slowly_doubled, given)
    assert torch.equal(doubled(), slowly_doubled(given))


@pytest.mark.parametrize("device", DEVICES)
def test_work_launched_apart_sees_what_was_done_before_it_and_is_seen_after_it(device):
    total = slowly_doubled(numbers(device))

    def double_and_add(more: Tensor) -> None:
        total.mul_(2).add_(more)

    added = launch_async("adding", torch.device(device), double_and_add, numbers(device, 1))
    assert added() is None
    total *= 3
    assert torch.equal(total, 3 * (2 * slowly_doubled(numbers(device)) + numbers(device, 1)))


@pytest.mark.parametrize("device", DEVICES)
def test_what_work_is_given_outlives_it_though_nobody_else_holds_it(device):
    doubled = launch_async("doubling", torch.device(device), slowly_doubled, numbers(device) + 0)
    taken = [torch.full_like(numbers(device), 7.0) for _ in range(4)]  # would be its memory
    assert torch.equal(doubled(), slowly_doubled(numbers(device)))
    assert all(bool((each == 7).all()) for each in taken)


@pytest.mark.parametrize("device", DEVICES)
def test_concurrent_parts_give_the_results_and_gradients_of_one_after_another(device):
    def part(scale: float, given: Tensor) -> tuple[Tensor, Tensor]:
        found = slowly_doubled(given * scale / 4).square().sum()
        return found, 3 * found

    gradients = []
    for at_once in (True, False):
        given = numbers(device).tanh().requires_grad_()
        parts = [lambda scale=scale, given=given: part(scale, given) for scale in (1.0, 2.0, 3.0, 4.0, 5.0)]
        found = run_concurrently(parts, given) if at_once else [each() for each in parts]
        sum(share for _, share in found).backward()
        gradients.append((torch.stack([term.detach() for term, _ in found]), given.grad))
    torch.testing.assert_close(gradients[0], gradients[1])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_graph_holds_work_launched_apart_and_concurrent_parts():
    device = torch.device("cuda")
    given, kept, seen = numbers("cuda"), torch.zeros(LONG, device=device), torch.zeros((), device=device)

    def add_all(*parts: Tensor) -> None:
        seen.add_(sum(each.sum() for each in parts))

    def step() -> None:
        doubled = launch_async("doubling", device, slowly_doubled, given)  # the very first of the graph
        tripled = run_concurrently([lambda: given * 3, lambda: slowly_doubled(given), lambda: given - 1], given)
        summed = launch_async("adding", device, add_all, *tripled)
        kept.copy_(doubled() + tripled[1])
        summed()

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    seen.zero_()
    for seed in range(5):
        given.copy_(numbers("cuda", seed))
        graph.replay()
        torch.testing.assert_close(kept, 2 * slowly_doubled(given))
        wanted = (given * 3).sum() + slowly_doubled(given).sum() + (given - 1).sum()
        torch.testing.assert_close(seen, wanted, rtol=1e-3, atol=100.0)
        seen.zero_()


def test_tensors_are_found_in_whatever_work_returns():
    one, two, three = (torch.tensor(float(value)) for value in range(3))
    assert tensors_in(None) == []
    for result in (one, (one, two), {"a": one, "b": (two, None)}, Pair(one, None), {"pair": Pair(two, three)}):
        found = tensors_in(result)
        assert 1 <= len(found) <= 2
        assert all(isinstance(each, Tensor) for each in found)
    assert [float(each) for each in tensors_in({"pair": Pair(two, three), "one": one})] == [1, 2, 0]


def test_a_result_whose_tensors_cannot_be_found_is_our_mistake():
    with pytest.raises(AssertionError, match="no way to find tensors"):
        tensors_in(iter(()))
