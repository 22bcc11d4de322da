"""The only import of MuJoCo. It sets the renderer first, because MuJoCo selects its GL library on import."""

import logging
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

# Hardware EGL is ten times faster; without an NVIDIA driver, OSMesa needs no display and no permissions.
os.environ.setdefault("MUJOCO_GL", "egl" if Path("/dev/nvidiactl").exists() else "osmesa")
# Mesa would start a thread per core for 96x96 images; processes scale better than threads here.
os.environ.setdefault("LP_NUM_THREADS", "0")

from egorecovery.errors import KinematicsError

# Triton, which comes with PyTorch for GPUs, and Mesa each bring an LLVM. In the other order of loading the process
# dies of a segmentation fault.
with suppress(ImportError):
    import_module("triton")
try:
    import mujoco as _bindings
except RuntimeError as error:  # MuJoCo reads MUJOCO_GL on import
    raise KinematicsError(f"MuJoCo cannot start: {error}; set MUJOCO_GL to egl or osmesa, or leave it unset") from None

# The bindings are compiled and have no stubs, so the type checker knows only their names.
mujoco: Any = _bindings
MjData: TypeAlias = Any
MjModel: TypeAlias = Any
MjSpec: TypeAlias = Any

# By default MuJoCo appends its warnings to a file in the current directory.
mujoco.set_mju_user_warning(logging.getLogger(__name__).debug)
