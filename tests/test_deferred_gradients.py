"""Weight gradients that are deferred to the end of a backward pass, and then computed in one launch."""

from collections.abc import Callable, Iterator

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402 - torch is an extra
from torch.autograd.function import once_differentiable  # noqa: E402

from egorecovery.acceleration.kernels import (  # noqa: E402
    Ledger,
    deferred_gradients,
    deferring,
    flush_when_reached,
    group_norm_act,
    layer_norm,
    linear,
    mlp,
    plain_kernels,
)
from egorecovery.acceleration.kernels.addresses import Addresses  # noqa: E402
from egorecovery.acceleration.kernels.dispatch import INTERPRETED, triton  # noqa: E402
from egorecovery.acceleration.kernels.norm_totals import many_totals, plain_many_totals  # noqa: E402
from egorecovery.acceleration.kernels.weight_gradients import plain_weight_gradients, weight_gradients  # noqa: E402

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
HALF = torch.bfloat16 if CUDA else torch.float16  # the interpreter cannot multiply bfloat16
needs_kernels = pytest.mark.skipif(
    triton is None or not (CUDA or INTERPRETED), reason="needs CUDA, or TRITON_INTERPRET=1"
)


class Product(torch.autograd.Function):
    """given x weight^T, whose backward pass asks for the weight's gradient as kernels do."""

    @staticmethod
    def forward(ctx, given: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(given, weight)
        return given @ weight.t()

    @staticmethod
    @once_differentiable
    def backward(ctx, d_out: Tensor) -> tuple[Tensor, Tensor | None]:
        given, weight = ctx.saved_tensors
        return d_out @ weight, deferred_gradients.weight_gradient(weight, d_out, given)


@pytest.fixture
def takes_all(monkeypatch) -> Iterator[None]:
    """Ledgers take whatever has a destination, of any size, and flush in plain torch."""
    monkeypatch.setattr(deferred_gradients, "takes_product", lambda *_: True)
    with plain_kernels():
        yield


def weights(count: int = 2) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(4, 4, generator=generator)) for _ in range(count)]


def destinations_of(parameters: list[torch.nn.Parameter]) -> dict[int, Tensor]:
    return {id(weight): torch.full_like(weight, float("nan")) for weight in parameters}


