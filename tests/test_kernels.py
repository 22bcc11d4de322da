"""Fused operations: the plain path says what plain torch says, and the kernels say what the plain path says.

Kernel tests need a CUDA device, or TRITON_INTERPRET=1 and Triton for the small sizes on a CPU.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor  # noqa: E402 - torch is an extra
from torch.autograd.function import BackwardCFunction  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812 - its usual name

from egorecovery.acceleration import kernels  # noqa: E402
from egorecovery.acceleration.kernels.dispatch import INTERPRETED, triton  # noqa: E402
from egorecovery.acceleration.kernels.group_norm import group_norm_act_twice  # noqa: E402
from egorecovery.acceleration.kernels.layer_norm import layer_norm  # noqa: E402
from egorecovery.acceleration.kernels.mlp import mlp  # noqa: E402
from egorecovery.acceleration.kernels.norm_totals import totals  # noqa: E402
from egorecovery.acceleration.kernels.stem_gradient import GRADIENT_TILE  # noqa: E402
from egorecovery.acceleration.kernels.stem_norm_pool import GRADIENT_TILE as NORM_POOL_TILE  # noqa: E402
from egorecovery.acceleration.modules import accelerate  # noqa: E402
from egorecovery.errors import RecipeError  # noqa: E402
from egorecovery.policy.config import VisionConfig  # noqa: E402
from egorecovery.policy.vision import ViewEncoder  # noqa: E402
from test_augmentation import augment_inputs  # noqa: E402

# The package's own `layer_norm` and `mlp` are the functions.
layer_norm_kernel = sys.modules[layer_norm.__module__]
mlp_kernel = sys.modules[mlp.__module__]

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
needs_kernels = [
    pytest.mark.gpu,
    pytest.mark.skipif(triton is None or not (CUDA or INTERPRETED), reason="needs CUDA, or TRITON_INTERPRET=1"),
]
needs_cuda = [pytest.mark.gpu, pytest.mark.skipif(not CUDA, reason="needs CUDA")]
plain_only = pytest.mark.skipif(INTERPRETED, reason="the CPU runs kernels under TRITON_INTERPRET")

# Where two numbers are equal to rounding, a ReLU or a maximum may fall on another side than in float64: some 1 in 10
# million does, and a single one is up to 1e-3 of a gradient's norm at these sizes.
FLIPPED = 5e-3

# A slope of GELU in steps of 1/200 is 0.2% off, as bfloat16 is: more than float16's own error.
SLOPE_IN_BYTES = 3e-3


@dataclass
class Case:
    """A function of tensors, with what it is given; `fixed` ones get no gradient."""

    name: str
    function: Callable[..., Tensor | tuple[Tensor, ...]]
    shapes: list[tuple[int, ...]]
    fixed: list[Tensor] = field(default_factory=list)
    images: bool = False

    def inputs(self, dtype: torch.dtype, seed: int = 0, device: str = DEVICE) -> list[Tensor]:
        generator = torch.Generator().manual_seed(seed)
        made = []
        for shape in self.shapes:
            # Vectors are a norm's weight and bias, which stay float32 in training.
            single = dtype if len(shape) > 1 or dtype == torch.float64 else torch.float32
            tensor = torch.randn(shape, generator=generator, dtype=torch.float32).to(device, single)
            if self.images and tensor.ndim == 4:
                tensor = tensor.contiguous(memory_format=torch.channels_last)
            made.append(tensor.requires_grad_())
        return made


def outputs_and_gradients(case: Case, inputs: list[Tensor]) -> list[Tensor]:
    """All outputs, and all gradients for one random gradient of each output."""
    found = case.function(*inputs, *[fixed.to(inputs[0].device) for fixed in case.fixed])
    outputs = [found] if isinstance(found, Tensor) else list(found)
    generator = torch.Generator().manual_seed(99)
    arriving = [torch.randn(out.shape, generator=generator).to(out.device, out.dtype) for out in outputs]
    return [*outputs, *torch.autograd.grad(outputs, inputs, arriving)]


def relative_error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.detach(), wanted.detach()
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def by_kernel(out: Tensor) -> bool:
    """Only the kernels' gradients are functions of ours; the plain path is torch's from end to end."""
    nodes = [out.grad_fn]
    while nodes:
        node = nodes.pop()
        if isinstance(node, BackwardCFunction):
            return True
        nodes += [before for before, _ in node.next_functions] if node else []
    return False


def self_attention_case(batch: int, tokens: int, width: int, heads: int, readers: int | None = None) -> Case:
    name = f"self attention {batch}x{tokens}x{width}/{heads} readers={readers}"
    return Case(name, partial(kernels.self_attention, heads=heads, readers=readers), [(batch, tokens, 3 * width)])


def cross_attention_case(batch: int, queries: int, keys: int, width: int, heads: int) -> Case:
    name = f"cross attention {batch}x{queries}/{keys}x{width}/{heads}"
    shapes = [(batch, queries, width), (batch, keys, 2 * width)]
    return Case(name, partial(kernels.cross_attention, heads=heads), shapes)


def add_layer_norm_case(batch: int, tokens: int, width: int, drop: bool) -> Case:
    shape = (batch, tokens, width)
    keep = [torch.tensor([0.0, 1.25, 1.25]).repeat(batch)[:batch]] if drop else []

    def function(stream: Tensor, branch: Tensor, weight: Tensor, bias: Tensor, keep_B: Tensor | None = None):
        return kernels.add_layer_norm(stream, branch, keep_B, weight, bias)

    return Case(f"add layer norm {shape} drop={drop}", function, [shape, shape, (width,), (width,)], keep)


def layer_norm_case(*shape: int) -> Case:
    return Case(f"layer norm {shape}", kernels.layer_norm, [shape, shape[-1:], shape[-1:]])


def group_norm_case(images: int, channels: int, size: int, groups: int, residual: bool, relu: bool = True) -> Case:
    shape = (images, channels, size, size)

    def function(image: Tensor, weight: Tensor, bias: Tensor, residual_NCHW: Tensor | None = None) -> Tensor:
        return kernels.group_norm_act(image, groups, weight, bias, residual_NCHW, relu)

    shapes = [shape, (channels,), (channels,)] + [shape] * residual
    return Case(f"group norm {shape}/{groups} residual={residual} relu={relu}", function, shapes, images=True)


def group_norm_twice_case(
    images: int, channels: int, size: int, groups: int, residual: bool, relu: bool = True, arriving: str = "both"
) -> Case:
    """Read twice, each time with another gradient, or once only."""
    shape = (images, channels, size, size)

    def function(image: Tensor, weight: Tensor, bias: Tensor, residual_NCHW: Tensor | None = None):
        readers = group_norm_act_twice(image, groups, weight, bias, residual_NCHW, relu)
        return readers if arriving == "both" else readers[arriving == "second"]

    shapes = [shape, (channels,), (channels,)] + [shape] * residual
    name = f"group norm twice {shape}/{groups} residual={residual} relu={relu} arriving={arriving}"
    return Case(name, function, shapes, images=True)


def max_pool_case(images: int, channels: int, height: int, width: int, groups: int) -> Case:
    shape = (images, channels, height, width)

    def function(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return kernels.group_norm_relu_max_pool(image, groups, weight, bias)

    return Case(f"group norm max pool {shape}/{groups}", function, [shape, (channels,), (channels,)], images=True)


def mlp_case(*shape: int, ratio: int = 4) -> Case:
    hidden = ratio * shape[-1]

    def function(tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> Tensor:
        # Scaled as trained weights are: the hidden layer then lies where GELU bends.
        return kernels.mlp(tokens, rise_HD * shape[-1] ** -0.5, fall_DH * hidden**-0.5)

    return Case(f"mlp {shape} x {ratio}", function, [shape, (hidden, shape[-1]), (shape[-1], hidden)])


def cells_of_pictures(pictures: int, height: int, width: int) -> Tensor:
    """As augment cuts them, in numbers that every dtype holds; the four spare channels are no zeros here."""
    eighths = torch.randint(-16, 17, (pictures, height, width, 16), generator=torch.Generator().manual_seed(5)) / 8
    return F.pad(eighths, (0, 0, 1, 0, 1, 0)).permute(0, 3, 1, 2)


def stem_case(pictures: int, height: int, width: int, channels: int, images: bool = False) -> Case:
    """Outputs of height x width. `images`: the weight too lies channels last, as in a channels-last model."""

    def function(weight_O377: Tensor, cells_BChw: Tensor) -> Tensor:
        return kernels.stem_convolution(cells_BChw.to(weight_O377.dtype), weight_O377)

    name = f"stem {pictures}x{height}x{width} to {channels} images={images}"
    return Case(name, function, [(channels, 3, 7, 7)], [cells_of_pictures(pictures, height, width)], images)


SMALL = [
    stem_case(2, 16, 16, 64),
    stem_case(2, 13, 21, 16, images=True),  # patches that end outside the picture
    stem_case(1, 1, 1, 16),
    stem_case(1, 70, 67, 16),  # 25 patches: programs of two
    self_attention_case(2, 16, 32, 2),
    self_attention_case(2, 21, 64, 2),
    self_attention_case(1, 128, 32, 1),
    self_attention_case(2, 21, 64, 2, readers=5),
    cross_attention_case(2, 20, 12, 32, 2),
    cross_attention_case(1, 100, 64, 64, 1),
    layer_norm_case(3, 7, 64),
    layer_norm_case(5, 256),
    add_layer_norm_case(3, 7, 64, drop=True),
    add_layer_norm_case(3, 7, 256, drop=False),
    group_norm_case(2, 16, 3, 4, residual=False),
    group_norm_case(2, 64, 7, 32, residual=True),
    group_norm_case(2, 32, 4, 1, residual=True, relu=False),
    group_norm_case(1, 64, 20, 4, residual=True),  # on chip, in four slices of channels
    group_norm_case(1, 64, 28, 32, residual=True),  # in parts
    group_norm_case(1, 64, 34, 32, residual=False),
    group_norm_case(1, 64, 34, 8, residual=True),
    *[
        group_norm_twice_case(2, channels, size, 4, residual, relu)
        for channels, size in [(64, 7), (64, 34)]  # on chip, and in parts
        for residual in (False, True)
        for relu in (False, True)
    ],
    *[
        group_norm_twice_case(1, 64, size, 4, residual=True, arriving=reader)
        for size in (7, 34)
        for reader in ("first", "second")
    ],
    max_pool_case(2, 16, 8, 8, 4),
    max_pool_case(2, 64, 9, 7, 32),
    max_pool_case(1, 64, 34, 34, 32),
    mlp_case(2, 16, 32),
    mlp_case(3, 7, 64, ratio=2),
    mlp_case(131, 128),  # rows that end inside a second tile
]

REAL = [
    *[stem_case(192, size, size, 64, images) for size in (48, 112) for images in (False, True)],
    stem_case(40, 60, 90, 32),
    self_attention_case(192, 128, 256, 8),
    self_attention_case(192, 128, 256, 8, readers=64),
    self_attention_case(96, 100, 256, 8),
    cross_attention_case(96, 100, 64, 256, 8),
    cross_attention_case(576, 16, 49, 256, 8),
    layer_norm_case(192, 128, 256),
    add_layer_norm_case(192, 128, 256, drop=True),
    add_layer_norm_case(96, 100, 256, drop=False),
    *[
        group_norm_case(192, c, s, c // 16, residual=r)
        for c, s in [(64, 56), (128, 28), (256, 14), (512, 7)]
        for r in (0, 1)
    ],
    *[
        group_norm_case(192, c, s, c // 16, residual=r)
        for c, s in [(64, 24), (128, 12), (256, 6), (512, 3)]
        for r in (0, 1)
    ],
    *[
        group_norm_twice_case(192, c, s, c // 16, residual=True)
        for c, s in [(64, 56), (128, 28), (256, 14), (512, 7), (64, 24), (128, 12), (256, 6), (512, 3)]
    ],
    max_pool_case(192, 64, 112, 112, 4),
    max_pool_case(192, 64, 48, 48, 4),
    mlp_case(192, 128, 256),
    mlp_case(96, 100, 256),
    *[mlp_case(rows, 256) for rows in (1, 16, 20, 50, 64, 99)],
]
REAL_NORMS = [case for case in REAL if "norm" in case.name]


def by_torch(case: Case) -> Callable[..., Tensor | tuple[Tensor, ...]]:
    """The same operation, spelt out in torch by this test."""
    name = case.name.split()
    if name[0] == "stem":

        def on_pixels(weight_O377: Tensor, cells_BChw: Tensor) -> Tensor:
            pixels_BhwC = cells_BChw[:, :12, 1:, 1:].permute(0, 2, 3, 1).unflatten(3, (2, 2, 3))
            pixels_B3HW = pixels_BhwC.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3)
            return F.conv2d(pixels_B3HW.to(weight_O377.dtype), weight_O377, stride=2, padding=3)

        return on_pixels
    if name[0] == "mlp":

        def two_layers(tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> Tensor:
            pre = tokens @ rise_HD.t() * rise_HD.shape[1] ** -0.5
            act = pre / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (pre + 0.044715 * pre**3)))
            return act @ fall_DH.t() * fall_DH.shape[1] ** -0.5

        return two_layers
    if name[1] == "attention":
        asked = case.function.keywords  # type: ignore[attr-defined]  # a partial
        heads, readers = asked["heads"], asked.get("readers")

        def attend(*inputs: Tensor) -> Tensor:
            query, key, value = torch.cat(inputs, dim=-1).chunk(3, dim=-1) if len(inputs) == 1 else (
                inputs[0], *inputs[1].chunk(2, dim=-1)
            )  # fmt: skip
            heads_of = [part.unflatten(-1, (heads, -1)) for part in (query[:, :readers], key, value)]
            scores = torch.einsum("bmhw,bnhw->bhmn", heads_of[0], heads_of[1]) / heads_of[0].shape[-1] ** 0.5
            return torch.einsum("bhmn,bnhw->bmhw", scores.softmax(dim=-1), heads_of[2]).flatten(-2)

        return attend
    if name[0] == "layer":
        return lambda stream, weight, bias: F.layer_norm(stream, stream.shape[-1:], weight, bias, 1e-5)
    if name[0] == "add":

        def add_norm(stream: Tensor, branch: Tensor, weight: Tensor, bias: Tensor, keep: Tensor | None = None):
            added = stream + branch if keep is None else stream + keep[:, None, None] * branch
            return added, F.layer_norm(added, added.shape[-1:], weight, bias, 1e-5)

        return add_norm
    groups = int(case.name.split("/")[1].split()[0])
    if "pool" in case.name:
        return lambda image, weight, bias: F.max_pool2d(F.group_norm(image, groups, weight, bias).relu(), 3, 2, 1)

    def norm_act(image: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None = None) -> Tensor:
        normed = F.group_norm(image, groups, weight, bias)
        added = normed if residual is None else normed + residual
        return added.relu() if "relu=True" in case.name else added

    if "arriving=both" in case.name:
        return lambda *inputs: (norm_act(*inputs),) * 2
    return norm_act


@plain_only
@pytest.mark.parametrize("case", SMALL, ids=lambda case: case.name)
def test_plain_path_equals_the_operation_spelt_out_in_torch(case):
    inputs = case.inputs(torch.float64, device="cpu")
    wanted = outputs_and_gradients(Case(case.name, by_torch(case), case.shapes, case.fixed), inputs)
    for found, expected in zip(outputs_and_gradients(case, inputs), wanted, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def check_kernel(case: Case, dtype: torch.dtype, tolerance: float, of_gradients: float | None = None) -> None:
    """Kernel on `dtype` against the plain path in float64, with memory that the kernel gets poisoned before."""
    seed = time.time_ns() % 2**31  # fresh every time: a failure names it
    inputs = case.inputs(dtype, seed)
    poison = [torch.full_like(tensor, float("nan")) for tensor in inputs for _ in range(3)]
    del poison  # its memory is what the allocator hands out next
    found = outputs_and_gradients(case, inputs)
    assert by_kernel(found[0])
    doubles = [tensor.detach().double().requires_grad_() for tensor in inputs]
    with kernels.plain_kernels():
        wanted = outputs_and_gradients(case, doubles)
    assert not by_kernel(wanted[0])
    for number, (out, expected) in enumerate(zip(found, wanted, strict=True)):
        error = relative_error(out, expected)
        allowed = tolerance if out.requires_grad else of_gradients or tolerance
        assert error < allowed, f"{case.name}: output or gradient {number} is off by {error:.2e} (seed {seed})"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("case", [pytest.param(case, marks=needs_kernels, id=case.name) for case in SMALL])
def test_kernel_equals_plain_path_on_small_sizes(case, dtype):
    if INTERPRETED and dtype == torch.bfloat16 and case.name.split()[0] in ("self", "cross", "mlp", "stem"):
        pytest.skip("Triton's interpreter multiplies bfloat16 matrices as if they were integers")
    if dtype == torch.float32 and (case.name.split()[0] in ("mlp", "stem") or (CUDA and "attention" in case.name)):
        pytest.skip("in float32 the MLP and the stem are torch's, and on a GPU attention")
    of_gradients = SLOPE_IN_BYTES if case.name.startswith("mlp") and dtype == torch.float16 else None
    check_kernel(case, dtype, {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}[dtype], of_gradients)


@pytest.mark.parametrize("case", [pytest.param(case, marks=needs_cuda, id=case.name) for case in REAL])
def test_kernel_equals_plain_path_on_training_sizes(case):
    check_kernel(case, torch.bfloat16, 1e-2)


@pytest.mark.parametrize("case", [pytest.param(case, marks=needs_cuda, id=case.name) for case in REAL_NORMS])
def test_norm_in_float32_equals_plain_path_on_training_sizes(case):
    check_kernel(case, torch.float32, 2e-5, of_gradients=None if "layer norm" in case.name else FLIPPED)


@pytest.mark.parametrize("case", [pytest.param(case, marks=needs_cuda, id=case.name) for case in REAL])
def test_kernel_gives_the_same_bits_twice(case):
    inputs = case.inputs(torch.bfloat16)
    for first, second in zip(outputs_and_gradients(case, inputs), outputs_and_gradients(case, inputs), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_learned_queries_expanded_over_the_batch_get_their_summed_gradient(marked):
    query_MD = torch.randn(20, 32, device=DEVICE).half().requires_grad_()
    kv_BN2D = torch.randn(3, 12, 64, device=DEVICE).half()
    attended_BMD = kernels.cross_attention(query_MD.expand(3, -1, -1), kv_BN2D, 2)
    assert by_kernel(attended_BMD)
    found = torch.autograd.grad(attended_BMD.sum(), query_MD)[0]
    doubles = query_MD.detach().double().requires_grad_()
    with kernels.plain_kernels():
        attended_BMD = kernels.cross_attention(doubles.expand(3, -1, -1), kv_BN2D.double(), 2)
        wanted = torch.autograd.grad(attended_BMD.sum(), doubles)[0]
    assert relative_error(found, wanted) < 2e-3


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_float32_stream_runs_between_bfloat16_branches(marked):
    stream_BND = torch.randn(3, 7, 64, device=DEVICE, requires_grad=True)
    branch_BND = torch.randn(3, 7, 64, device=DEVICE).bfloat16().requires_grad_()
    weight_D, bias_D = torch.randn(2, 64, device=DEVICE)
    added_BND, normed_BND = kernels.add_layer_norm(stream_BND, branch_BND, None, weight_D, bias_D)
    assert (added_BND.dtype, normed_BND.dtype) == (torch.float32, torch.bfloat16)
    gradients = torch.autograd.grad(normed_BND.float().square().sum(), [stream_BND, branch_BND])
    with kernels.plain_kernels():
        normed_BND = kernels.add_layer_norm(stream_BND, branch_BND, None, weight_D, bias_D)[1]
        wanted = torch.autograd.grad(normed_BND.float().square().sum(), [stream_BND, branch_BND])
    for found, expected in zip(gradients, wanted, strict=True):
        assert found.dtype == expected.dtype
        assert relative_error(found, expected) < 1e-2


@pytest.mark.parametrize("tile", [pytest.param(t, marks=needs_kernels) for t in ((16, 32, 64), (32, 64, 16))])
def test_mlp_of_any_tile_equals_plain_path(tile, monkeypatch):
    for name, value in zip(("rows", "columns", "depth"), tile, strict=True):
        monkeypatch.setattr(mlp_kernel.TILE, name, value)
    check_kernel(mlp_case(3, 7, 64), torch.float16, 2e-3, of_gradients=SLOPE_IN_BYTES)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_mlp_takes_tokens_and_gradients_that_do_not_lie_in_a_row(marked):
    case = mlp_case(3, 7, 64)

    def turned(tokens: Tensor, rise_HD: Tensor, fall_DH: Tensor) -> Tensor:
        return case.function(tokens.transpose(0, 1), rise_HD, fall_DH).transpose(0, 1)

    check_kernel(Case("mlp turned", turned, case.shapes), torch.float16, 2e-3, of_gradients=SLOPE_IN_BYTES)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_mlp_takes_what_lies_at_any_address(marked):
    case = mlp_case(3, 7, 64)

    def shifted(tensor: Tensor) -> Tensor:
        """The same numbers, two bytes past an address that the copy engine takes."""
        moved = torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view_as(tensor)
        assert moved.data_ptr() % 16 == 2 or tensor.element_size() != 2
        return moved

    def function(*inputs: Tensor) -> Tensor:
        return case.function(*[shifted(each) for each in inputs])

    check_kernel(Case("mlp shifted", function, case.shapes), torch.float16, 2e-3, of_gradients=SLOPE_IN_BYTES)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_mlp_without_gradients_says_the_same_and_writes_no_slope(marked, monkeypatch):
    inputs = mlp_case(3, 7, 64).inputs(torch.float16)
    wanted = kernels.mlp(*inputs)
    written = []
    rise_gelu = mlp_kernel.rise_gelu

    def watched(*given, **options):
        written.append(rise_gelu(*given, **options))
        return written[-1]

    monkeypatch.setattr(mlp_kernel, "rise_gelu", watched)
    with torch.no_grad():
        assert torch.equal(kernels.mlp(*inputs), wanted)
    assert [slope_RH for _, slope_RH in written] == [None]


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_a_slope_of_gelu_is_kept_to_half_a_step_and_exactly_where_it_is_0_or_1(marked):
    pre = torch.linspace(-12, 12, 4096, device=DEVICE).half().float()
    # Each row of the first product is one number times a single 1, so what stands before GELU is known exactly.
    tokens_RD = torch.zeros(4096, 16, device=DEVICE).half()
    tokens_RD[:, 0] = pre.half()
    rise_HD = torch.zeros(16, 16, device=DEVICE).half()
    rise_HD[:, 0] = 1
    kept = (mlp_kernel.rise_gelu(tokens_RD, rise_HD)[1].float() - mlp_kernel.ZERO) / mlp_kernel.STEPS
    exact = pre.double().requires_grad_()
    slope = torch.autograd.grad(torch.nn.functional.gelu(exact, approximate="tanh").sum(), exact)[0]
    assert (kept - slope[:, None]).abs().max() < 0.5 / 200 + 0.002  # the one instruction for tanh is right to 2^-11
    assert torch.equal(kept[pre > 6], torch.ones_like(kept[pre > 6]))
    assert torch.equal(kept[pre < -6], torch.zeros_like(kept[pre < -6]))


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_an_mlp_gives_gradients_to_those_that_want_them_and_to_no_others(marked):
    case = mlp_case(3, 7, 64)
    given = [tensor.detach() for tensor in case.inputs(torch.float16)]
    for wanted in ([0], [1], [2], [0, 2]):
        inputs = [tensor.clone().requires_grad_(place in wanted) for place, tensor in enumerate(given)]
        found = case.function(*inputs)
        assert by_kernel(found)
        found.sum().backward()
        with kernels.plain_kernels():
            expected = torch.autograd.grad(case.function(*inputs).sum(), [inputs[place] for place in wanted])
        assert [place for place, tensor in enumerate(inputs) if tensor.grad is not None] == wanted
        for place, gradient in zip(wanted, expected, strict=True):
            assert relative_error(inputs[place].grad, gradient) < SLOPE_IN_BYTES


@pytest.mark.parametrize("partials", [pytest.param(count, marks=needs_kernels) for count in (1, 5, 512, 1300)])
def test_totals_of_partial_sums_come_in_the_dtypes_of_the_parameters(partials):
    partial_P2D = torch.randn(partials, 2, 32, device=DEVICE)
    found = totals(partial_P2D, torch.bfloat16, torch.float32)
    assert [each.dtype for each in found] == [torch.bfloat16, torch.float32]
    for each, wanted in zip(found, partial_P2D.double().sum(dim=0), strict=True):
        assert relative_error(each, wanted) < (1e-2 if each.dtype == torch.bfloat16 else 1e-5)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_an_output_read_twice_lies_in_memory_once_and_autograd_adds_and_copies_nothing(marked):
    inputs = group_norm_case(2, 64, 7, 4, residual=True).inputs(torch.float32)
    image, weight_C, bias_C, residual = inputs
    readers = group_norm_act_twice(image, 4, weight_C, bias_C, residual)
    assert readers[0].data_ptr() == readers[1].data_ptr()
    assert [reader.output_nr for reader in readers] == [0, 1]
    arriving = [torch.randn_like(reader) for reader in readers]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        torch.autograd.grad(readers, inputs, arriving)
    called = {event.name for event in profile.events()}
    assert any("_GroupNormAct" in name for name in called)
    assert not called & {"aten::add", "aten::add_", "aten::clone", "aten::contiguous"}


@pytest.mark.parametrize("rows", [pytest.param(count, marks=needs_kernels) for count in (96, 100, 1000)])
def test_layer_norm_of_more_rows_than_programs_take_at_once_loses_no_gradient(rows, monkeypatch):
    monkeypatch.setattr(layer_norm_kernel, "BACKWARD_PROGRAMS", 3)
    check_kernel(layer_norm_case(rows, 256), torch.float32, 2e-5)


@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_equal_inputs_of_a_window_give_the_gradient_to_the_first(marked):
    image = torch.randint(0, 3, (1, 16, 8, 8), device=DEVICE).float().contiguous(memory_format=torch.channels_last)
    image.requires_grad_()
    weight_C, bias_C = torch.ones(16, device=DEVICE), torch.ones(16, device=DEVICE)
    found = torch.autograd.grad(kernels.group_norm_relu_max_pool(image, 4, weight_C, bias_C).sum(), image)[0]
    with kernels.plain_kernels():
        wanted = torch.autograd.grad(kernels.group_norm_relu_max_pool(image, 4, weight_C, bias_C).sum(), image)[0]
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_stem_on_cells_equals_the_seven_by_seven_stem_on_pixels():
    inputs = augment_inputs(5, 3, 16, 4, "cpu")
    pixels = kernels.gather_augmented(*inputs, dtype=torch.float32).double()
    cells = kernels.gather_augmented(*inputs, space_to_depth=True, dtype=torch.float32).double()
    weight_O377 = torch.randn(8, 3, 7, 7, dtype=torch.float64)
    for view in range(3):
        wanted = F.conv2d(pixels[view], weight_O377, stride=2, padding=3)
        weight_OC44 = kernels.stem_weight_space_to_depth(weight_O377)
        found = F.conv2d(cells[view], weight_OC44, padding=kernels.CELL_STEM_PADDING)
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("programs", [pytest.param(count, marks=needs_kernels) for count in (1, 3, 7)])
def test_gradient_of_a_stem_that_few_programs_share_loses_no_patch(programs, monkeypatch):
    monkeypatch.setattr(GRADIENT_TILE, "programs", programs)
    check_kernel(stem_case(2, 13, 21, 16), torch.float16, 2e-3)


@pytest.mark.parametrize("size", [pytest.param(size, marks=needs_kernels) for size in ((16, 16), (20, 37), (70, 67))])
def test_sums_of_a_stem_are_those_of_the_maps_it_stored(size):
    weight_O377 = torch.randn(32, 3, 7, 7, device=DEVICE).half()
    cells_BChw = cells_of_pictures(2, *size).to(DEVICE, torch.float16)
    maps_BOhw, sums_BS2O = kernels.stem_convolution_and_sums(cells_BChw, weight_O377)
    assert torch.equal(maps_BOhw, kernels.stem_convolution(cells_BChw, weight_O377))
    wanted = torch.stack([maps_BOhw.double().sum(dim=(2, 3)), maps_BOhw.double().square().sum(dim=(2, 3))], dim=1)
    torch.testing.assert_close(sums_BS2O.double().sum(dim=1), wanted, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("size", [pytest.param(size, marks=needs_kernels) for size in ((16, 16), (20, 37), (48, 48))])
def test_a_norm_that_is_told_the_sums_of_its_maps_says_what_it_says_without(size):
    weight_O377 = torch.randn(64, 3, 7, 7, device=DEVICE).half().requires_grad_()
    weight_C, bias_C = torch.randn(2, 64, device=DEVICE).requires_grad_().unbind()
    maps_BOhw, sums_BS2O = kernels.stem_convolution_and_sums(
        cells_of_pictures(2, *size).to(DEVICE, torch.float16), weight_O377
    )
    assert sums_BS2O is not None
    assert not sums_BS2O.requires_grad
    told, untold = (kernels.group_norm_relu_max_pool(maps_BOhw, 4, weight_C, bias_C, s) for s in (sums_BS2O, None))
    assert relative_error(told, untold) < 1e-3
    found, wanted = (
        torch.autograd.grad(out.float().square().sum(), [weight_O377, weight_C, bias_C], retain_graph=True)
        for out in (told, untold)
    )
    for each, expected in zip(found, wanted, strict=True):
        assert relative_error(each, expected) < FLIPPED


def stem_norm_pool_inputs(
    pictures: int, height: int, width: int, channels: int, dtype: torch.dtype
) -> tuple[Tensor, list[Tensor]]:
    """Cells and weights whose convolution float16 holds exactly: a rounded map may give a window another winner."""
    generator = torch.Generator().manual_seed(7)
    weight_O377 = torch.randint(-1, 2, (channels, 3, 7, 7), generator=generator).to(DEVICE, dtype)
    norm = torch.randn(2, channels, generator=generator).to(DEVICE)
    cells_BChw = cells_of_pictures(pictures, height, width).to(DEVICE, dtype)
    return cells_BChw, [tensor.requires_grad_() for tensor in (weight_O377, norm[0].clone(), norm[1].clone())]


def stem_norm_pool_and_gradients(whole: bool, cells_BChw: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """In one operation, or in the two that it is made of."""
    weight_O377, *norm = inputs
    if whole:
        pooled = kernels.stem_norm_pool(cells_BChw, weight_O377, 4, *norm)
    else:
        maps_BOhw, sums_BS2O = kernels.stem_convolution_and_sums(cells_BChw, weight_O377)
        pooled = kernels.group_norm_relu_max_pool(maps_BOhw, 4, *norm, sums_BS2O)
    arriving = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(8)).to(pooled)
    return [pooled, *torch.autograd.grad(pooled, inputs, arriving)]


@pytest.mark.parametrize("programs", [pytest.param(programs, marks=needs_kernels) for programs in (264, 3)])
@pytest.mark.parametrize(
    "size", [(2, 16, 16, 64), (2, 13, 21, 16), (1, 1, 1, 16), (1, 2, 5, 16), (1, 22, 40, 32), (1, 36, 32, 16)]
)
def test_a_stem_with_norm_and_pooling_equals_plain_path(size, programs, monkeypatch):
    monkeypatch.setattr(NORM_POOL_TILE, "programs", programs)
    cells_BChw, inputs = stem_norm_pool_inputs(*size, torch.float16)
    found = stem_norm_pool_and_gradients(True, cells_BChw, inputs)
    assert by_kernel(found[0])
    assert found[0].is_contiguous(memory_format=torch.channels_last)
    doubles = [tensor.detach().double().requires_grad_() for tensor in inputs]
    with kernels.plain_kernels():
        wanted = stem_norm_pool_and_gradients(True, cells_BChw.double(), doubles)
    assert not by_kernel(wanted[0])
    for each, expected in zip(found, wanted, strict=True):
        assert relative_error(each, expected) < 2e-3


@pytest.mark.parametrize(
    "size",
    [pytest.param(size, marks=needs_cuda) for size in ((192, 48, 48, 64), (192, 112, 112, 64), (40, 60, 90, 32))],
)
def test_a_stem_with_norm_and_pooling_equals_its_parts_on_training_sizes(size):
    cells_BChw, inputs = stem_norm_pool_inputs(*size, torch.bfloat16)
    found, again = (stem_norm_pool_and_gradients(True, cells_BChw, inputs) for _ in range(2))
    wanted = stem_norm_pool_and_gradients(False, cells_BChw, inputs)
    assert torch.equal(found[0], wanted[0])
    for each, same, expected in zip(found, again, wanted, strict=True):
        assert torch.equal(each, same)
        assert relative_error(each, expected) < 5e-3


def test_a_stem_with_norm_and_pooling_is_the_operation_spelt_out_in_torch():
    cells_BChw, inputs = stem_norm_pool_inputs(2, 13, 21, 16, torch.float64)
    found = stem_norm_pool_and_gradients(True, cells_BChw, inputs)
    weight_O377, *norm = inputs
    maps_BOhw = F.conv2d(cells_BChw, kernels.stem_weight_space_to_depth(weight_O377), padding=kernels.CELL_STEM_PADDING)
    pooled = F.max_pool2d(F.group_norm(maps_BOhw, 4, *[each.double() for each in norm]).relu(), 3, 2, 1)
    arriving = torch.randn(pooled.shape, generator=torch.Generator().manual_seed(8)).to(pooled)
    for each, expected in zip(found, [pooled, *torch.autograd.grad(pooled, inputs, arriving)], strict=True):
        torch.testing.assert_close(each, expected, rtol=1e-5, atol=1e-5)


def test_a_stem_whose_pictures_want_a_gradient_is_torchs():
    cells_BChw = cells_of_pictures(1, 4, 4).to(DEVICE).half().requires_grad_()
    weight_O377 = torch.randn(16, 3, 7, 7, device=DEVICE).half()
    maps_BOhw, sums_BS2O = kernels.stem_convolution_and_sums(cells_BChw, weight_O377)
    assert sums_BS2O is None
    assert not by_kernel(maps_BOhw)
    assert torch.autograd.grad(maps_BOhw.sum(), cells_BChw)[0].shape == cells_BChw.shape


@pytest.mark.parametrize("norm", ["group", "frozen_batch"])
def test_a_view_encoder_sees_in_cells_what_it_sees_in_pixels(norm):
    config = VisionConfig(norm=norm, stem_width=16, widths=(16,), depths=(1,), group_channels=4)
    encoder = ViewEncoder(config).double()
    accelerate(encoder)
    pixels, cells = (
        kernels.gather_augmented(*augment_inputs(5, 1, 16, 2, "cpu"), view=0, space_to_depth=cut, dtype=torch.float32)
        for cut in (False, True)
    )
    torch.testing.assert_close(encoder(cells.double()), encoder(pixels.double()))


def test_odd_images_cannot_be_cut_into_cells():
    with pytest.raises(RecipeError, match="even"):
        kernels.gather_augmented(*augment_inputs(2, 1, 7, 1, "cpu"), space_to_depth=True)


@pytest.mark.parametrize("cells", [pytest.param(cells, marks=needs_kernels) for cells in (False, True)])
@pytest.mark.parametrize("view", [None, 1])
def test_augmenting_kernel_equals_plain_path(view, cells):
    inputs = augment_inputs(40, 3, 224 if CUDA else 20, 32 if CUDA else 3, DEVICE)
    found = kernels.gather_augmented(*inputs, view=view, space_to_depth=cells, dtype=torch.float32)
    with kernels.plain_kernels():
        wanted = kernels.gather_augmented(*inputs, view=view, space_to_depth=cells, dtype=torch.float32)
    assert found.shape == wanted.shape
    assert (found if view else found[0]).is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cells", [pytest.param(cells, marks=needs_kernels) for cells in (False, True)])
def test_augmenting_kernel_shows_wide_pictures_shifted_past_their_edges_and_hidden_in_large_squares(cells):
    inputs = augment_inputs(5, 2, 20, 4, DEVICE)
    inputs[0] = torch.cat([inputs[0], inputs[0].flip(3)[:, :, :, :14]], dim=3).contiguous()
    inputs[3] = 7 * inputs[3]  # shifts of up to 28 pixels, squares of up to 28 from places inside and outside
    found = kernels.gather_augmented(*inputs, space_to_depth=cells)
    with kernels.plain_kernels():
        wanted = kernels.gather_augmented(*inputs, space_to_depth=cells)
    torch.testing.assert_close(found, wanted, rtol=2**-7, atol=1e-5)  # one rounding of bfloat16


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("marked", [pytest.param(None, marks=needs_kernels)])
def test_on_a_gpu_attention_in_float32_is_torchs_and_norms_are_fused(marked, dtype):
    attention, norm = self_attention_case(2, 16, 32, 2), layer_norm_case(2, 3, 16)
    assert by_kernel(norm.function(*norm.inputs(dtype)))
    assert by_kernel(attention.function(*attention.inputs(dtype))) == (dtype != torch.float32 or INTERPRETED)


def test_plain_kernels_switches_back_on_leaving():
    before = kernels.fused.enabled
    with kernels.plain_kernels():
        assert not kernels.fused.enabled
    assert kernels.fused.enabled == before
