"""Recordings, checkpoints, logs and options from strangers: typed errors, no hang, no memory, no orphan."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from attacks import DEEP, fifo, replace_by_link, reseal, within_s
from egorecovery.capture import find_recordings, import_recordings, load_recording, save_recording
from egorecovery.capture.synthetic import synthetic_recording
from egorecovery.cli.main import main
from egorecovery.episodes import PAPER_TASKS, EpisodeStore, Source
from egorecovery.errors import CheckpointError, EgoRecoveryError, RecordingError, StoreDamaged, StoreLocked
from egorecovery.policy.checkpoint import load_into, open_checkpoint, save
from egorecovery.policy.checkpoint_damage import checkpoint_damages
from egorecovery.policy.inference import load_action_source
from egorecovery.policy.policy import Policy
from egorecovery.storage.bounded_json import BadJson, parse_json
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.typed_json import to_json
from egorecovery.training.logs import read_log, run_lock
from egorecovery.training.run_manifest import run_damages, seal_run, unseal_run
from tiny_policy import statistics, tiny_config

pytestmark = pytest.mark.fault


@pytest.fixture
def recording(tmp_path):
    folder = tmp_path / "raw" / "clip"
    save_recording(
        synthetic_recording("clip", PAPER_TASKS["round_disk"], Source.HUMAN_RECOVERY, np.random.default_rng(0))[0],
        folder,
    )
    return folder


@pytest.mark.parametrize("name", ["recording.json", "hands.npz", "head/timestamps_s.npy", "head/rgb/000000.jpg"])
def test_pipe_device_or_link_in_a_recording_is_refused_at_once(recording, tmp_path, name):
    """F9"""
    outside = tmp_path / "outside"
    shutil.copy(recording / name, outside)
    for spoil in (
        fifo,
        lambda path: replace_by_link(path, "/dev/zero"),
        lambda path: replace_by_link(path, outside),  # the very bytes, but not from this recording
        lambda path: path.write_bytes(DEEP),
    ):
        spoil(recording / name)
        with within_s(20), pytest.raises(RecordingError, match=Path(name).name):
            load_recording(recording)
        (recording / name).unlink()


def test_key_that_is_there_twice_is_refused(recording):
    """F9: the last would have won."""
    path = recording / "recording.json"
    text = path.read_text()
    path.write_text(text[:-1].rstrip() + ', "id": "another"}')
    with pytest.raises(RecordingError, match="appears twice"):
        load_recording(recording)


def test_folder_without_a_description_is_told_and_not_skipped(recording, tmp_path):
    """F9"""
    lost = recording.parent / "lost"
    shutil.copytree(recording, lost)
    (lost / "recording.json").unlink()
    with EpisodeStore.create(tmp_path / "store").writing() as writer:
        outcomes = {Path(one.where).name: one for one in import_recordings(writer, find_recordings([recording.parent]))}
    assert outcomes["lost"].outcome == "unreadable"
    assert "recording.json" in outcomes["lost"].reasons[0]
    assert outcomes["clip"].outcome != "unreadable"


def test_small_archive_of_many_zeros_is_not_unpacked(recording):
    import zipfile

    path = recording / "hands.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("timestamps_s.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(600):
            member.write(bytes(1 << 20))
    with pytest.raises(RecordingError, match="unpacks to"):
        load_recording(recording)


def test_many_gaps_are_a_fault_before_a_grid_is_laid_across_them():
    """F9: memory grows with the time between samples."""
    from egorecovery.capture.recording import _clock_faults

    clock_s = np.arange(100) * 0.04
    clock_s[50:] += 40
    assert not list(_clock_faults("head", clock_s))
    clock_s[70:] += 40
    assert "no samples for 80 s" in next(_clock_faults("head", clock_s))
    assert "lasts" in next(_clock_faults("head", np.arange(9000) * 0.5))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    config = tiny_config()
    policy = Policy(config)
    return save(
        tmp_path_factory.mktemp("run") / "checkpoints",
        step=7,
        recipe={"name": "tiny", "task": "cube_stack", "policy": to_json(config)},
        statistics=statistics(),
        data="d",
        revision=None,
        gate_sample=[0.5],
        computed={},
        weights=policy.state_dict(),
        training_state={"step": torch.zeros(())},
    )


@pytest.fixture
def theirs(checkpoint, tmp_path):
    return shutil.copytree(checkpoint, tmp_path / checkpoint.name)


@pytest.mark.parametrize(
    "change",
    [
        lambda card: card["recipe"]["policy"].update(width=2_000_000),
        lambda card: card["recipe"]["policy"].update(blocks=1_000_000),
        lambda card: card["recipe"]["policy"].update(decoder_layers=10**8),
        lambda card: card["recipe"]["policy"].update(horizon=10**12),
        lambda card: card["recipe"]["policy"].update(image_size=10**6),
        lambda card: card["recipe"]["policy"].update(mlp_ratio=10**9),
        lambda card: card["recipe"]["policy"]["vision"].update(depths=[10**7, 1]),
        lambda card: card["recipe"].update(policy=7),
        lambda card: card.update(statistics={}),
        lambda card: card.update(gate_sample=[10**400]),
        lambda card: card.update(step="7"[0:0]),
        lambda card: card.update(files=[]),
        lambda card: next(iter(card["statistics"]["state"].values())).update(spread=[0.0] * 14),
        lambda card: next(iter(card["statistics"]["action"].values())).update(centre=[0.0]),
    ],
)
def test_card_that_is_not_of_its_weights_is_refused_before_anything_is_made(theirs, change):
    """F10: sizes are bounded against the weights that are there."""
    reseal(theirs / "checkpoint.json", change)
    with within_s(20), pytest.raises(EgoRecoveryError):
        load_action_source(theirs, "cpu")
    assert checkpoint_damages(theirs)


def test_weights_that_are_not_finite_are_refused(theirs):
    """F12"""
    path = theirs / "policy.safetensors"
    weights = load_file(path)
    name = next(iter(weights))
    weights[name].view(-1)[0] = float("nan")
    save_file(weights, path)
    reseal(theirs / "checkpoint.json", lambda card: card["files"].update({path.name: file_sha256(path)}))
    with pytest.raises(CheckpointError, match="not finite"):
        load_action_source(theirs, "cpu")


def test_checkpoint_whose_files_are_links_is_refused(theirs, tmp_path):
    path = theirs / "policy.safetensors"
    aside = path.rename(tmp_path / "aside.safetensors")
    path.symlink_to(aside)
    with pytest.raises(EgoRecoveryError, match="link"):
        load_action_source(theirs, "cpu")


@given(st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=15, deadline=None)
def test_changed_byte_of_a_checkpoint_is_found_and_not_used(checkpoint, place, flip):
    for path in sorted(checkpoint.iterdir()):
        before = path.read_bytes()
        payload = bytearray(before)
        payload[place % len(payload)] ^= flip
        try:
            path.write_bytes(payload)
            assert checkpoint_damages(checkpoint), path.name
            if path.name != "training.safetensors":
                with pytest.raises(EgoRecoveryError):
                    load_action_source(checkpoint, "cpu")
        finally:
            path.write_bytes(before)
    assert checkpoint_damages(checkpoint) == []
    load_into(Policy(open_checkpoint(checkpoint).config), open_checkpoint(checkpoint).weights(), checkpoint)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "recipe.json").write_text("{}\n")
    (folder / "log.jsonl").write_text('{"step": 1, "kind": "train", "loss": 0.5}\n')
    seal_run(folder)
    return folder


def test_changed_byte_of_a_runs_own_files_is_found_and_training_does_not_go_on_with_it(run):
    assert run_damages(run) == []
    for path in sorted(run.iterdir()):
        before = path.read_bytes()
        for place in range(0, len(before), 7):
            path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
            assert run_damages(run), (path.name, place)
            with pytest.raises(StoreDamaged):
                unseal_run(run)
        path.write_bytes(before)
    unseal_run(run)
    assert not (run / "manifest.json").exists()


@pytest.mark.parametrize("line", [b"garbage", b"[1]", b'{"step": "1", "kind": "train"}', b'{"step": 1}', b"\xff", DEEP])
def test_garbage_in_a_log_is_one_error_that_names_the_line(run, line):
    """F10: it was a traceback on --resume."""
    path = run / "log.jsonl"
    path.write_bytes(path.read_bytes() + line + b"\n")
    with pytest.raises(StoreDamaged, match=r"log\.jsonl line 2"):
        read_log(path)


def test_second_training_into_a_run_folder_is_refused(run):
    """F6"""
    with run_lock(run), pytest.raises(StoreLocked, match="is being written by"), run_lock(run):
        pass


@pytest.mark.parametrize(
    "options",
    [
        ["--seed", "-1"],
        ["--image-size", "100000"],
        ["--episodes", "0"],
    ],
)
def test_options_out_of_range_are_one_message(tmp_path, options, capsys):
    """F10"""
    usual = {"--task": "cube_stack", "--source": "robot_success", "--episodes": "1", "--out": str(tmp_path / "s")}
    usual[options[0]] = options[1]
    assert main(["simulate", *(word for pair in usual.items() for word in pair)]) == 2
    assert options[0].strip("-").split("-")[0] in capsys.readouterr().err


def test_renderer_that_is_not_there_is_one_message(tmp_path):
    """F10"""
    for name in ("glfw", "bogus"):
        asked = ["simulate", "--task", "cube_stack", "--source", "robot_success", "--episodes", "1"]
        done = subprocess.run(
            [sys.executable, "-m", "egorecovery", *asked, "--out", str(tmp_path / name), "--workers", "1"],
            env={**os.environ, "MUJOCO_GL": name},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert "MUJOCO_GL" in done.stderr
        assert "Traceback" not in done.stderr


PARENT = """
import os, sys, time
from egorecovery.executors import run_jobs
def job(number):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(300)
if __name__ == "__main__":
    list(run_jobs(job, [1, 2], workers=2))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent_however_it_ends(tmp_path, how):
    """F8"""
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    workers = [int(parent.stdout.readline()) for _ in range(2)]
    parent.send_signal(how)
    parent.wait()
    give_up_s = time.monotonic() + 60
    while (left := [pid for pid in workers if _runs(pid)]) and time.monotonic() < give_up_s:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.binary(max_size=200) | json_like.map(lambda value: json.dumps(value).encode()))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_json_or_one_kind_of_error(payload):
    try:
        parse_json(payload)
    except BadJson:
        return


@given(st.dictionaries(st.sampled_from(["step", "recipe", "statistics", "data", "files", "gate_sample"]), json_like))
@settings(max_examples=60, deadline=None)
def test_any_card_with_a_valid_checksum_is_a_checkpoint_or_one_kind_of_error(checkpoint, changes):
    path = checkpoint / "checkpoint.json"
    before = path.read_bytes()
    try:
        try:
            reseal(path, lambda card: card.update(changes))
        except ValueError:
            return  # nothing that could be sealed
        for use in (lambda: load_action_source(checkpoint, "cpu"), lambda: checkpoint_damages(checkpoint)):
            try:
                use()
            except EgoRecoveryError:
                continue
    finally:
        path.write_bytes(before)


def test_half_a_character_in_json_is_refused_on_reading_rather_than_on_writing_it_again():
    with pytest.raises(BadJson, match="surrogates"):
        parse_json(b'{"reason": "\\ud800"}')
    assert parse_json(b'{"reason": "\\ud83d\\ude00"}') == {"reason": "\U0001f600"}
