"""One property: a byte that changed in any file of a store, a run or an experiment is found, and never used unseen."""

import json
import shutil
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attacks import listing
from egorecovery.cli.main import main
from egorecovery.diagnostics.diagnosis import RECORD
from egorecovery.episodes import EpisodeStore
from egorecovery.errors import EgoRecoveryError
from egorecovery.experiments import ExperimentFolder, merge
from egorecovery.experiments.damage import experiment_damages
from egorecovery.storage.checked_content import CACHE_FILE  # what a changed one says is not believed, and it is no data
from egorecovery.storage.checksummed_json import file_sha256
from egorecovery.storage.manifest import Manifest
from egorecovery.training import frame_table
from egorecovery.training.splits import select
from fuzzed_readers import READERS
from tiny_experiment import SUITE
from training_store import make_made_up_store, tiny_recipe

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """All that an experiment's folder may hold: cells, a failed one, films, a diagnosis, a store and a training."""
    root = tmp_path_factory.mktemp("whole")
    READERS["experiment"].make(root)
    home = root / "experiment"
    READERS["store"].make(home / "data")
    READERS["run"].make(root)
    (home / "trainings").mkdir()
    (root / "run").rename(home / "trainings" / "run")
    diagnosis = home / "diagnostics" / "cube_stack"
    diagnosis.mkdir(parents=True)
    (diagnosis / "gate.png").write_bytes(b"picture")
    record = {"schema": 1, "computed_by": 1, "content_hash": "ab", "command": "", "task": "cube_stack", "store": "s"}
    record |= {"data_hash": "ab", "fresh": None, "policies": {}, "compare": None, "not_computed": [], "notes": []}
    record |= {"figures": {"gate": "gate.png"}}
    (diagnosis / RECORD).write_text(json.dumps(record))
    names = ("gate.png", RECORD)
    Manifest(files={name: file_sha256(diagnosis / name) for name in names}).write(diagnosis)
    return home


def files_of(folder):
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


def flipped(payload: bytes, place: float, flip: int) -> bytes:
    spoiled = bytearray(payload)
    spoiled[int(place * len(spoiled))] ^= flip
    return bytes(spoiled)


def found(home) -> bool:
    """Results of another version are no damage; they are not merged, reported or added to."""
    if experiment_damages(home):
        return True
    try:
        ExperimentFolder(home).require_current()
    except EgoRecoveryError:
        return True
    return False


def test_whole_experiment_has_no_damage(experiment):
    assert experiment_damages(experiment) == []
    assert len(files_of(experiment)) > 50


def each_changed(folder, seed):
    """Every file in turn with one byte changed, of a store those of one episode; which, where and how is the seed's."""
    rng = np.random.default_rng(seed)
    episodes = sorted(folder.glob("episodes/*"))
    left_out = set(episodes) - {episodes[rng.integers(len(episodes))]} if episodes else set()
    for path in files_of(folder):
        if left_out & set(path.parents):
            continue
        before = path.read_bytes()
        try:
            path.write_bytes(flipped(before, rng.random(), int(rng.integers(1, 256))))
            yield path
        finally:
            path.write_bytes(before)


seeds = settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))


@given(seed=st.integers(0, 2**32))
@seeds
def test_changed_byte_of_any_file_of_an_experiment_is_found(experiment, seed):
    for path in each_changed(experiment, seed):
        assert found(experiment) or path.name == CACHE_FILE, path


@given(seed=st.integers(0, 2**32))
@seeds
def test_changed_byte_of_any_file_of_an_experiment_is_not_merged(experiment, tmp_path, seed):
    """Refused, or what is merged is what would have been merged without it."""
    whole = merged(experiment, tmp_path / "whole")
    for path in each_changed(experiment, seed):
        if path.relative_to(experiment).parts[0] in ("data", "trainings"):
            continue  # stay where they are
        try:
            assert merged(experiment, tmp_path / "out") == whole, path
        except EgoRecoveryError:
            continue
        finally:
            shutil.rmtree(tmp_path / "out", ignore_errors=True)


def merged(home, out):
    merge([home], out, SUITE.name)
    return listing(out)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = make_made_up_store(tmp_path_factory.mktemp("store") / "store", per_source=1).root
    time.sleep(0.15)  # what is younger is checked, and not remembered
    EpisodeStore(root).damaged_among(EpisodeStore(root).ids())
    return root


def labels_of(root):
    return {path.name: path.read_bytes() for path in files_of(root / "labels")}


@given(seed=st.integers(0, 2**32))
@seeds
def test_changed_byte_of_any_file_of_a_store_is_found_and_never_labelled_unseen(store, seed):
    """Labels that are derived from it are those of the whole store, or are missing and named."""
    whole = labels_of(store)
    for path in each_changed(store, seed):
        name = path.relative_to(store).as_posix()
        code = main(["verify", str(store)])
        assert code != 0 or name == CACHE_FILE, name
        if not name.startswith("labels/"):
            for label in files_of(store / "labels"):
                label.unlink()
        code = main(["label", str(store)])
        derived = labels_of(store)
        assert derived == whole or (code != 0 and derived.items() <= whole.items()), name
        for label, payload in whole.items():
            (store / "labels" / label).write_bytes(payload)


@given(seed=st.integers(0, 2**32))
@seeds
def test_changed_byte_of_any_file_of_a_store_is_never_trained_on(store, seed):
    """Training takes other episodes or none; what it takes is what was written."""
    recipe = tiny_recipe(3, {"held_out": "0"}, robot_success=1, robot_recovery=1, human_recovery=1)
    whole = read_for_training(store, recipe)
    for path in each_changed(store, seed):
        try:
            assert read_for_training(store, recipe) == whole, path
        except EgoRecoveryError:
            continue


def read_for_training(root, recipe):
    """All numbers that a training takes from a store, but for pictures, which lie beside the streams."""
    store = EpisodeStore(root)
    taken = {}
    for recorded in frame_table.read(store, select(store, recipe).episodes, recipe):
        streams = (recorded.state_TA, recorded.action_TA, *vars(recorded.labels).values())
        taken[recorded.episode] = [np.asarray(stream).tobytes() for stream in streams]
    return taken
