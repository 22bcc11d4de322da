"""Matrix products of a CPU's training step: numbers rounded to bfloat16 and summed in float32, where the CPU can.

Weights, gradients and all other arithmetic stay in float32. The rounding is the one that a GPU's trainings have.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def has_bfloat16_products() -> bool:
    """Whether this CPU multiplies bfloat16; one that only imitates it is slower than in float32."""
    able = getattr(torch.cpu, "get_capabilities", dict)()  # not in every version of torch
    return torch.backends.mkldnn.is_available() and bool(able.get("avx512_bf16") or able.get("amx_bf16"))


@contextmanager
def bfloat16_products(wanted: bool) -> Iterator[None]:
    """The setting is torch's, of the whole process: it holds inside only, and not for two trainings in threads."""
    if not wanted:
        yield
        return
    backend: Any = torch.backends.mkldnn  # torch's stubs lack its `matmul`
    settings = backend.matmul
    before = settings.fp32_precision
    settings.fp32_precision = "bf16"
    try:
        yield
    finally:
        settings.fp32_precision = before
