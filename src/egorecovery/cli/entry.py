"""What the command `egorecovery` starts: light, so that Ctrl-C is answered kindly from the first moment on."""

import os
import sys

INTERRUPTED = 130


def main() -> int:
    # Threads that wait for work of PyTorch do not spin: on a busy processor spinning costs ten times the work itself
    # (docs/speed.md). The number of threads, and with it every bit of a result, stays the same.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        from egorecovery.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        print("\negorecovery: stopped before anything was done; run the same command again", file=sys.stderr)
        return INTERRUPTED
