"""Makes sure that MuJoCo can render without a display: uses what is there, else installs or says what to install."""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

# The renderer that egorecovery.workcell.physics chooses: the driver's EGL with an NVIDIA GPU, else OSMesa.
HARDWARE = Path("/dev/nvidiactl").exists() or os.environ.get("MUJOCO_GL") == "egl"
LIBRARIES = ("libEGL.so.1",) if HARDWARE else ("libOSMesa.so.8", "libOSMesa.so.6")
PACKAGE = "libegl1" if HARDWARE else "libosmesa6"  # Debian's names


def found() -> bool:
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def install() -> None:
    quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGE], check=False, **quiet)


def main() -> int:
    if not found() and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
    if not found():
        print(f"headless OpenGL is missing: install {PACKAGE} (Debian's name) to render the workcell", file=sys.stderr)
    return 0  # everything but rendering works without it


if __name__ == "__main__":
    raise SystemExit(main())
