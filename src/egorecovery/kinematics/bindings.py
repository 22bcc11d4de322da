"""The one import of MuJoCo. It chooses a renderer first, because MuJoCo picks its GL library while it is imported."""

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

# Triton, which comes with PyTorch for GPUs, and Mesa bring an LLVM each. Loaded in this order they get along; in the
# other one the process dies of a segmentation fault.
with suppress(ImportError):
    import_module("triton")
try:
    import mujoco as _bindings
except RuntimeError as error:  # it looks at MUJOCO_GL while it is imported
    raise KinematicsError(f"MuJoCo cannot start: {error}; set MUJOCO_GL to egl or osmesa, or leave it unset") from None

# The bindings are compiled and carry no stubs: to the type checker these are names only.
mujoco: Any = _bindings
MjData: TypeAlias = Any
MjModel: TypeAlias = Any
MjSpec: TypeAlias = Any

# By default MuJoCo appends its warnings to a file in the current directory.
mujoco.set_mju_user_warning(logging.getLogger(__name__).debug)
