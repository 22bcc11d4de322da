"""What computes results, here and now: hardware, versions of libraries, the time."""

from datetime import UTC, datetime
from platform import python_version
from typing import Any

from egorecovery.executors import cores


def hardware(device: str) -> dict[str, Any]:
    import torch

    from egorecovery.policy.device import pick_device

    chosen = pick_device(device)
    name = torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else "cpu"
    return {"device": name, "cpu_count": cores()}


def versions() -> dict[str, str]:
    """Of what computes results."""
    import numpy
    import torch

    from egorecovery.workcell.physics import mujoco

    numbers = {"mujoco": mujoco.__version__, "numpy": numpy.__version__, "torch": str(torch.__version__)}
    return {"python": python_version(), **numbers}


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
