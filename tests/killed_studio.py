"""An annotation app to be killed, again and again: forks one per line on stdin, so that imports are paid once."""

import os
import sys
from pathlib import Path

from egorecovery.episodes import EpisodeStore
from egorecovery.studio.annotating.routes import annotate_app
from egorecovery.studio.server import Serving, serve


def say(*words: object) -> None:
    os.write(sys.stdout.fileno(), (" ".join(map(str, words)) + "\n").encode())


def run(store: EpisodeStore) -> None:
    say("victim", os.getpid())
    serve(lambda access: annotate_app(store, access), Serving(port=0, browser=False), say)


if __name__ == "__main__":
    opened = EpisodeStore(Path(sys.argv[1]))
    for _ in sys.stdin:
        victim = os.fork()
        if victim == 0:
            run(opened)
            os._exit(0)
        _, status = os.waitpid(victim, 0)
        say("ended", os.waitstatus_to_exitcode(status))
