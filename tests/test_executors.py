"""Jobs in worker processes: however they end, nothing spills over the message that a person gets."""

import os
import signal
import threading
import time

import pytest

from egorecovery.executors import WorkerLost, run_jobs


@pytest.fixture
def spilled(monkeypatch):
    """What threads would print as a traceback."""
    found = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    return found


def sleep_or_die(seconds: float) -> None:
    if seconds < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(seconds)


def test_an_interrupt_while_jobs_are_queued_spills_no_traceback(spilled):
    results = run_jobs(sleep_or_die, [0.0, *[5.0] * 50], workers=2)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert [str(one.exc_value) for one in spilled] == []


def test_a_worker_that_is_killed_is_one_message(spilled):
    with pytest.raises(WorkerLost, match="run again, with fewer --workers"):
        list(run_jobs(sleep_or_die, [-1.0, *[0.01] * 50], workers=2))
    assert [str(one.exc_value) for one in spilled] == []
