"""Makes sure that the browser tests have a Chromium: uses what is there, else installs or says what to install."""

import os
import shutil
import subprocess
import sys

PACKAGE = "chromium"  # Debian's name


def install() -> None:
    quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
    subprocess.run(["apt-get", "update", "-qq"], check=False, **quiet)
    subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", PACKAGE], check=False, **quiet)


def main() -> int:
    if not shutil.which("chromium") and os.geteuid() == 0 and shutil.which("apt-get"):
        install()
    if not shutil.which("chromium"):
        print(f"chromium is missing: install {PACKAGE} (Debian's name) to run the browser tests", file=sys.stderr)
    return 0  # everything but the browser tests works without it


if __name__ == "__main__":
    raise SystemExit(main())
