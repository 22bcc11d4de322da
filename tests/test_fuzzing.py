"""Whatever bytes lie where a reader looks, it gives a value or a typed error, and leaves everything outside alone."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzzed_readers
from egorecovery.errors import EgoRecoveryError
from fuzzed_readers import READERS
from mutations import mutated, resealed, restore, snapshot

pytestmark = pytest.mark.fault
EXAMPLES, EXAMPLES_OF_SLOW_ONES = 40, 10


class Drawn:
    """Choices of hypothesis, so that a failure shrinks to the smallest change that shows it."""

    def __init__(self, data) -> None:
        self._data = data

    def whole(self, most: int) -> int:
        return self._data.draw(st.integers(0, most))

    def some_bytes(self, most: int) -> bytes:
        return self._data.draw(st.binary(max_size=most))


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Each made once, by the first test that wants it."""

    @cache
    def made(name: str) -> tuple[Path, dict[Path, bytes]]:
        root = tmp_path_factory.mktemp(name)
        READERS[name].make(root)
        return root, snapshot(root)

    return made


@pytest.mark.parametrize("name", READERS)
def test_whole_example_is_read_without_a_refusal(name, example, monkeypatch):
    """What the tests below change is really read."""
    monkeypatch.setattr(fuzzed_readers, "each_step", lambda *steps: [step() for step in steps])
    root, before = example(name)
    READERS[name].read(root)
    restore(root, before)


@pytest.mark.parametrize("name", READERS)
def test_only_the_typed_error_escapes_from_a_reader_of_any_bytes(name, example):
    root, before = example(name)
    files = [path for path in before if path.name.endswith(READERS[name].only)]

    @given(st.data())
    @settings(
        max_examples=EXAMPLES_OF_SLOW_ONES if READERS[name].slow else EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def read(data) -> None:
        choose = Drawn(data)
        path = files[choose.whole(len(files) - 1)]
        try:
            path.write_bytes(mutated(before[path], choose, path.suffix in (".json", ".jsonl")))
            if choose.whole(1):
                resealed(root)
            READERS[name].read(root)
        except EgoRecoveryError:
            pass
        finally:
            restore(root, before)

    read()
