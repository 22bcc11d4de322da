"""A policy as an ONNX file: another program gives the same answers with nothing of this package."""

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")

from egorecovery.episodes import Camera  # noqa: E402 - torch is an extra
from egorecovery.policy import VisionConfig  # noqa: E402
from egorecovery.policy.inference import load_action_source  # noqa: E402
from egorecovery.storage.checksummed_json import file_sha256  # noqa: E402
from tiny_checkpoint import save_tiny  # noqa: E402
from tiny_policy import pictures_and_states  # noqa: E402

SMALL = {  # the exporter takes its time over every operation
    "cameras": (Camera.HEAD,),
    "blocks": 1,
    "decoder_layers": 1,
    "vision": VisionConfig(stem_width=8, widths=(8,), depths=(1,), group_channels=4),
    "relative_actions": True,
}


# Positions predicted twice and blended.
TWICE = {
    **SMALL,
    "relative_actions": False,
    "action_space": "effector",
    "action_dim": 20,
    "near_m": 0.03,
}
POLICIES = {"joint": SMALL, "twice": TWICE}

# In a process of its own array shapes are not checked, which the exporter's tracing would trip over.
EXPORT = "import sys; from egorecovery.cli.main import main; sys.exit(sum(main(each.split()) for each in sys.argv[1:]))"


@dataclass(frozen=True)
class Exported:
    steps: dict[str, Path]
    sessions: dict[str, "onnxruntime.InferenceSession"]
    printed: str


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Exported:
    """Both policies, by one process: PyTorch's exporter takes seconds to load."""
    folder = tmp_path_factory.mktemp("onnx")
    steps = {name: save_tiny(folder / name, **changes) for name, changes in POLICIES.items()}
    orders = [f"export onnx {folder / name} --out {folder / name}.onnx" for name in POLICIES]
    done = subprocess.run([sys.executable, "-c", EXPORT, *orders], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == ["joint", "joint.onnx", "twice", "twice.onnx"]
    sessions = {
        name: onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        for name in POLICIES
    }
    return Exported(steps, sessions, done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", POLICIES)
def test_an_exported_policy_answers_as_the_policy_does_for_batches_of_any_size(exported, name):
    source, session = load_action_source(exported.steps[name], "cpu"), exported.sessions[name]
    for count in (1, 2, 5, 16):
        images, state = pictures_and_states(source.config, count, seed=count)
        wanted = source.infer(images, state)
        actions, gate, intent = session.run(["actions", "gate", "intent"], {"images": images, "state": state})
        np.testing.assert_allclose(actions, wanted.action_BHA, atol=1e-5)
        np.testing.assert_allclose(gate, wanted.gate_B, atol=1e-5)
        np.testing.assert_allclose(intent, wanted.intent_BC, atol=1e-5)


@pytest.mark.slow
def test_the_file_says_what_a_program_needs_to_use_it_and_the_export_how_near_its_answers_are(exported):
    assert exported.printed.count("largest difference") == len(POLICIES)
    said = exported.sessions["joint"].get_modelmeta().custom_metadata_map
    assert (said["cameras"], said["image_size"], said["horizon"]) == ("head", "16", "5")
    assert (said["action_space"], said["action_hz"], said["hidden_embodiment"]) == ("joint", "25", "false")
    assert said["checkpoint"] == file_sha256(exported.steps["joint"] / "checkpoint.json")


@pytest.mark.parametrize(
    ("name", "word"), [("policy.bin", "must end in .onnx"), ("nowhere/policy.onnx", "there is no such folder")]
)
def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path, name, word):
    from egorecovery.errors import ServingError
    from egorecovery.serving.onnx_export import export_onnx

    with pytest.raises(ServingError, match=word):
        export_onnx(tmp_path, tmp_path / name)


def test_weights_that_do_not_fit_in_one_file_are_refused(tmp_path, monkeypatch):
    from egorecovery.errors import ServingError
    from egorecovery.serving import onnx_export

    save_tiny(tmp_path / "run", **SMALL)
    monkeypatch.setattr(onnx_export, "LARGEST_BYTES", 1000)
    with pytest.raises(ServingError, match="do not fit in one ONNX file"):
        onnx_export.export_onnx(tmp_path / "run", tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()


def test_a_file_whose_answers_differ_is_not_written(tmp_path, monkeypatch):
    from egorecovery.errors import ServingError
    from egorecovery.serving import onnx_export

    save_tiny(tmp_path / "run", **SMALL)
    monkeypatch.setattr(onnx_export, "_write", lambda whole, saved, draft: draft.write_bytes(b"another policy"))
    parity = onnx_export.Parity(observations=4, worst={"actions": 0.5, "gate": 0.0})
    for found in (parity, replace(parity, worst={"actions": float("nan"), "gate": 0.0})):
        monkeypatch.setattr(onnx_export, "compare", lambda *_, found=found: found)
        with pytest.raises(ServingError, match="actions differ from PyTorch's by"):
            onnx_export.export_onnx(tmp_path / "run", tmp_path / "policy.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
