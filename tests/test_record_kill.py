"""A recorder killed with SIGKILL: clips it called recorded are whole, the others absent, and the time is on record."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from egorecovery.capture import load_recording, save_recording
from egorecovery.capture.clip_draft import BEGUN
from egorecovery.capture.recording import RawCamera, Recording
from egorecovery.capture.session_log import KILLED, LOG, clear_leftovers
from egorecovery.capture.synthetic import TrackerFaults, synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, Camera, EpisodeStore, Source
from egorecovery.episodes.attempt_log import AttemptLog

KILLS = int(os.environ.get("EGORECOVERY_RECORDER_KILLS", "4"))  # 20 for a thorough run
pytestmark = [pytest.mark.fault, pytest.mark.slow, pytest.mark.timeout(300 + 30 * KILLS)]
CYCLE = "next\nstart\nwait end\naccept\n"
ABOUT_A_CYCLE_S = 0.15


@pytest.fixture(scope="module")
def clip(tmp_path_factory) -> Path:
    """Short, with depth: every kind of file a clip has."""
    rng = np.random.default_rng(3)
    faults = TrackerFaults(jumps=0, gaps=0)
    recording, _ = synthetic_recording("clip", PAPER_TASKS["cup_brush"], Source.HUMAN_SUCCESS, rng, faults, 16)
    cameras = {
        camera: RawCamera(
            frames=raw.frames,
            timestamps_s=raw.timestamps_s,
            intrinsics=raw.intrinsics,
            depth_mm=rng.integers(0, 999, (len(raw.frames), 3, 4)).astype(np.uint16),
        )
        for camera, raw in recording.cameras.items()
    }
    directory = tmp_path_factory.mktemp("clip") / "clip"
    save_recording(Recording(**{**vars(recording), "cameras": cameras}), directory)
    return directory


def command(out: Path, clip: Path) -> list[str]:
    replays = [f"{camera}=replay:{clip},speed=max" for camera in Camera]
    what = ["--task", "cup_brush", "--source", "human_success", "--keep-free-gb", "0", "--script", "-"]
    return [sys.executable, "-m", "egorecovery", "record", *what, "--out", str(out), "--camera", *replays]


def record_until_killed(out: Path, clip: Path, clips: int, delay_s: float) -> set[str]:
    """Lets a recorder finish some clips, waits a little, kills it; returns the clips that it called recorded."""
    recorded: set[str] = set()
    with subprocess.Popen(command(out, clip), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as recorder:
        assert recorder.stdin is not None
        assert recorder.stdout is not None
        recorder.stdin.write("wait ready\n" + CYCLE * (clips + 50))
        recorder.stdin.flush()
        for line in recorder.stdout:
            recorded |= {line.split()[1]} if line.startswith("recorded ") else set()
            if len(recorded) == clips and line.startswith("recording "):
                break
        time.sleep(delay_s)
        recorder.send_signal(signal.SIGKILL)
        recorded |= {line.split()[1] for line in recorder.stdout if line.startswith("recorded ")}
        recorder.stdin.close()
    assert recorder.returncode == -signal.SIGKILL, "it must not have ended by itself"
    return recorded


def test_a_recorder_killed_at_random_moments_loses_no_finished_clip_and_leaves_no_half_one(clip, tmp_path):
    rng = np.random.default_rng(11)
    out, promised, caught = tmp_path / "raw", set(), 0
    wanted = load_recording(clip)
    for _ in range(KILLS):
        promised |= record_until_killed(out, clip, int(rng.integers(0, 3)), rng.uniform(0, ABOUT_A_CYCLE_S))
        caught += any((out / ".drafts").glob(f"*/{BEGUN}"))  # one without it is a clip that had not begun
        whole = {path.parent.name for path in out.glob("*/recording.json")}
        assert promised <= whole
        assert {path.name for path in out.iterdir() if path.is_dir()} == whole | {".drafts"}
        for name in whole:
            found = load_recording(out / name)
            for camera, raw in wanted.cameras.items():
                assert found.cameras[camera].frames.packed.tobytes() == raw.frames.packed.tobytes()
                np.testing.assert_array_equal(found.cameras[camera].depth_mm, raw.depth_mm)
    assert caught, "some must die in the middle of a clip, or this test tests nothing"
    clear_leftovers(out)
    attempts = AttemptLog(out / LOG).attempts()
    assert {a.episode for a in attempts if a.accepted} == {path.parent.name for path in out.glob("*/recording.json")}
    assert sum(KILLED in a.reasons for a in attempts) == caught
    assert not any((out / ".drafts").iterdir())
    assert main(["import", str(out), "--out", str(tmp_path / "store"), "--workers", "1"]) == 0
    assert set(EpisodeStore(tmp_path / "store").ids()) >= promised
