"""Makes sure that MuJoCo can render without a display: uses what is there, else installs or says what to install."""

import ctypes
import os
import shutil
import subprocess
import sys

LIBRARIES = ("libOSMesa.so.8", "libOSMesa.so.6", "libEGL.so.1")  # software first: it needs no driver


def found() -> str | None:
    for name in LIBRARIES:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return name
    return None


def install() -> None:
    quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", "libosmesa6"], check=False, **quiet)


def main() -> int:
    if found() is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
    if found() is None:
        print("headless OpenGL is missing: install OSMesa (Debian: libosmesa6) to render the workcell", file=sys.stderr)
    return 0  # everything but rendering works without it


if __name__ == "__main__":
    raise SystemExit(main())
