"""Where and how a run computes; none of it is meant to change what it computes."""

import os
import random
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.distributed as dist

from egorecovery import accelerator
from egorecovery.errors import RecipeError
from egorecovery.policy.device import pick_device, usual_precision
from egorecovery.training.products import has_bfloat16_products

Precision = Literal["auto", "bf16", "fp32"]


@dataclass(frozen=True, kw_only=True)
class Runtime:
    device: torch.device
    precision: torch.dtype = torch.float32
    bfloat16_products: bool = False  # of a CPU, in float32 otherwise; `precision` is that of all the rest
    graph: bool = False  # capture the step as a CUDA graph
    accelerated: bool = False  # by the `acceleration` package; plain torch otherwise
    deterministic: bool = False  # bit-for-bit repeatable on a GPU, slower; a CPU always is
    rank: int = 0
    ranks: int = 1
    ranks_here: int = 1  # of them on this machine

    def __post_init__(self) -> None:
        if self.graph and (self.device.type != "cuda" or self.ranks > 1):
            raise RecipeError("a CUDA graph needs one process on a CUDA device; leave --graph off")

    @property
    def first(self) -> bool:
        """Logs and saves."""
        return self.rank == 0

    @property
    def words(self) -> dict[str, str]:
        """For the record: these round differently."""
        precision = str(self.precision).removeprefix("torch.")
        if self.bfloat16_products:
            precision += ", products in bfloat16"
        deterministic, ranks = str(self.deterministic).lower(), str(self.ranks)
        accelerated = str(self.accelerated).lower()
        return {
            "device": self.device.type,
            "precision": precision,
            "deterministic": deterministic,
            "processes": ranks,
            "accelerated": accelerated,
        }


def start(
    device: str = "auto",
    precision: Precision = "auto",
    deterministic: bool = False,
    acceleration: accelerator.Mode = "auto",
) -> Runtime:
    """The runtime of this process; joins the others when started by torchrun."""
    ranks, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    chosen = pick_device(device)
    if ranks > 1 and chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    if ranks > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = not deterministic  # shapes are fixed, so the search pays once
    torch.backends.cudnn.deterministic = deterministic
    dtype = {"auto": usual_precision(chosen), "bf16": torch.bfloat16, "fp32": torch.float32}[precision]
    return Runtime(
        device=chosen,
        precision=dtype,
        bfloat16_products=precision == "auto" and chosen.type == "cpu" and has_bfloat16_products(),
        accelerated=_all_agree(accelerator.chosen(acceleration, chosen, dtype), chosen, ranks),
        graph=chosen.type == "cuda" and ranks == 1,
        deterministic=deterministic,
        rank=rank,
        ranks=ranks,
        ranks_here=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
    )


def _all_agree(accelerated: bool, device: torch.device, ranks: int) -> bool:
    """Processes that share a training compute alike: accelerated only where all of them can."""
    if ranks == 1 or device.type != "cuda":
        return accelerated
    agreed = torch.tensor(int(accelerated), device=device)
    dist.all_reduce(agreed, op=dist.ReduceOp.MIN)
    return bool(agreed.item())


def seed_initialisation(seed: int) -> None:
    """First weights come from torch's own generator; everything later from plans."""
    torch.manual_seed(seed)
    random.seed(seed)  # transformers' initialisers may ask any of the three
    np.random.seed(seed)
