"""Multi-head attention over short sequences, straight from and to the packed projections.

A sample's keys of one head fit on chip whole (at most 128 tokens of at most 64 numbers), so there is no loop over
keys and no online softmax. One program owns one (sample, head): the backward pass recomputes the probabilities
and finishes dq, dk and dv in one go, with no atomics. Heads are read by stride from the projection's output, which
saves the split, transpose and concatenate passes around a library kernel: those cost more than the attention.
"""

# B samples, M queries, N keys, D width = heads x head width
from dataclasses import dataclass
from math import log2
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from egorecovery.acceleration.kernels.dispatch import INTERPRETED, jit, power_of_two_from, runs_fused, tl, warps_for
from egorecovery.policy import attention as plain

LONGEST = 128  # tokens; beyond it a probability tile no longer fits in registers
HEAD_WIDTHS = (16, 32, 64)
E_LOG2 = log2(2.718281828459045)  # exp(x) = exp2(x * E_LOG2): the hardware only has exp2


@dataclass
class Tile:
    """How much one program holds at a time. Mutable, so that a benchmark can sweep it."""

    queries: int  # rows of the probability tile; the keys are always whole
    warps: int


# At 128 tokens and heads of 32, compiled for sm_90: 105 and 255 registers, four and two programs per multiprocessor,
# and nothing spilled. A backward tile of 128 queries spills with 4 warps and leaves one program with 8.
FORWARD_TILE = Tile(queries=64, warps=4)
BACKWARD_TILE = Tile(queries=64, warps=4)


def self_attention(
    qkv_BN3D: Float[Tensor, "B N DDD"], heads: int, readers: int | None = None
) -> Float[Tensor, "B M D"]:
    """Attention of a sequence to itself; queries, keys and values side by side in the last axis, heads inside each.

    Every token reads all of them, or only the first `readers` do.
    """
    query_BMD, key_BND, value_BND = _queries_keys_values(qkv_BN3D, readers)
    if _fits(query_BMD, key_BND, heads):
        return _SelfAttention.apply(qkv_BN3D, heads, readers)
    return plain.attention(query_BMD, key_BND, value_BND, heads)


def cross_attention(
    query_BMD: Float[Tensor, "B M D"], kv_BN2D: Float[Tensor, "B N DD"], heads: int
) -> Float[Tensor, "B M D"]:
    """Attention to another sequence, its keys and values side by side in the last axis."""
    key_BND, value_BND = kv_BN2D.chunk(2, dim=-1)
    if _fits(query_BMD, key_BND, heads):
        return _CrossAttention.apply(query_BMD, kv_BN2D, heads)
    return plain.attention(query_BMD, key_BND, value_BND, heads)


def _queries_keys_values(qkv_BN3D: Tensor, readers: int | None) -> tuple[Tensor, Tensor, Tensor]:
    query_BND, key_BND, value_BND = qkv_BN3D.chunk(3, dim=-1)
    return query_BND[:, :readers], key_BND, value_BND


def _fits(query_BMD: Tensor, key_BND: Tensor, heads: int) -> bool:
    """On a GPU, float32 is left to torch: small tiles came out wrong there (docs/speed.md), and float32 heads of 64
    would need more shared memory than there is."""
    return (
        runs_fused(query_BMD, key_BND)
        and (query_BMD.element_size() == 2 or INTERPRETED)
        and query_BMD.dtype == key_BND.dtype
        and max(query_BMD.shape[1], key_BND.shape[1]) <= LONGEST
        and query_BMD.shape[-1] in [heads * width for width in HEAD_WIDTHS]
    )


class _SelfAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv_BN3D: Tensor, heads: int, readers: int | None) -> Tensor:
        qkv_BN3D = _rows_contiguous(qkv_BN3D)
        out_BMD, lse_BHM = _forward(*_queries_keys_values(qkv_BN3D, readers), heads)
        ctx.save_for_backward(qkv_BN3D, lse_BHM)
        ctx.heads, ctx.readers = heads, readers
        return out_BMD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_BMD: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        qkv_BN3D, lse_BHM = ctx.saved_tensors
        d_qkv_BN3D = torch.empty(qkv_BN3D.shape, dtype=qkv_BN3D.dtype, device=qkv_BN3D.device)
        gradients = _queries_keys_values(d_qkv_BN3D, ctx.readers)
        if ctx.readers is not None:
            d_qkv_BN3D[:, ctx.readers :, : gradients[0].shape[-1]] = 0  # of queries that nobody asked
        _backward(*_queries_keys_values(qkv_BN3D, ctx.readers), lse_BHM, d_out_BMD, *gradients, ctx.heads)
        return d_qkv_BN3D, None, None


