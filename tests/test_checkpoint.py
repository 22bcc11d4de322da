"""Checkpoints: whole or absent, refused when damaged, and nothing in them runs."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from egorecovery.episodes import Embodiment  # noqa: E402 - torch is an extra
from egorecovery.errors import CheckpointError, EgoRecoveryError  # noqa: E402
from egorecovery.policy import checkpoint as checkpoints  # noqa: E402
from egorecovery.policy.checkpoint import incomplete, latest, load_into, open_checkpoint, save  # noqa: E402
from egorecovery.policy.inference import TrainedPolicy, load_action_source  # noqa: E402
from egorecovery.storage.checksummed_json import file_sha256, read_checksummed, with_checksum  # noqa: E402
from egorecovery.storage.typed_json import to_json  # noqa: E402
from egorecovery.training.recipe import demo  # noqa: E402
from tiny_policy import pictures_and_states, statistics, tiny_config, tiny_policy  # noqa: E402

GATES = [0.25, 0.5, 0.75]


@pytest.fixture(scope="module")
def policy():
    return tiny_policy()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "checkpoints"


def write(folder, policy, step=20, **changes):
    whole = {
        "step": step,
        "recipe": {**to_json(demo("cube_stack")), "policy": to_json(policy.config)},
        "statistics": statistics(centre=0.2, spread=0.5),
        "data": "abc",
        "revision": "0d46c40",
        "gate_sample": GATES,
        "computed": {"device": "cpu", "precision": "float32"},
        "weights": policy.state_dict(),
        "training_state": {"clip.seen": torch.tensor(7), "master.weight": torch.ones(3)},
    }
    return save(folder, **{**whole, **changes})


def reseal(path, **changes):
    """A card that vouches for whatever lies beside it: what someone would make who wants it believed."""
    card = read_checksummed(path / "checkpoint.json")
    del card["files"]
    files = {name: file_sha256(path / name) for name in checkpoints.FILES}
    (path / "checkpoint.json").write_bytes(with_checksum({**card, "files": files, **changes}))


def test_what_is_saved_is_what_is_read(folder, policy):
    path = write(folder, policy)
    found = open_checkpoint(path)
    assert path.name == "step_00000020"
    assert (found.step, found.data, found.revision, found.gate_sample) == (20, "abc", "0d46c40", GATES)
    assert found.computed == {"device": "cpu", "precision": "float32"}
    assert found.config == policy.config
    weights = found.weights()
    assert weights.keys() == policy.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in policy.state_dict().items())
    assert found.training_state()["clip.seen"].item() == 7
    wanted = statistics(centre=0.2, spread=0.5)
    for who in Embodiment:
        np.testing.assert_array_equal(found.statistics.state[who].spread_A, wanted.state[who].spread_A)
        np.testing.assert_array_equal(found.statistics.action[who].centre_A, wanted.action[who].centre_A)
    assert found.statistics.intent.scale_m == wanted.intent.scale_m
    assert found.statistics.intent.windows == wanted.intent.windows
    np.testing.assert_array_equal(found.statistics.intent.normaliser.divisor, wanted.intent.normaliser.divisor)


def test_statistics_of_a_pool_without_recovery_survive_too(folder, policy):
    path = write(folder, policy, statistics=replace(statistics(), intent=None))
    assert open_checkpoint(path).statistics.intent is None


def test_a_loaded_policy_acts_as_the_one_that_was_saved(folder, policy):
    write(folder, policy)
    kept = TrainedPolicy(tiny_policy(), statistics(centre=0.2, spread=0.5), name="kept", device=torch.device("cpu"))
    loaded = load_action_source(folder.parent, device="cpu")
    assert (loaded.name, loaded.task) == ("EgoRecovery; cube stack; step 20", "cube_stack")
    seen = pictures_and_states(policy.config, 2)
    np.testing.assert_array_equal(loaded.infer(*seen).action_BHA, kept.infer(*seen).action_BHA)


def test_a_runs_folder_means_its_latest_checkpoint(folder, policy):
    for step in (20, 100, 40):
        write(folder, policy, step=step)
    assert latest(folder).name == "step_00000100"
    assert open_checkpoint(folder.parent).step == 100


def test_saving_a_step_again_replaces_it(folder, policy):
    write(folder, policy, data="first")
    path = write(folder, policy, data="second")
    assert open_checkpoint(path).data == "second"
    assert [each.name for each in folder.iterdir()] == ["step_00000020"]


@pytest.mark.fault
def test_a_kill_while_a_step_is_replaced_leaves_no_half_checkpoint_in_its_place(folder, policy, monkeypatch):
    """The worst place to die: the old folder is being removed, and its card is still there."""
    write(folder, policy, step=10)
    again = write(folder, policy, step=20)
    remove = shutil.rmtree

    def dies(path, *rest, **options):
        if (path / "checkpoint.json").exists():
            (path / "policy.safetensors").unlink()
            raise KeyboardInterrupt
        remove(path, *rest, **options)

    monkeypatch.setattr(shutil, "rmtree", dies)
    with pytest.raises(KeyboardInterrupt):
        write(folder, policy, step=20)
    assert latest(folder) == again
    assert open_checkpoint(latest(folder)).step == 20
    assert len(incomplete(folder)) == 1


@pytest.mark.fault
@pytest.mark.parametrize("dies_at", ["save_file", "sync_file", "write_file", "with_checksum"])
def test_a_kill_during_a_save_leaves_the_previous_checkpoint_and_an_incomplete_one_on_the_list(
    folder, policy, monkeypatch, dies_at
):
    previous = write(folder, policy, step=10)

    def dies(*given, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr(checkpoints, dies_at, dies)
    with pytest.raises(KeyboardInterrupt):
        write(folder, policy, step=20)
    assert latest(folder) == previous
    assert open_checkpoint(folder.parent).step == 10
    (left,) = incomplete(folder)
    assert left.name.startswith(".draft_step_00000020")


def test_a_folder_without_a_card_is_no_checkpoint(folder, policy):
    previous = write(folder, policy, step=10)
    (folder / "step_00000030").mkdir()
    (folder / "step_00000030" / "policy.safetensors").write_bytes(b"")
    assert latest(folder) == previous
    with pytest.raises(CheckpointError, match=r"step_00000030: there is no checkpoint here \(no checkpoint\.json\)"):
        open_checkpoint(folder / "step_00000030")


def test_a_run_without_checkpoints_is_refused_and_has_none_to_list(tmp_path, folder):
    assert latest(folder) is None
    assert incomplete(folder) == []
    folder.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="there is no checkpoint here"):
        open_checkpoint(folder.parent)
    with pytest.raises(CheckpointError, match="nowhere does not exist; name a run or a checkpoint"):
        open_checkpoint(tmp_path / "nowhere")


@pytest.mark.fault
@pytest.mark.parametrize("name", checkpoints.FILES)
@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty", "missing"])
def test_damaged_tensors_are_refused_by_the_name_of_their_file(folder, policy, name, damage):
    path = write(folder, policy)
    file = path / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    {
        "flipped": lambda: file.write_bytes(content),
        "truncated": lambda: file.write_bytes(content[:-10]),
        "empty": lambda: file.write_bytes(b""),
        "missing": file.unlink,
    }[damage]()
    with pytest.raises(CheckpointError, match=f"{name}: missing or damaged; .*use an earlier checkpoint"):
        read_everything(path)


def test_weights_and_card_alone_are_a_policy_but_cannot_be_trained_on(folder, policy):
    path = write(folder, policy)
    (path / "training.safetensors").unlink()
    load_action_source(path, device="cpu")
    with pytest.raises(CheckpointError, match=r"training\.safetensors: missing or damaged; resuming needs it"):
        open_checkpoint(path).training_state()


@pytest.mark.fault
def test_a_flipped_bit_anywhere_in_the_card_is_refused(folder, policy):
    path = write(folder, policy)
    card = path / "checkpoint.json"
    whole = card.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 60).astype(int):
        content = bytearray(whole)
        content[place] ^= 1
        card.write_bytes(content)
        with pytest.raises(CheckpointError, match=r"checkpoint\.json is damaged"):
            open_checkpoint(path)


@pytest.mark.fault
@pytest.mark.parametrize("content", [b"", b"{}", b"[]\n", b"null", b"\xff\xfe", b'{"sha256":1}\n'])
def test_a_card_of_anything_else_is_refused(folder, policy, content):
    path = write(folder, policy)
    (path / "checkpoint.json").write_bytes(content)
    with pytest.raises(CheckpointError, match="is damaged"):
        open_checkpoint(path)


def test_another_format_version_is_refused_saying_both(folder, policy):
    path = write(folder, policy)
    reseal(path, format="egorecovery checkpoint 99")
    with pytest.raises(CheckpointError, match="format is 'egorecovery checkpoint 99', this version reads"):
        open_checkpoint(path)


@pytest.mark.fault
@pytest.mark.parametrize(
    "changes",
    [
        {"statistics": {}},
        {"statistics": {"state": {"martian": {"centre": [0], "spread": [1]}}, "action": {}, "intent": None}},
        {"statistics": {"state": {"robot": {"centre": "x", "spread": [1]}}, "action": {}, "intent": None}},
        {"files": []},
        {"files": "policy.safetensors"},
        {"step": "twenty"},
        {"recipe": []},
        {"recipe": {}},
        {"recipe": {"policy": {"width": "wide"}}},
        {"recipe": {"policy": None}},
        {"gate_sample": "often"},
    ],
)
def test_a_sealed_card_that_makes_no_sense_is_refused_with_a_message_of_ours(folder, policy, changes):
    path = write(folder, policy)
    reseal(path, **changes)
    with pytest.raises(EgoRecoveryError):
        load_action_source(path, device="cpu")


@pytest.mark.fault
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"step": "twenty"}, "checkpoint.json: step must be a whole number, got 'twenty'; use an earlier checkpoint"),
        ({"gate_sample": [0.5, 2]}, "gate_sample[1] must be a number from 0 to 1, got 2"),
        ({"statistics": {"state": {}, "action": {"robot": {"centre": []}}, "intent": None}}, "robot.spread is missing"),
        ({"statistics": {"state": {"martian": {}}, "action": {}, "intent": None}}, "must be one of robot, human"),
    ],
)
def test_a_sealed_cards_wrong_field_is_named(folder, policy, changes, message):
    path = write(folder, policy)
    reseal(path, **changes)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(path)
    assert message in str(refusal.value)


def read_everything(path):
    found = open_checkpoint(path)
    return found.weights(), found.training_state()


def pickle_bomb(canary) -> bytes:
    """A pickle that makes a file when it is read, written by hand."""
    return f"cpathlib\nPosixPath\n(S'{canary}'\ntRp0\n0cbuiltins\ngetattr\n(g0\nS'touch'\ntR(tR.".encode()


@pytest.mark.fault
@pytest.mark.parametrize("sealed", [False, True], ids=["card as it was", "card that vouches for it"])
@pytest.mark.parametrize("name", checkpoints.FILES)
def test_a_pickle_in_the_place_of_tensors_is_refused_and_never_run(folder, policy, tmp_path, name, sealed):
    canary, proof = tmp_path / "ran", tmp_path / "the bomb works"
    unpickle = "import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", unpickle, pickle_bomb(proof).hex()], check=True)
    assert proof.exists()
    path = write(folder, policy)
    (path / name).write_bytes(pickle_bomb(canary))
    if sealed:
        reseal(path)
    with pytest.raises(CheckpointError, match=name):
        read_everything(path)
    assert not canary.exists()


@pytest.mark.fault
def test_truncated_tensors_that_the_card_vouches_for_are_refused(folder, policy):
    path = write(folder, policy)
    file = path / "policy.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    reseal(path)
    with pytest.raises(CheckpointError, match=r"policy\.safetensors: cannot be read"):
        open_checkpoint(path).weights()


@pytest.mark.fault
@pytest.mark.parametrize("spoil", ["shape", "missing", "extra"])
def test_weights_of_another_policy_are_refused_by_the_name_of_the_tensor(folder, policy, spoil):
    weights = dict(policy.state_dict())
    if spoil == "shape":
        weights["gate.weight"] = torch.zeros(1, 7)
    elif spoil == "missing":
        del weights["gate.weight"]
    else:
        weights["sidecar.weight"] = torch.zeros(1)
    name = "sidecar.weight" if spoil == "extra" else "gate.weight"
    with pytest.raises(CheckpointError, match=f"somewhere: {name} does not fit the policy of its recipe"):
        load_into(tiny_policy(), weights, folder.parent / "somewhere")
    path = write(folder, policy, weights=weights)
    with pytest.raises(CheckpointError, match=name):
        load_action_source(path, device="cpu")


def test_a_checkpoint_holds_json_and_safetensors_and_nothing_else(folder, policy):
    path = write(folder, policy)
    assert sorted(each.name for each in path.iterdir()) == [
        "checkpoint.json",
        "policy.safetensors",
        "training.safetensors",
    ]
    assert json.loads((path / "checkpoint.json").read_bytes())["recipe"]["policy"]["width"] == tiny_config().width
    for name in checkpoints.FILES:
        length = int.from_bytes((path / name).read_bytes()[:8], "little")
        json.loads((path / name).read_bytes()[8 : 8 + length])


def test_tensors_that_are_views_are_saved_by_value(folder, policy):
    """A transposed or sliced tensor has other strides; what is read back is the same numbers."""
    whole = torch.arange(12.0).reshape(3, 4)
    path = write(folder, policy, training_state={"turned": whole.T, "part": whole[:, 1]})
    found = open_checkpoint(path).training_state()
    assert torch.equal(found["turned"], whole.T)
    assert torch.equal(found["part"], whole[:, 1])
