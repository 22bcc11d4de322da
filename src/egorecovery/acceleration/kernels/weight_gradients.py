"""The gradients of many weights in one launch.

A weight's gradient, d_out^T x given, is small and sums over every row of the batch: alone it fills a large GPU only
when the rows are cut into parts, which then have to be added up in another launch. All gradients of a step together
fill it as they are, each number summed by one program from beginning to end, and always in the same order.
"""

# R rows = samples x tokens, M x N a weight
from collections.abc import Sequence
from dataclasses import dataclass
from typing import no_type_check

from torch import Tensor

from egorecovery.acceleration.kernels.addresses import Addresses, tensor_at, triton_dtype
from egorecovery.acceleration.kernels.dispatch import jit, runs_fused, tl


@dataclass
class Tile:
    """How much one program holds at a time. Mutable, so that a benchmark can sweep it."""

    outputs: int  # M
    inputs: int  # N
    depth: int  # rows at a time
    warps: int
    stages: int  # fetched tiles in shared memory


# Compiled for sm_90: 224 registers and 144 KB of shared memory, one program per multiprocessor, nothing spilled.
TILE = Tile(outputs=128, inputs=256, depth=64, warps=8, stages=3)
UNIT = 16  # numbers; sizes in the table are multiples of it, from which the compiler knows that loads are aligned


def takes_product(weight_MN: Tensor, d_out_RM: Tensor, given_RN: Tensor) -> bool:
    """Whether the kernel can take this one: of two bytes a number, in whole tiles, and enough rows to be worth it."""
    outputs, inputs = weight_MN.shape
    return (
        runs_fused(weight_MN, d_out_RM, given_RN)
        and weight_MN.element_size() == 2
        and weight_MN.dtype == d_out_RM.dtype == given_RN.dtype
        and all(tensor.is_contiguous() for tensor in (weight_MN, d_out_RM, given_RN))
        and outputs % TILE.outputs == 0
        and inputs % TILE.inputs == 0
        and len(d_out_RM) >= TILE.depth
        and len(d_out_RM) * max(outputs, inputs) < 2**31
    )


def weight_gradients(products: Sequence[tuple[Tensor, Tensor, Tensor]], addresses: Addresses) -> None:
    """For each (d_out_RM, given_RN, out_MN): out = d_out^T x given; all of one dtype."""
    if not products:
        return
    if not runs_fused(*products[0]):
        plain_weight_gradients(products)
        return
    rows = [
        (len(d_out_RM), [d_out_RM.data_ptr(), given_RN.data_ptr(), out_MN.data_ptr(), len(d_out_RM),
                         out_MN.shape[0] // UNIT, out_MN.shape[1] // UNIT, first_m // UNIT, first_n // UNIT])
        for d_out_RM, given_RN, out_MN in products
        for first_m in range(0, out_MN.shape[0], TILE.outputs)
        for first_n in range(0, out_MN.shape[1], TILE.inputs)
    ]  # fmt: skip
    rows.sort(key=lambda row: -row[0])  # the longest sums first, so that all programs end at about the same time
    table = addresses.on_device([row for _, row in rows], products[0][2].device)
    _weight_gradients_kernel[(len(rows),)](
        table, M_TILE=TILE.outputs, N_TILE=TILE.inputs, DEPTH=TILE.depth, UNIT=UNIT,
        DTYPE=triton_dtype(products[0][2].dtype), EVEN=all(length % TILE.depth == 0 for length, _ in rows),
        num_warps=TILE.warps, num_stages=TILE.stages,
    )  # fmt: skip


def plain_weight_gradients(products: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
    """What the kernel computes."""
    for d_out_RM, given_RN, out_MN in products:
        out_MN.copy_(d_out_RM.t() @ given_RN)


@jit
@no_type_check
def _weight_gradients_kernel(
    table_ptr,
    M_TILE: tl.constexpr, N_TILE: tl.constexpr, DEPTH: tl.constexpr, UNIT: tl.constexpr,
    DTYPE: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    row_ptr = table_ptr + tl.program_id(0) * 8
    d_out_ptr = tensor_at(row_ptr, DTYPE)
    given_ptr = tensor_at(row_ptr + 1, DTYPE)
    out_ptr = tensor_at(row_ptr + 2, DTYPE)
    rows = tl.load(row_ptr + 3).to(tl.int32)
    M = tl.load(row_ptr + 4).to(tl.int32) * UNIT
    N = tl.load(row_ptr + 5).to(tl.int32) * UNIT
    m = tl.load(row_ptr + 6).to(tl.int32) * UNIT + tl.arange(0, M_TILE)
    n = tl.load(row_ptr + 7).to(tl.int32) * UNIT + tl.arange(0, N_TILE)
    r = tl.arange(0, DEPTH)
    d_out_ptrs = d_out_ptr + (r[:, None] * M + m[None, :])
    given_ptrs = given_ptr + (r[:, None] * N + n[None, :])
    sum_MN = tl.zeros((M_TILE, N_TILE), dtype=tl.float32)
    for start in range(0, rows, DEPTH):
        if EVEN:
            d_out_RM = tl.load(d_out_ptrs)
            given_RN = tl.load(given_ptrs)
        else:
            inside = r[:, None] < rows - start
            d_out_RM = tl.load(d_out_ptrs, mask=inside, other=0.0)
            given_RN = tl.load(given_ptrs, mask=inside, other=0.0)
        sum_MN = tl.dot(tl.trans(d_out_RM), given_RN, sum_MN)
        d_out_ptrs += DEPTH * M
        given_ptrs += DEPTH * N
    tl.store(out_ptr + (m[:, None] * N + n[None, :]), sum_MN.to(DTYPE))
