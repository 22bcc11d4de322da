"""Which device to compute on, and in which precision."""

import torch

from egorecovery.errors import RecipeError


def pick_device(device: str) -> torch.device:
    """ "auto" is CUDA where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = None
    if chosen is None or chosen.type not in ("cpu", "cuda"):
        raise RecipeError(f"there is no device '{device}'; use cpu, cuda or cuda:0")
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise RecipeError("no CUDA device is available here; use --device cpu")
    return chosen


def usual_precision(device: torch.device) -> torch.dtype:
    return torch.bfloat16 if device.type == "cuda" else torch.float32
