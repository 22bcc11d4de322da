"""Gradients of norms' weights: sums over the partial ones that the programs of a backward pass leave behind."""

# P partial sums, D width: both sums of a norm lie side by side, 2D wide
from collections.abc import Sequence
from typing import no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

from egorecovery.acceleration.kernels.addresses import Addresses, tensor_at, triton_dtype
from egorecovery.acceleration.kernels.dispatch import ceil_div, jit, power_of_two_from, runs_fused, tl

TOTAL_ROWS = 512  # partial sums that one program adds at a time: their loads wait once
TOTAL_COLUMNS = 8  # 32 bytes, one memory sector: as many programs as there can be without reading twice
MANY_COLUMNS = 32  # with many norms there are programs enough
WARPS = 4
MANY_WARPS = 8


def totals(
    partial_P2D: Float[Tensor, "P 2 D"], first_dtype: torch.dtype, second_dtype: torch.dtype
) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """Both sums over the programs of a norm's backward pass, always in the same order."""
    partials, _, width = partial_P2D.shape
    first_D = torch.empty(width, dtype=first_dtype, device=partial_P2D.device)
    second_D = torch.empty(width, dtype=second_dtype, device=partial_P2D.device)
    rows = min(TOTAL_ROWS, power_of_two_from(partials))
    _totals_kernel[(2 * width // TOTAL_COLUMNS,)](
        partial_P2D, first_D, second_D, partials,
        D=width, ROWS=rows, STEPS=ceil_div(partials, rows), COLUMNS=TOTAL_COLUMNS, num_warps=WARPS,
    )  # fmt: skip
    return first_D, second_D


def takes_sums(first_D: Tensor, second_D: Tensor, partial_P2D: Tensor) -> bool:
    """Whether `many_totals` can take these: weights of two bytes a number, in whole columns."""
    return (
        runs_fused(first_D, second_D, partial_P2D)
        and first_D.element_size() == 2
        and first_D.dtype == second_D.dtype
        and partial_P2D.is_contiguous()
        and len(first_D) % MANY_COLUMNS == 0
    )


def many_totals(sums: Sequence[tuple[Tensor, Tensor, Tensor]], addresses: Addresses) -> None:
    """For each (partial_P2D, first_D, second_D): both sums, in one launch; all weights of one dtype."""
    if not sums:
        return
    if not runs_fused(*sums[0]):
        plain_many_totals(sums)
        return
    rows = [
        (len(partial), [partial.data_ptr(), out.data_ptr(), len(partial), len(out) // MANY_COLUMNS, which, column])
        for partial, *outs in sums
        for which, out in enumerate(outs)
        for column in range(len(out) // MANY_COLUMNS)
    ]
    rows.sort(key=lambda row: -row[0])
    table = addresses.on_device([row for _, row in rows], sums[0][0].device)
    dtype = triton_dtype(sums[0][1].dtype)
    _many_totals_kernel[(len(rows),)](table, ROWS=TOTAL_ROWS, COLUMNS=MANY_COLUMNS, DTYPE=dtype, num_warps=MANY_WARPS)


def plain_many_totals(sums: Sequence[tuple[Tensor, Tensor, Tensor]]) -> None:
    """What the kernel computes."""
    for partial_P2D, first_D, second_D in sums:
        for total_D, out_D in zip(partial_P2D.sum(dim=0), (first_D, second_D), strict=True):
            out_D.copy_(total_D)


@jit
@no_type_check
def _totals_kernel(
    partial_ptr, first_ptr, second_ptr, partials,
    D: tl.constexpr, ROWS: tl.constexpr, STEPS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)  # of both sums side by side
    total_PC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(0, STEPS):
        p = step * ROWS + tl.arange(0, ROWS)
        total_PC += tl.load(partial_ptr + p[:, None] * 2 * D + c[None, :], mask=p[:, None] < partials, other=0.0)
    total_C = tl.sum(total_PC, axis=0)
    tl.store(first_ptr + c, total_C.to(first_ptr.dtype.element_ty), mask=c < D)
    tl.store(second_ptr + c - D, total_C.to(second_ptr.dtype.element_ty), mask=c >= D)


@jit
@no_type_check
def _many_totals_kernel(table_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DTYPE: tl.constexpr):
    row_ptr = table_ptr + tl.program_id(0) * 6
    partial_ptr = tensor_at(row_ptr, tl.float32)
    out_ptr = tensor_at(row_ptr + 1, DTYPE)
    partials = tl.load(row_ptr + 2).to(tl.int32)
    D = tl.load(row_ptr + 3).to(tl.int32) * COLUMNS
    c = tl.load(row_ptr + 5).to(tl.int32) * COLUMNS + tl.arange(0, COLUMNS)
    p = tl.arange(0, ROWS)
    partial_ptr += tl.load(row_ptr + 4).to(tl.int32) * D
    total_PC = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, partials, ROWS):
        inside = p[:, None] < partials - start
        total_PC += tl.load(partial_ptr + ((start + p)[:, None] * (2 * D) + c[None, :]), mask=inside, other=0.0)
    tl.store(out_ptr + c, tl.sum(total_PC, axis=0).to(DTYPE))
