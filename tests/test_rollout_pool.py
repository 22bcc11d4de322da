"""How the pool hears its workers: several questions at once where it can, nobody forgotten."""

import multiprocessing
import threading
import time

import pytest

from egorecovery.evaluation import pool
from egorecovery.evaluation.pool import _gathered, _Worker
from egorecovery.evaluation.rollout import Ending


@pytest.fixture
def workers():
    """Three of them, as (their end of the pipe, what the pool knows of them)."""
    made = []
    for _ in range(3):
        ours, theirs = multiprocessing.Pipe()
        made.append((theirs, _Worker(process=None, connection=ours, number=0)))
    yield made
    for theirs, worker in made:
        theirs.close()
        worker.connection.close()


def told(words):
    return Ending(result="failure", reason=words, start=None)


def words(heard):
    return sorted(said.reason for _, said in heard)


def busy(workers):
    return {worker.connection: worker for _, worker in workers}


def test_questions_that_come_soon_after_the_first_share_its_batch(workers, monkeypatch):
    monkeypatch.setattr(pool, "GATHER_S", 5.0)
    workers[0][0].send(told("first"))
    later = threading.Timer(0.05, workers[1][0].send, [told("second")])
    later.start()
    heard = _gathered(busy(workers), enough=2)
    later.join()
    assert words(heard) == ["first", "second"]


def test_nobody_is_waited_for_longer_than_the_limit(workers, monkeypatch):
    monkeypatch.setattr(pool, "GATHER_S", 0.02)
    workers[0][0].send(told("only"))
    started_s = time.monotonic()
    heard = _gathered(busy(workers), enough=3)
    assert words(heard) == ["only"]
    assert time.monotonic() - started_s > 0.01


def test_everything_that_is_there_is_heard_once_even_beyond_what_is_enough(workers):
    for name, (theirs, _) in zip("abc", workers, strict=True):
        theirs.send(told(name))
        theirs.send(told("for the next time"))
    assert words(_gathered(busy(workers), enough=1)) == ["a", "b", "c"]


def test_a_worker_that_is_gone_is_heard_as_nothing(workers):
    workers[2][0].close()
    assert [(worker is workers[2][1], said) for worker, said in _gathered(busy(workers), enough=1)] == [(True, None)]
