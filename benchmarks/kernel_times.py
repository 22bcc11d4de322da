"""Times the policy's fused operations, forward and backward, against eager torch and the library's best.

python benchmarks/kernel_times.py [--out PATH] [--only attention] [--sweep] [--budget-s 85]

Needs a CUDA device and Triton. Every row checks parity first, then replays a CUDA graph of forward + backward. A row
that fails prints the end of its traceback and the next one runs; a fault that kills the CUDA context restarts the
script behind it.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import torch
import tyro
from rich.console import Console
from rich.table import Table
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - its usual name

from egorecovery.acceleration import kernels
from egorecovery.acceleration.kernels import attention, group_norm, group_norm_max_pool
from egorecovery.acceleration.kernels.addresses import Addresses
from egorecovery.acceleration.kernels.weight_gradients import weight_gradients
from egorecovery.acceleration.streams import run_concurrently
from egorecovery.policy import attention as plain_attention
from egorecovery.policy import vision as plain_vision

mlp = import_module("egorecovery.acceleration.kernels.mlp")  # its function hides it in the package
console = Console(width=150)
REPLAYS, ROUNDS = 5, 9
GROUP_CHANNELS = 16


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is timed, and for how long at most."""

    out: Path | None = None
    """Also write all numbers there, after every row."""
    only: str = ""
    """Rows whose name contains this."""
    sweep: bool = False
    """Also time other tile sizes of attention, the norms and the MLP."""
    budget_s: float = 85.0
    """No row starts after this."""
    start: int = 0
    """First row (a restart behind a row that lost the device)."""


@dataclass
class Row:
    """One operation at one size; `ways` maps ours / eager / library to functions of the inputs."""

    name: str
    bytes: int
    """What must move at least: every input, output, gradient and tensor kept for the backward pass once."""
    inputs: Callable[[], list[Tensor]]
    ways: dict[str, Callable[..., Any]]
    settings: list[tuple[Any, str, int]] = field(default_factory=list)
    """Attributes of a module or tile, set while this row runs (a sweep)."""
    plain: Callable[..., Any] | None = None
    """What ours must equal, where eager is not timed."""


def normal(*shape: int, dtype: torch.dtype = torch.bfloat16, images: bool = False) -> Tensor:
    tensor = torch.randn(shape, device="cuda", dtype=dtype)
    return (tensor.contiguous(memory_format=torch.channels_last) if images else tensor).requires_grad_()