def gradients(parameters: list[torch.nn.Parameter], loss: Callable[[], Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(loss(), parameters)
    return list(found)


@pytest.mark.usefixtures("takes_all")
def test_flushed_gradients_are_those_of_an_ordinary_backward_pass_and_lie_where_they_are_wanted() -> None:
    first, second = weights()
    given = torch.randn(6, 4)
    loss = lambda: Product.apply(Product.apply(given, first).relu(), second).square().sum()  # noqa: E731
    wanted = gradients([first, second], loss)
    ledger = Ledger(destinations_of([first, second]))
    with deferring(ledger):
        loss().backward()
        assert first.grad is None  # until the flush
    for weight, gradient in zip((first, second), wanted, strict=True):
        assert weight.grad is ledger.destinations[id(weight)]
        torch.testing.assert_close(weight.grad, gradient)


@pytest.mark.usefixtures("takes_all")
def test_a_weight_that_is_used_twice_gets_the_sum_of_both_gradients() -> None:
    (weight,) = weights(1)
    given = torch.randn(6, 4)
    loss = lambda: Product.apply(Product.apply(given, weight).relu(), weight).square().sum()  # noqa: E731
    (wanted,) = gradients([weight], loss)
    ledger = Ledger(destinations_of([weight]))
    with deferring(ledger):
        loss().backward()
    assert weight.grad is ledger.destinations[id(weight)]
    torch.testing.assert_close(weight.grad, wanted)


@pytest.mark.usefixtures("takes_all")
def test_a_weight_without_a_destination_has_its_gradient_at_once() -> None:
    first, second = weights()
    given = torch.randn(6, 4)
    with deferring(Ledger(destinations_of([first]))):
        Product.apply(Product.apply(given, first), second).sum().backward()
        assert second.grad is not None
        assert first.grad is None
    assert first.grad is not None


@pytest.mark.usefixtures("takes_all")
def test_every_backward_pass_starts_with_an_empty_ledger() -> None:
    (weight,) = weights(1)
    given = torch.randn(6, 4)
    ledger = Ledger(destinations_of([weight]))
    for scale in (1.0, 3.0):
        weight.grad = None
        with deferring(ledger):
            (scale * Product.apply(given, weight)).sum().backward()
        torch.testing.assert_close(weight.grad, scale * given.sum(dim=0).expand(4, 4))


@pytest.mark.usefixtures("takes_all")
def test_what_a_failed_backward_pass_deferred_is_not_flushed_by_the_next() -> None:
    (weight,) = weights(1)
    given = torch.randn(6, 4)
    ledger = Ledger(destinations_of([weight]))

    def one_pass(scale: float, arrived: Callable[[Tensor], None]) -> None:
        read = given.clone().requires_grad_()
        read.register_hook(arrived)  # after the weight's gradient is deferred
        with deferring(ledger):
            (scale * Product.apply(read, weight)).sum().backward()

    def fail(_: Tensor) -> None:
        raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        one_pass(5.0, fail)
    assert weight.grad is None
    one_pass(1.0, lambda _: None)
    torch.testing.assert_close(weight.grad, given.sum(dim=0).expand(4, 4))


@pytest.mark.usefixtures("takes_all")
def test_gradients_that_were_not_dropped_add_up_over_passes() -> None:
    (weight,) = weights(1)
    given = torch.randn(6, 4)
    ledger = Ledger(destinations_of([weight]))
    for scale in (1.0, 3.0):
        with deferring(ledger):
            (scale * Product.apply(given, weight)).sum().backward()
    torch.testing.assert_close(weight.grad, 4 * given.sum(dim=0).expand(4, 4))


@pytest.mark.usefixtures("takes_all")
def test_what_is_flushed_halfway_is_not_overwritten_by_a_later_use() -> None:
    first, second = weights()
    given = torch.randn(6, 4)

    def loss(halfway: Callable[[], object] = lambda: None) -> Tensor:
        between = Product.apply(Product.apply(given, first), second).relu()
        between.register_hook(lambda _: halfway())
        return Product.apply(between, first).square().sum()

    wanted = gradients([first, second], loss)
    ledger = Ledger(destinations_of([first, second]))
    with deferring(ledger):
        loss(ledger.flush_async).backward()
        assert bool(ledger.destinations[id(first)].isfinite().all())  # flushed by now
    for weight, gradient in zip((first, second), wanted, strict=True):
        assert weight.grad is ledger.destinations[id(weight)]
        torch.testing.assert_close(weight.grad, gradient)


@pytest.mark.usefixtures("takes_all")
def test_a_backward_pass_that_fails_leaves_no_ledger_open() -> None:
    (weight,) = weights(1)
    with pytest.raises(RuntimeError, match="on purpose"), deferring(Ledger(destinations_of([weight]))):
        raise RuntimeError("on purpose")
    Product.apply(torch.randn(6, 4), weight).sum().backward()
    assert weight.grad is not None


def test_a_float32_gradient_is_never_deferred() -> None:
    weight = torch.nn.Parameter(torch.randn(128, 256))
    ledger = Ledger(destinations_of([weight]))
    with deferring(ledger):
        linear(torch.randn(2, 64, 256), weight).sum().backward()
        assert weight.grad is not None
    assert weight.grad is not ledger.destinations[id(weight)]


@pytest.mark.gpu
@needs_kernels
def test_deferred_products_and_norms_are_those_computed_at_once() -> None:
    generator = torch.Generator().manual_seed(0)
    half = {"device": DEVICE, "dtype": HALF}
    weight = torch.nn.Parameter((torch.randn(128, 256, generator=generator) / 16).to(**half))
    scales = [torch.nn.Parameter(torch.randn(width, generator=generator).to(**half)) for width in (256, 256, 32, 32)]
    parameters = [weight, *scales]
    tokens = torch.randn(2, 40, 256, generator=generator).to(**half)

    def loss() -> Tensor:
        out_BNM = linear(layer_norm(tokens, *scales[:2]), weight)
        image = out_BNM.view(2, 32, 8, 20).contiguous(memory_format=torch.channels_last)
        return group_norm_act(image, 4, *scales[2:]).float().square().mean()

    wanted = gradients(parameters, loss)
    ledger = Ledger(destinations_of(parameters))
    with deferring(ledger):
        loss().backward()
    for parameter, gradient in zip(parameters, wanted, strict=True):
        assert parameter.grad is ledger.destinations[id(parameter)]
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-2, atol=1e-4)


@pytest.mark.gpu
@needs_kernels
@pytest.mark.parametrize("rows", [64, 192, 200])
@pytest.mark.parametrize("shape", [(128, 256), (768, 256), (256, 1024)], ids=str)
def test_many_products_in_one_launch_are_each_what_torch_says(rows: int, shape: tuple[int, int]) -> None:
    outputs, inputs = shape
    products = [
        (
            torch.randn(rows * times, outputs, device=DEVICE, dtype=HALF),
            torch.randn(rows * times, inputs, device=DEVICE, dtype=HALF),
            torch.full(shape, float("nan"), device=DEVICE, dtype=HALF),
        )
        for times in (1, 3)
    ]
    weight_gradients(products, Addresses())
    exact = [
        (d_out.double(), given.double(), torch.empty(shape, device=DEVICE).double()) for d_out, given, _ in products
    ]
    plain_weight_gradients(exact)
    for (_, _, found), (_, _, wanted) in zip(products, exact, strict=True):
        assert float((found.double() - wanted).norm() / wanted.norm()) < (4e-3 if torch.bfloat16 == HALF else 5e-4)


@pytest.mark.gpu
@needs_kernels
@pytest.mark.parametrize("partials", [1, 100, 513, 3072])
def test_sums_of_many_norms_in_one_launch_are_each_what_torch_says(partials: int) -> None:
    sums = []
    for width in (64, 256):
        outs = [torch.full((width,), float("nan"), device=DEVICE, dtype=HALF) for _ in range(2)]
        sums.append((torch.randn(partials, 2, width, device=DEVICE), *outs))
    many_totals(sums, Addresses())
    exact = [
        (partial.double(), *(torch.empty(out.shape, device=DEVICE).double() for out in outs)) for partial, *outs in sums
    ]
    plain_many_totals(exact)
    for (_, *found), (_, *wanted) in zip(sums, exact, strict=True):
        for ours, theirs in zip(found, wanted, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-2, atol=1e-2 * partials**0.5)


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_a_captured_backward_pass_flushes_at_every_replay() -> None:
    """On the weights and inputs of that moment, with addresses written at capture."""
    rise = torch.nn.Parameter(torch.randn(512, 256, device="cuda", dtype=torch.bfloat16) / 16)
    fall = torch.nn.Parameter(torch.randn(256, 512, device="cuda", dtype=torch.bfloat16) / 16)
    tokens = torch.randn(4, 64, 256, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    ledger = Ledger(destinations_of([rise, fall]))

    def step() -> None:
        rise.grad = fall.grad = tokens.grad = None
        with deferring(ledger):
            mlp(tokens, rise, fall).float().square().sum().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for _ in range(3):
        with torch.no_grad():
            tokens.copy_(torch.randn_like(tokens))
        for place in ledger.destinations.values():
            place.fill_(float("nan"))
        graph.replay()
        found = [ledger.destinations[id(weight)].clone() for weight in (rise, fall)]
        wanted = torch.autograd.grad(mlp(tokens, rise, fall).float().square().sum(), [rise, fall])
        for ours, theirs in zip(found, wanted, strict=True):
            assert float((ours.float() - theirs.float()).norm() / theirs.float().norm()) < 1e-2


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs CUDA")
def test_a_graph_holds_two_flushes_of_the_same_size() -> None:
    """One beside the backward pass and one at its end, each with a table of its own."""
    parameters = [torch.nn.Parameter(torch.randn(256, 256, device="cuda", dtype=torch.bfloat16) / 16) for _ in range(2)]
    tokens = torch.randn(4, 64, 256, device="cuda", dtype=torch.bfloat16)
    ledger = Ledger(destinations_of(parameters))

    def loss() -> Tensor:
        between = linear(tokens, parameters[0])
        flush_when_reached(between)
        return linear(between, parameters[1]).float().square().sum()

    def step() -> None:
        for parameter in parameters:
            parameter.grad = None
        with deferring(ledger):
            loss().backward()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for place in ledger.destinations.values():
        place.fill_(float("nan"))
    graph.replay()
    wanted = gradients(parameters, loss)
    for parameter, gradient in zip(parameters, wanted, strict=True):
        found = ledger.destinations[id(parameter)].float()
        assert float((found - gradient.float()).norm() / gradient.float().norm()) < 1e-2
