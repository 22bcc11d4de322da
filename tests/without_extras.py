"""Runs verbs where nothing of the extras is installed: {verb: [exit code, what it said]} as JSON."""

import contextlib
import importlib.abc
import io
import json
import sys

from egorecovery.cli.extras import EXTRAS

HIDDEN = {library for libraries in EXTRAS.values() for library in libraries}


class Hidden(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def run(arguments):
    from egorecovery.cli.main import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(arguments)
    return [code, said.getvalue()]


if __name__ == "__main__":
    assert not HIDDEN & set(sys.modules)
    sys.meta_path.insert(0, Hidden())
    print(json.dumps([run(arguments) for arguments in json.loads(sys.stdin.read())]))