class _CrossAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query_BMD: Tensor, kv_BN2D: Tensor, heads: int) -> Tensor:
        query_BMD, kv_BN2D = _rows_contiguous(query_BMD), _rows_contiguous(kv_BN2D)
        key_BND, value_BND = kv_BN2D.chunk(2, dim=-1)
        out_BMD, lse_BHM = _forward(query_BMD, key_BND, value_BND, heads)
        ctx.save_for_backward(query_BMD, kv_BN2D, lse_BHM)
        ctx.heads = heads
        return out_BMD

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out_BMD: Tensor) -> tuple[Tensor, Tensor, None]:  # type: ignore[reportIncompatibleMethodOverride]  # torch types it *Any
        query_BMD, kv_BN2D, lse_BHM = ctx.saved_tensors
        # Not empty_like: queries may be one learned set expanded over the batch, whose strides overlap.
        d_query_BMD = torch.empty(query_BMD.shape, dtype=query_BMD.dtype, device=query_BMD.device)
        d_kv_BN2D = torch.empty(kv_BN2D.shape, dtype=kv_BN2D.dtype, device=kv_BN2D.device)
        key_BND, value_BND = kv_BN2D.chunk(2, dim=-1)
        d_key_BND, d_value_BND = d_kv_BN2D.chunk(2, dim=-1)
        _backward(query_BMD, key_BND, value_BND, lse_BHM, d_out_BMD, d_query_BMD, d_key_BND, d_value_BND, ctx.heads)
        return d_query_BMD, d_kv_BN2D, None


