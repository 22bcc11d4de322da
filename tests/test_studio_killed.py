"""The annotation app, killed while it saves: what it acknowledged is in the journal, once."""

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from egorecovery.recovery import AnnotationJournal
from studio_browser import Verb, root_of, token_of
from studio_store import FRAMES, painted_store

CLIPS = 3
KILLS = int(os.environ.get("EGORECOVERY_KILLS", "3"))  # 30 take a quarter of a minute


@contextmanager
def victims(root):
    """Yields `start()`, which gives the pid and the address of a fresh app."""
    command = [sys.executable, str(Path(__file__).with_name("killed_studio.py")), str(root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None

        def start():
            print("next", file=parent.stdin, flush=True)
            said = [parent.stdout.readline().split()]
            while said[-1][:1] != ["victim"]:  # the end of the one before
                said.append(parent.stdout.readline().split())
            return int(said[-1][1]), parent.stdout.readline().strip()

        yield start
        parent.stdin.close()


def save_until_killed(address, revisions, numbers, first_saved):
    """Saves one clip after the other; returns what was acknowledged."""
    root = root_of(address)
    connection = http.client.HTTPConnection(root.removeprefix("http://"), timeout=30)
    headers = {"x-egorecovery-token": token_of(address), "origin": root, "content-type": "application/json"}
    acknowledged = []
    try:
        for number in numbers:
            clip = f"clip-{number % CLIPS}"
            body = {
                "annotator": "ada",
                "seen_revision": revisions[clip],
                "boundary": number % FRAMES,
                "note": f"save {number}",
            }
            connection.request("POST", f"/api/clips/{clip}/annotation", json.dumps(body), headers)
            answer = connection.getresponse()
            row = json.loads(answer.read())["row"]
            assert answer.status == 200
            revisions[clip] = row["revision"]
            acknowledged.append((clip, row["revision"], row["annotation"]["boundary"], f"save {number}"))
            first_saved.set()
    except (OSError, http.client.HTTPException):
        return acknowledged  # the app is dead
    raise AssertionError("numbers never end")


def history(store):
    words = AnnotationJournal(store.annotations_path).history()
    return [(word.episode, word.revision, word.boundary, word.note) for word in words]


@pytest.mark.fault
def test_of_an_app_killed_at_random_moments_every_acknowledged_save_is_there_once(tmp_path):
    store = painted_store(tmp_path / "store", recoveries=CLIPS, successes=0)
    rng = np.random.default_rng(KILLS)
    numbers, acknowledged = itertools.count(), []
    with victims(store.root) as start:
        for kill in range(KILLS):
            victim, address = start()
            first_saved = threading.Event()
            delay_s = rng.uniform(0, 0.1)  # several saves

            def strike(victim=victim, saved=first_saved, delay_s=delay_s):
                assert saved.wait(60)
                threading.Event().wait(delay_s)
                os.kill(victim, signal.SIGKILL)

            striker = threading.Thread(target=strike)
            striker.start()
            revisions = Counter({clip: revision for clip, revision, *_ in history(store)})
            acknowledged += save_until_killed(address, revisions, numbers, first_saved)
            striker.join()
            found = Counter(history(store))
            assert set(found.values()) == {1}, "a save is there twice"
            assert not set(acknowledged) - set(found), "an acknowledged save is gone"
            assert len(found) - len(acknowledged) <= kill + 1, "at most the save under way was kept unacknowledged"
    assert AnnotationJournal(store.annotations_path).journal.problems() == []
    assert len(acknowledged) > KILLS


def test_the_verb_prints_its_address_and_ends_cleanly_on_ctrl_c(tmp_path):
    store = painted_store(tmp_path / "store", recoveries=1, successes=0)
    verb = Verb("annotate", store.root, "--annotator", "ada", "--no-browser", "--port", "0")
    connection = http.client.HTTPConnection(root_of(verb.address).removeprefix("http://"), timeout=30)
    connection.request("GET", "/api/clips", headers={"x-egorecovery-token": token_of(verb.address)})
    answer = json.loads(connection.getresponse().read())
    assert (answer["annotator"], [row["id"] for row in answer["clips"]]) == ("ada", ["clip-0"])
    assert verb.interrupt() == 0
    assert "Traceback" not in verb.said
    assert f"next: egorecovery label {store.root}" in verb.said


def test_the_boundary_noise_of_two_annotators_is_written_by_the_verb(tmp_path, capsys):
    from egorecovery.cli.main import main

    store = painted_store(tmp_path / "store", recoveries=2, successes=0)
    target = tmp_path / "noise.json"
    assert main(["annotate", str(store.root), "--boundary-noise", str(target)]) == 2
    assert "no clip has boundaries of two annotators" in capsys.readouterr().err
    for name, boundary in (("ada", 20), ("grace", 24)):
        save = ["--annotator", name, "--episode", "clip-1", "--boundary", str(boundary)]
        assert main(["annotate", str(store.root), *save]) == 0
    assert main(["annotate", str(store.root), "--boundary-noise", str(target)]) == 0
    noise = json.loads(target.read_text())
    assert [difference["frames"] for difference in noise["differences"]] == [4]
    assert noise["one_annotator_std_frames"] == pytest.approx(4 / 2**0.5)
