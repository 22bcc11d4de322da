"""Who computes: a Triton kernel on a CUDA device, or plain PyTorch everywhere else.

Triton is no dependency: a CPU install never imports it, and every operation has a plain path that says in
PyTorch what the kernel computes. `TRITON_INTERPRET=1` runs the kernels on CPU tensors, slowly, to check them.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

try:
    import triton  # type: ignore[reportMissingImports]  # absent from a CPU install, on purpose
    import triton.language as tl  # type: ignore[reportMissingImports]
    from triton.tools.tensor_descriptor import TensorDescriptor  # type: ignore[reportMissingImports]
except ImportError:
    triton: Any = None
    TensorDescriptor: Any = None
    tl: Any = SimpleNamespace(constexpr=int)  # kernels still parse; nothing calls them

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
KERNEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


@dataclass
class Switch:
    """Whether kernels may run. Mutable and global: a parity test compares both paths of one model."""

    enabled: bool = True


fused = Switch()


@contextmanager
def plain_kernels() -> Iterator[None]:
    """Inside, every operation takes its plain PyTorch path."""
    before, fused.enabled = fused.enabled, False
    try:
        yield
    finally:
        fused.enabled = before


def runs_fused(*tensors: Tensor | None) -> bool:
    """Whether a kernel may take these tensors: all on one CUDA device, in a dtype that kernels read."""
    if not fused.enabled or triton is None:
        return False
    present = [tensor for tensor in tensors if tensor is not None]
    return all(
        (INTERPRETED or tensor.is_cuda) and tensor.device == present[0].device and tensor.dtype in KERNEL_DTYPES
        for tensor in present
    )


def jit(kernel: Callable[..., Any]) -> Any:
    """`triton.jit` where there is Triton. Kernels also wear `no_type_check`, which keeps the tests' hook off them."""
    return kernel if triton is None else triton.jit(kernel)


def has_copy_engine(tensor: Tensor) -> bool:
    """Whether whole tiles can travel between memory and chip by themselves: on GPUs since Hopper."""
    return INTERPRETED or torch.cuda.get_device_capability(tensor.device)[0] >= 9


def tiles_of(matrix: Tensor, rows: int, columns: int) -> Any:
    """How a kernel loads and stores whole tiles of a contiguous matrix; past its end they read 0 and write nothing.

    One that lies at an odd address, as no fresh tensor does, is read from a copy.
    """
    return TensorDescriptor.from_tensor(matrix if matrix.data_ptr() % 16 == 0 else matrix.clone(), [rows, columns])


def power_of_two_from(size: int) -> int:
    """The smallest power of two that is not below `size`."""
    return 1 << max(size - 1, 0).bit_length()


def warps_for(rows: int, wanted: int) -> int:
    """Of a program that multiplies so many rows; fewer than 64 over eight warps may come out wrong (docs/speed.md)."""
    return wanted if rows >= 64 else 4


def is_power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def ceil_div(size: int, block: int) -> int:
    return -(-size // block)