def _rows_contiguous(tensor: Tensor) -> Tensor:
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _sizes(query_BMD: Tensor, key_BND: Tensor, heads: int, tile: Tile) -> dict[str, Any]:
    """Compile-time sizes: they never change within a run, and exact tiles then need no masks."""
    queries, keys, width = query_BMD.shape[1], key_BND.shape[1], query_BMD.shape[-1] // heads
    bytes_per_row = width * query_BMD.element_size()
    tile_rows = min(tile.queries, max(16, power_of_two_from(queries)))  # tensor cores want 16 rows
    return {
        "HEADS": heads,
        "WIDTH": width,
        "M": queries,
        "N": keys,
        "TILE_M": tile_rows,
        "TILE_N": max(16, power_of_two_from(keys)),
        "PRECISION": "tf32x3",  # of float32 inputs only: near float32 on tensor cores; exact products would spill
        # Wide heads and float32 need the registers of more warps.
        "num_warps": warps_for(tile_rows, max(tile.warps, bytes_per_row // 16)),
    }


def _forward(query_BMD: Tensor, key_BND: Tensor, value_BND: Tensor, heads: int) -> tuple[Tensor, Tensor]:
    batch, queries, width = query_BMD.shape
    out_BMD = torch.empty((batch, queries, width), dtype=query_BMD.dtype, device=query_BMD.device)
    lse_BHM = torch.empty((batch, heads, queries), dtype=torch.float32, device=query_BMD.device)
    _attention_forward_kernel[(batch * heads,)](
        query_BMD, key_BND, value_BND, out_BMD, lse_BHM,
        *query_BMD.stride()[:2], *key_BND.stride()[:2], *out_BMD.stride()[:2],
        E_LOG2 * (width // heads) ** -0.5,
        **_sizes(query_BMD, key_BND, heads, FORWARD_TILE),
    )  # fmt: skip
    return out_BMD, lse_BHM


def _backward(
    query_BMD: Tensor, key_BND: Tensor, value_BND: Tensor, lse_BHM: Tensor, d_out_BMD: Tensor,
    d_query_BMD: Tensor, d_key_BND: Tensor, d_value_BND: Tensor, heads: int,
) -> None:  # fmt: skip
    """Fills the three gradients, each a slice of a packed tensor."""
    d_out_BMD = _rows_contiguous(d_out_BMD)
    _attention_backward_kernel[(query_BMD.shape[0] * heads,)](
        query_BMD, key_BND, value_BND, lse_BHM, d_out_BMD, d_query_BMD, d_key_BND, d_value_BND,
        *query_BMD.stride()[:2], *key_BND.stride()[:2], *d_out_BMD.stride()[:2],
        *d_query_BMD.stride()[:2], *d_key_BND.stride()[:2],
        (query_BMD.shape[-1] // heads) ** -0.5, E_LOG2,
        **_sizes(query_BMD, key_BND, heads, BACKWARD_TILE),
    )  # fmt: skip


@jit
@no_type_check
def _attention_forward_kernel(
    query_ptr, key_ptr, value_ptr, out_ptr, lse_ptr,
    query_batch, query_row, key_batch, key_row, out_batch, out_row,
    scale_log2,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(0) // HEADS).to(tl.int64)
    head = tl.program_id(0) % HEADS
    column = head * WIDTH + tl.arange(0, WIDTH)
    n = tl.arange(0, TILE_N)
    key_at = batch * key_batch + n[:, None] * key_row + column[None, :]
    key_NW = tl.load(key_ptr + key_at, mask=n[:, None] < N, other=0.0)
    value_NW = tl.load(value_ptr + key_at, mask=n[:, None] < N, other=0.0)
    for start in range(0, M, TILE_M):
        m = start + tl.arange(0, TILE_M)
        rows = m[:, None] < M
        query_MW = tl.load(query_ptr + batch * query_batch + m[:, None] * query_row + column[None, :], rows, other=0.0)
        score_MN = tl.dot(query_MW, tl.trans(key_NW), input_precision=PRECISION)
        if N < TILE_N:
            score_MN = tl.where(n[None, :] < N, score_MN, float("-inf"))
        top_M = tl.max(score_MN, axis=1) * scale_log2
        weight_MN = tl.exp2(score_MN * scale_log2 - top_M[:, None])  # scaled here, where that costs no instruction
        total_M = tl.sum(weight_MN, axis=1)
        out_MW = tl.dot(weight_MN.to(value_NW.dtype), value_NW, input_precision=PRECISION) * (1.0 / total_M)[:, None]
        out_at = batch * out_batch + m[:, None] * out_row + column[None, :]
        tl.store(out_ptr + out_at, out_MW.to(out_ptr.dtype.element_ty), mask=rows)
        tl.store(lse_ptr + (batch * HEADS + head) * M + m, top_M + tl.log2(total_M), mask=m < M)


@jit
@no_type_check
def _attention_backward_kernel(
    query_ptr, key_ptr, value_ptr, lse_ptr, d_out_ptr, d_query_ptr, d_key_ptr, d_value_ptr,
    query_batch, query_row, key_batch, key_row, d_out_batch, d_out_row,
    d_query_batch, d_query_row, d_key_batch, d_key_row,
    scale, e_log2,
    HEADS: tl.constexpr, WIDTH: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    # Tiles are queries x keys, so sums over keys stay inside a warp: 4 shuffles, where keys x queries need 52.
    batch = (tl.program_id(0) // HEADS).to(tl.int64)
    head = tl.program_id(0) % HEADS
    column = head * WIDTH + tl.arange(0, WIDTH)
    n = tl.arange(0, TILE_N)
    keys = n[:, None] < N
    key_at = batch * key_batch + n[:, None] * key_row + column[None, :]
    key_NW = tl.load(key_ptr + key_at, mask=keys, other=0.0)
    value_NW = tl.load(value_ptr + key_at, mask=keys, other=0.0)
    d_key_NW = tl.zeros((TILE_N, WIDTH), dtype=tl.float32)
    d_value_NW = tl.zeros((TILE_N, WIDTH), dtype=tl.float32)
    for start in range(0, M, TILE_M):
        m = start + tl.arange(0, TILE_M)
        rows = m[:, None] < M
        query_MW = tl.load(query_ptr + batch * query_batch + m[:, None] * query_row + column[None, :], rows, other=0.0)
        d_out_MW = tl.load(d_out_ptr + batch * d_out_batch + m[:, None] * d_out_row + column[None, :], rows, other=0.0)
        # An infinite log-sum-exp gives rows past the end probability 0.
        lse_M = tl.load(lse_ptr + (batch * HEADS + head) * M + m, mask=m < M, other=float("inf"))
        score_MN = tl.dot(query_MW, tl.trans(key_NW), input_precision=PRECISION)
        chance_MN = tl.exp2(score_MN * (scale * e_log2) - lse_M[:, None])
        if N < TILE_N:
            chance_MN = tl.where(n[None, :] < N, chance_MN, 0.0)
        d_chance_MN = tl.dot(d_out_MW, tl.trans(value_NW), input_precision=PRECISION)
        # sum(P dP) over keys equals out . d_out, so the output need not be kept or read.
        inner_M = tl.sum(chance_MN * d_chance_MN, axis=1)
        d_score_MN = (chance_MN * (d_chance_MN - inner_M[:, None])).to(query_MW.dtype)
        d_value_NW = tl.dot(tl.trans(chance_MN.to(d_out_MW.dtype)), d_out_MW, d_value_NW, input_precision=PRECISION)
        d_key_NW = tl.dot(tl.trans(d_score_MN), query_MW, d_key_NW, input_precision=PRECISION)
        d_query_MW = tl.dot(d_score_MN, key_NW, input_precision=PRECISION) * scale  # which d_score lacks
        d_query_at = batch * d_query_batch + m[:, None] * d_query_row + column[None, :]
        tl.store(d_query_ptr + d_query_at, d_query_MW.to(d_query_ptr.dtype.element_ty), mask=rows)
    d_key_at = batch * d_key_batch + n[:, None] * d_key_row + column[None, :]
    tl.store(d_key_ptr + d_key_at, (d_key_NW * scale).to(d_key_ptr.dtype.element_ty), mask=keys)
    tl.store(d_value_ptr + d_key_at, d_value_NW.to(d_value_ptr.dtype.element_ty), mask=keys)