def attention_rows() -> list[Row]:
    def sdpa(*parts: Tensor) -> Tensor:
        query, key, value = parts
        return plain_attention.attention(query, key, value, 8)

    def explicit(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        q, k, v = (part.unflatten(-1, (8, -1)).transpose(1, 2) for part in (query, key, value))
        chance = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(dim=-1)
        return (chance @ v).transpose(1, 2).flatten(-2)

    def row(name: str, batch: int, queries: int, keys: int | None) -> Row:
        if keys is None:
            return Row(
                name, 11 * batch * queries * 256 * 2, lambda: [normal(batch, queries, 768)],
                {
                    "ours": lambda qkv: kernels.self_attention(qkv, 8),
                    "eager": lambda qkv: explicit(*qkv.chunk(3, dim=-1)),
                    "library": lambda qkv: sdpa(*qkv.chunk(3, dim=-1)),
                },
            )  # fmt: skip
        return Row(
            name, batch * 256 * 2 * (5 * queries + 6 * keys),
            lambda: [normal(batch, queries, 256), normal(batch, keys, 512)],
            {
                "ours": lambda q, kv: kernels.cross_attention(q, kv, 8),
                "eager": lambda q, kv: explicit(q, *kv.chunk(2, dim=-1)),
                "library": lambda q, kv: sdpa(q, *kv.chunk(2, dim=-1)),
            },
        )  # fmt: skip

    return [
        row("self attention 192x128", 192, 128, None),
        row("self attention 96x100", 96, 100, None),
        row("cross attention 96x100/64", 96, 100, 64),
        row("cross attention 192x16/49", 192, 16, 49),
    ]


def layer_norm_rows() -> list[Row]:
    def parameters() -> list[Tensor]:
        return [normal(256, dtype=torch.float32), normal(256, dtype=torch.float32)]

    def library(stream: Tensor, branch: Tensor, weight: Tensor, bias: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        added = stream + keep[:, None, None].to(branch.dtype) * branch
        return added, F.layer_norm(added, (256,), weight.to(added.dtype), bias.to(added.dtype))

    def add_row(batch: int, tokens: int) -> Row:
        def inputs() -> list[Tensor]:
            keep = (torch.rand(batch, device="cuda") > 0.1) / 0.9
            return [normal(batch, tokens, 256), normal(batch, tokens, 256), *parameters(), keep]

        return Row(
            f"add layer norm {batch}x{tokens}", 9 * batch * tokens * 256 * 2, inputs,
            {
                "ours": lambda s, b, w, c, keep: kernels.add_layer_norm(s, b, keep, w, c),
                "eager": lambda s, b, w, c, keep: plain_attention.add_layer_norm(s, b, keep, w, c),
                "library": library,
            },
        )  # fmt: skip

    alone = Row(
        "layer norm 192x128", 5 * 192 * 128 * 256 * 2, lambda: [normal(192, 128, 256), *parameters()],
        {
            "ours": kernels.layer_norm,
            "eager": plain_attention.layer_norm,
            "library": lambda x, w, b: F.layer_norm(x, (256,), w.to(x.dtype), b.to(x.dtype)),
        },
    )  # fmt: skip
    return [alone, add_row(192, 128), add_row(96, 100)]


def mlp_rows(rows: int) -> list[Row]:
    """The whole of it, forward and backward, and each of the two products with GELU alone."""
    stream_bytes = 2 * rows * 256

    def weights() -> list[Tensor]:
        return [(normal(1024, 256).detach() / 16).requires_grad_(), (normal(256, 1024).detach() / 32).requires_grad_()]

    def forward_inputs() -> list[Tensor]:
        return [normal(rows, 256).detach(), weights()[0].detach()]

    def backward_inputs() -> list[Tensor]:
        tokens, rise = forward_inputs()
        return [
            normal(rows, 256).detach(),
            weights()[1].detach(),
            F.linear(tokens, rise),
            mlp.rise_gelu(tokens, rise)[1],
        ]

    def unfused_backward(d_out: Tensor, fall: Tensor, pre: Tensor, slope: Tensor) -> Tensor:
        return torch.ops.aten.gelu_backward(d_out @ fall, pre, approximate="tanh")

    return [
        # Forward x, act, slope (bytes), out; backward d_out, act, slope, d_pre written and read, x, d_x.
        Row(
            f"mlp {rows}", (1 + 4 + 2 + 1 + 1 + 4 + 2 + 8 + 1 + 1) * stream_bytes,
            lambda: [normal(rows, 256), *weights()], {"ours": kernels.mlp, "eager": plain_attention.mlp},
        ),
        Row(
            f"mlp {rows} rise and gelu", (1 + 4 + 2) * stream_bytes, forward_inputs,
            {
                "ours": lambda x, rise: mlp.rise_gelu(x, rise)[0],
                "eager": lambda x, rise: F.gelu(F.linear(x, rise), approximate="tanh"),
                "library": F.linear,  # the product alone: the slowest that fusing it may cost
            },
        ),
        Row(
            f"mlp {rows} backward of fall and gelu", (1 + 2 + 4) * stream_bytes, backward_inputs,
            {
                "ours": lambda d_out, fall, pre, slope: mlp.fall_gelu_backward(d_out, fall, slope),
                "eager": unfused_backward,
                "library": lambda d_out, fall, pre, slope: d_out @ fall,
            },
        ),
    ]  # fmt: skip


def mlp_sweep() -> list[Row]:
    fields = ("rows", "columns", "depth", "warps", "stages")
    tiles = [(128, 128, 64, 8, 2), (128, 128, 32, 8, 4), (64, 128, 64, 4, 3), (64, 256, 64, 8, 2)]
    rows = []
    for values, count in product(tiles, (24576, 9600)):
        label = " ".join(f"{name} {value}" for name, value in zip(fields, values, strict=True))
        settings = [(mlp.TILE, name, value) for name, value in zip(fields, values, strict=True)]
        rows += [swept(base, label, settings) for base in mlp_rows(count)[1:]]
    return rows


def group_norm_row(images: int, channels: int, size: int, residual: bool) -> Row:
    shape = (images, channels, size, size)
    groups = channels // GROUP_CHANNELS

    def inputs() -> list[Tensor]:
        vectors = [normal(channels, dtype=torch.float32), normal(channels, dtype=torch.float32)]
        return [normal(*shape, images=True), *vectors, *[normal(*shape, images=True)] * residual]

    def library(image: Tensor, weight: Tensor, bias: Tensor, other: Tensor | None = None) -> Tensor:
        normed = F.group_norm(image, groups, weight.to(image.dtype), bias.to(image.dtype))
        return (normed if other is None else normed + other).relu()

    passes = 2 + 3 + residual * (1 + 2)
    return Row(
        f"group norm {images}x{channels}x{size}{' + residual' if residual else ''}",
        passes * 2 * images * channels * size * size, inputs,
        {
            "ours": lambda x, w, b, *r: kernels.group_norm_act(x, groups, w, b, *r),
            "eager": lambda x, w, b, *r: plain_vision.group_norm(x, groups, w, b, *r),
            "library": library,
        },
    )  # fmt: skip


def group_norm_twice_row(images: int, channels: int, size: int) -> Row:
    """Read by two, with the residual. The library's way here is our norm given once: autograd sums the gradients."""
    base = group_norm_row(images, channels, size, residual=True)
    groups = channels // GROUP_CHANNELS
    return Row(
        f"{base.name}, read twice", base.bytes + 2 * images * channels * size * size, base.inputs,
        {
            "ours": lambda x, w, b, r: group_norm.group_norm_act_twice(x, groups, w, b, r),
            "eager": lambda *given: (base.ways["eager"](*given),) * 2,
            "library": lambda *given: (base.ways["ours"](*given),) * 2,
        },
    )  # fmt: skip


def max_pool_row(images: int, size: int) -> Row:
    def inputs() -> list[Tensor]:
        vectors = [normal(64, dtype=torch.float32), normal(64, dtype=torch.float32)]
        return [normal(images, 64, size, size, images=True), *vectors]

    def library(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        normed = F.group_norm(image, 64 // GROUP_CHANNELS, weight.to(image.dtype), bias.to(image.dtype)).relu()
        return F.max_pool2d(normed, 3, 2, 1)

    def eager(image: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        with kernels.plain_kernels():
            return kernels.group_norm_relu_max_pool(image, 64 // GROUP_CHANNELS, weight, bias)

    # Full map: read, and in the backward pass read and written. A quarter each: pooled, its gradient, and the winner
    # written and read; the one-byte code is written and read too.
    number_bytes = 2 * images * 64 * size * size
    return Row(
        f"group norm max pool {images}x64x{size}", int(number_bytes * (3 + 4 / 4 + 2 / 8)), inputs,
        {
            "ours": lambda x, w, b: kernels.group_norm_relu_max_pool(x, 64 // GROUP_CHANNELS, w, b),
            "eager": eager,
            "library": library,
        },
    )  # fmt: skip


def three_views(base: Row) -> Row:
    """Ours, on three streams at once as in a training step: each then has a third of the L2 cache."""
    count = 3

    def views(*given: Tensor) -> list[Tensor]:
        each = len(given) // count
        parts = [given[first : first + each] for first in range(0, len(given), each)]
        return run_concurrently([partial(base.ways["ours"], *part) for part in parts], given[0])

    def inputs() -> list[Tensor]:
        return [tensor for _ in range(count) for tensor in base.inputs()]

    return Row(f"{base.name}, three views", count * base.bytes, inputs, {"ours": views}, base.settings)


def group_norm_rows() -> list[Row]:
    """Every size of a ResNet-18 at 224 and 96 pixels; the largest also as three views at once."""
    sizes = [(64, 56), (128, 28), (256, 14), (512, 7), (64, 24), (128, 12), (256, 6), (512, 3)]
    rows = [group_norm_row(192, *size, residual) for size in sizes for residual in (False, True)]
    rows += [max_pool_row(192, 112), max_pool_row(192, 48)]
    rows += [group_norm_twice_row(192, *size) for size in sizes]
    return rows + [three_views(base) for base in (rows[1], rows[3], max_pool_row(192, 112))]


def augment_row(size: int, cells: bool) -> Row:
    def inputs() -> list[Tensor]:
        return [
            torch.randint(0, 256, (1000, 3, size, size, 3), dtype=torch.uint8, device="cuda"),
            torch.randint(0, 1000, (192,), device="cuda"),
            torch.eye(3, 4, device="cuda") + 0.1 * torch.randn(192, 3, 4, device="cuda"),
            torch.randint(-4, 5, (192, 3, 5), dtype=torch.int32, device="cuda"),
            torch.tensor([0.485, 0.456, 0.406], device="cuda"),
            torch.tensor([0.229, 0.224, 0.225], device="cuda"),
        ]

    def eager(*given: Tensor) -> Tensor:
        with kernels.plain_kernels():
            return kernels.gather_augmented(*given, space_to_depth=cells)

    written = (size // 2 + 1) ** 2 * 16 * 2 if cells else size * size * 3 * 2
    return Row(
        f"augment 192x3 views {size}{' in cells' if cells else ''}", 576 * (size * size * 3 + written), inputs,
        {"ours": lambda *given: kernels.gather_augmented(*given, space_to_depth=cells), "eager": eager},
    )  # fmt: skip


def stem_row(size: int, cells: bool) -> Row:
    """The stem convolution alone, on pixels or on cells, in the layout that augment writes."""

    def inputs() -> list[Tensor]:
        shape = (192, 16, size // 2 + 1, size // 2 + 1) if cells else (192, 3, size, size)
        return [normal(*shape, images=True).detach(), normal(64, 3, 7, 7)]

    def on_cells(image: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(image, kernels.stem_weight_space_to_depth(weight), padding=kernels.CELL_STEM_PADDING)

    def on_pixels(image: Tensor, weight: Tensor) -> Tensor:
        return F.conv2d(image, weight.contiguous(memory_format=torch.channels_last), stride=2, padding=3)

    name = f"stem convolution 192 at {size}{' in cells' if cells else ''}"
    moved = 192 * (2 * (size * size * 3 if not cells else (size // 2 + 1) ** 2 * 16) + 2 * (size // 2) ** 2 * 64) * 2
    if not cells:
        return Row(name, moved, inputs, {"library": on_pixels})
    return Row(name, moved, inputs, {"ours": kernels.stem_convolution, "library": on_cells}, plain=on_cells)


def stem_norm_pool_row(size: int) -> Row:
    """The whole stem. The library's way here is ours in two operations. The rounded map gives many windows another
    winner than float32 has, so the error of the convolution's weight is large on such noise."""
    groups = 64 // GROUP_CHANNELS

    def inputs() -> list[Tensor]:
        cells = normal(192, 16, size // 2 + 1, size // 2 + 1, images=True).detach()
        return [cells, normal(64, 3, 7, 7), normal(64, dtype=torch.float32), normal(64, dtype=torch.float32)]

    def in_two(cells: Tensor, kernel: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        maps, sums = kernels.stem_convolution_and_sums(cells, kernel)
        return kernels.group_norm_relu_max_pool(maps, groups, weight, bias, sums)

    def whole(cells: Tensor, kernel: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return kernels.stem_norm_pool(cells, kernel, groups, weight, bias)

    # The cells twice; the map is written and read twice; quarters as of the pool, with one more pass over d_pooled.
    map_bytes, cell_bytes = 2 * 192 * 64 * (size // 2) ** 2, 2 * 192 * 16 * (size // 2 + 1) ** 2
    moved = int(2 * cell_bytes + map_bytes * (3 + 5 / 4 + 3 / 8))
    return Row(f"stem norm pool 192 at {size}", moved, inputs, {"ours": whole, "library": in_two}, plain=in_two)


def stem_norm_pool_sweep() -> list[Row]:
    tile = import_module("egorecovery.acceleration.kernels.stem_norm_pool").GRADIENT_TILE
    rows = []
    for size in (224, 96):
        rows.append(swept(stem_norm_pool_row(size), "2 stages", [(tile, "stages", 2)]))
    return rows


def weight_gradients_row(blocks: int, layers: int) -> Row:
    """Those of some blocks of the trunk and some layers of a decoder, in one launch; the library's one by one."""
    block = ((768, 256), (256, 256), (1024, 256), (256, 1024))
    sizes = [(24576, *size) for size in block * blocks] + [(9600, *size) for size in (*block, *block[1:2] * 2) * layers]
    addresses = Addresses()

    def inputs() -> list[Tensor]:
        made = [(normal(rows, outputs), normal(rows, inputs)) for rows, outputs, inputs in sizes]
        return [tensor.detach() for pair in made for tensor in pair]

    def ours(*given: Tensor) -> list[Tensor]:
        outs = [given[0].new_empty(outputs, inputs) for _, outputs, inputs in sizes]
        weight_gradients(list(zip(given[::2], given[1::2], outs, strict=True)), addresses)
        return outs

    def library(*given: Tensor) -> list[Tensor]:
        return [d_out.t() @ x for d_out, x in zip(given[::2], given[1::2], strict=True)]

    tflop = sum(2 * rows * outputs * inputs for rows, outputs, inputs in sizes) / 1e12
    return Row(
        f"weight gradients of {blocks} blocks, {layers} layers ({tflop:.3f} TFLOP)",
        sum(2 * rows * (outputs + inputs) for rows, outputs, inputs in sizes), inputs,
        {"ours": ours, "library": library}, plain=library,
    )  # fmt: skip


def all_rows(sweep: bool) -> list[Row]:
    rows = attention_rows() + layer_norm_rows() + group_norm_rows()
    rows += [augment_row(size, cells) for size in (224, 96) for cells in (False, True)]
    rows += [stem_row(size, cells) for size in (224, 96) for cells in (False, True)]
    rows += [stem_norm_pool_row(224), stem_norm_pool_row(96), three_views(stem_norm_pool_row(224))]
    rows += [*mlp_rows(24576), *mlp_rows(9600), weight_gradients_row(4, 8)]
    return rows + sweep_rows() if sweep else rows


def sweep_rows() -> list[Row]:
    """Our way alone, with other tiles."""
    rows = []
    tiles = [(32, 4), *product((64, 128), (4, 8))]  # fewer than 64 queries always have four warps
    for base, (queries, warps) in product(attention_rows()[:3:2], tiles):
        for tile in (attention.FORWARD_TILE, attention.BACKWARD_TILE):
            which = "forward" if tile is attention.FORWARD_TILE else "backward"
            settings = [(tile, "queries", queries), (tile, "warps", warps)]
            rows.append(swept(base, f"{which} {queries} queries, {warps} warps", settings))
    layer_norm = import_module("egorecovery.acceleration.kernels.layer_norm")  # its function hides it in the package
    for base, programs, stages in product(layer_norm_rows()[1:], (264, 396, 528, 792), (1, 3)):
        settings = [(layer_norm, "BACKWARD_PROGRAMS", programs), (layer_norm, "BACKWARD_STAGES", stages)]
        rows.append(swept(base, f"backward {programs} programs, {stages} stages", settings))
    for base in (group_norm_row(192, 128, 28, True), group_norm_row(192, 64, 24, True)):
        rows.append(swept(base, "one program a slice", [(group_norm, "NUMBERS_ON_CHIP", 16384)]))
    for size, numbers in product((112, 48), (512, 2048)):
        rows.append(swept(max_pool_row(192, size), f"{numbers}", [(group_norm_max_pool, "POOL_TILE_NUMBERS", numbers)]))
    return rows + mlp_sweep() + stem_norm_pool_sweep()


def swept(base: Row, label: str, settings: list[tuple[Any, str, int]]) -> Row:
    ours, plain = base.ways["ours"], base.plain or base.ways.get("eager")
    return Row(f"{base.name}: {label}", base.bytes, base.inputs, {"ours": ours}, settings, plain)


def outputs_and_gradients(function: Callable[..., Any], inputs: list[Tensor], arriving: list[Tensor]) -> list[Tensor]:
    found = function(*inputs)
    outputs = [found] if isinstance(found, Tensor) else list(found)
    wanting = [tensor for tensor in inputs if tensor.requires_grad]
    if not wanting:
        return outputs
    if not arriving:
        arriving += [torch.randn_like(out) for out in outputs]
    return [*outputs, *torch.autograd.grad(outputs, wanting, arriving)]


def worst_error(row: Row, inputs: list[Tensor], arriving: list[Tensor]) -> float | None:
    """Largest relative error of ours, over outputs and gradients, against the plain path in float32."""
    plain = row.plain or row.ways.get("eager")
    if plain is None or "ours" not in row.ways:
        return None
    ours = outputs_and_gradients(row.ways["ours"], inputs, arriving)
    exact = [t.detach().float().requires_grad_(t.requires_grad) if t.is_floating_point() else t for t in inputs]
    eager = outputs_and_gradients(plain, exact, [gradient.float() for gradient in arriving])
    errors = [
        float((a.detach().float() - b.detach().float()).norm() / b.detach().float().norm())
        for a, b in zip(ours, eager, strict=True)
    ]
    return max(errors)


def graph_us(function: Callable[[], object]) -> float:
    """Median time of one call inside a replayed CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    graph.replay()
    times = []
    for _ in range(ROUNDS):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        for _ in range(REPLAYS):
            graph.replay()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) * 1000 / REPLAYS)
    return median(times)


def measure(row: Row) -> dict[str, Any]:
    inputs, arriving = row.inputs(), []
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in row.settings]
    try:
        for owner, name, value in row.settings:
            setattr(owner, name, value)
        measured: dict[str, Any] = {"name": row.name, "bytes": row.bytes, "error": worst_error(row, inputs, arriving)}
        for way, function in row.ways.items():
            try:
                us = graph_us(lambda function=function: outputs_and_gradients(function, inputs, arriving))
                measured[f"{way}_us"] = us
            except torch.OutOfMemoryError:
                measured[f"{way}_us"] = None
        best = measured.get("ours_us") or measured.get("library_us")
        measured["gb_per_s"] = row.bytes / best / 1000 if best else None
        return measured
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def copy_gb_per_s() -> float:
    """What a plain copy of 2 GB reaches here: the ceiling of every row."""
    source = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / graph_us(lambda: target.copy_(source)) / 1000


def show(results: list[dict[str, Any]], ceiling: float) -> None:
    columns = ["ours us", "eager us", "library us", "must move MB", "GB/s", "of copy", "worst error"]
    table = Table("forward + backward", *columns, title=f"Fused operations (a copy reaches {ceiling:.0f} GB/s)")
    for row in results:
        if "failed" in row:
            table.add_row(row["name"], "failed", *[""] * 5, row["failed"][-40:])
            continue
        times = [f"{row[key]:.1f}" if row.get(key) else "-" for key in ("ours_us", "eager_us", "library_us")]
        rate = row["gb_per_s"]
        share = ["-", "-"] if rate is None else [f"{rate:.0f}", f"{rate / ceiling:.0%}"]
        error = "-" if row["error"] is None else f"{row['error']:.1e}"
        table.add_row(row["name"], *times, f"{row['bytes'] / 1e6:.0f}", *share, error)
    console.print(table)


def main(options: Options) -> None:
    began = time.perf_counter()
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    saved = json.loads(options.out.read_text()) if options.start and options.out else {}
    ceiling = saved.get("copy_gb_per_s") or copy_gb_per_s()
    results: list[dict[str, Any]] = saved.get("rows", [])
    rows = [row for row in all_rows(options.sweep) if options.only in row.name]
    for number, row in enumerate(rows[options.start :], start=options.start):
        left_s = options.budget_s - (time.perf_counter() - began)
        if left_s < 0:
            console.print(f"stopped before '{row.name}': {options.budget_s:.0f} s are over")
            break
        lost = False
        try:
            results.append(measure(row))
            print(json.dumps(results[-1]), flush=True)  # what a killed run leaves behind
        except Exception as error:  # one row must not cost the others their device time
            print(f"{row.name} FAILED\n" + "".join(traceback.format_exc().splitlines(keepends=True)[-12:]), flush=True)
            results.append({"name": row.name, "failed": f"{type(error).__name__}: {error}"[:500]})
            lost = "CUDA error" in str(error)
        if options.out is not None:
            found = {"device": "unknown" if lost else torch.cuda.get_device_name(), "copy_gb_per_s": ceiling}
            options.out.write_text(json.dumps({**found, "rows": results}, indent=1))
        if lost:
            show(results, ceiling)
            again = [f"--start={number + 1}", f"--budget-s={left_s}", f"--only={options.only}"]
            again += ["--sweep"] * options.sweep + ([f"--out={options.out}"] if options.out else [])
            os.execv(sys.executable, [sys.executable, __file__, *again])  # noqa: S606 - this very script
        torch.cuda.empty_cache()
    show(results, ceiling)


if __name__ == "__main__":
    main(tyro.cli(Options))
