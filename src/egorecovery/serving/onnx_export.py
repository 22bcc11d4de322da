"""Exports a policy as one ONNX file: pictures and joints in; targets, gate and intent out; with normalisation."""

# B observations, V views, S picture side, H horizon, A action dimensions, C intent dimensions

import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from egorecovery.episodes import RATE_HZ, Embodiment
from egorecovery.episodes.vocabulary import EFFECTORS
from egorecovery.errors import ServingError
from egorecovery.kinematics.action_space import anchored_dims
from egorecovery.policy.checkpoint import Checkpoint, load_into, open_checkpoint
from egorecovery.policy.config import PolicyConfig
from egorecovery.policy.inference import plain_images
from egorecovery.policy.near_and_far import FLOOR
from egorecovery.policy.normaliser import Statistics
from egorecovery.policy.policy import Policy
from egorecovery.policy.policy_name import policy_name
from egorecovery.storage.atomic_io import sync_directory
from egorecovery.storage.checksummed_json import file_sha256

OPSET = 18
LARGEST_BYTES = 2**31 - 1  # of one ONNX file, a limit of its format
TOLERANCE = 1e-3  # of normalised actions, for rounding differences between two libraries


@dataclass(frozen=True, kw_only=True)
class Parity:
    """Differences between onnxruntime's and PyTorch's outputs on random observations."""

    observations: int
    worst: dict[str, float]  # largest difference by output; actions in units of their spread


class WholePolicy(nn.Module):
    """The network with the normalisation that a server applies around it."""

    state_centre_A: Tensor
    state_spread_A: Tensor
    action_centre_A: Tensor
    action_spread_A: Tensor
    anchored_A: Tensor
    positions_N: Tensor  # where positions lie in an action

    def __init__(self, policy: Policy, statistics: Statistics) -> None:
        super().__init__()
        self.policy = policy.eval().requires_grad_(False)
        config = policy.config
        state, action = statistics.state[Embodiment.ROBOT], statistics.action[Embodiment.ROBOT]
        for name, normaliser in (("state", state), ("action", action)):
            self.register_buffer(f"{name}_centre_A", torch.from_numpy(normaliser.centre_A.astype(np.float32)))
            self.register_buffer(f"{name}_spread_A", torch.from_numpy(normaliser.spread_A.astype(np.float32)))
        anchored_A = (
            anchored_dims(config.action_space) if config.relative_actions else np.zeros(config.action_dim, bool)
        )
        self.register_buffer("anchored_A", torch.from_numpy(anchored_A.astype(np.float32)))
        self.register_buffer("positions_N", torch.from_numpy(np.flatnonzero(anchored_dims(config.action_space))))

    def forward(self, images_BVSS3: Tensor, state_BA: Tensor) -> tuple[Tensor, ...]:
        policy, robots = self.policy, state_BA.shape[0]
        normal_BA = (state_BA - self.state_centre_A) / self.state_spread_A
        tokens_BND = policy.tokens(plain_images(images_BVSS3, torch.float32), normal_BA, robots)
        pooled_BD, intent_BC, gate_logit_B = policy.correction(tokens_BND)
        gate_B = None if gate_logit_B is None else gate_logit_B.sigmoid()
        acted = policy.act(tokens_BND, pooled_BD, intent_BC, gate_logit_B, gate_B, robots).robot_action_RHA
        assert acted is not None
        here_BA = (state_BA - self.action_centre_A) / self.action_spread_A
        if policy.config.near_m is not None:
            acted = self._blended(acted, here_BA, policy.config.near_m)
        actions_BHA = (acted + (here_BA * self.anchored_A)[:, None]) * self.action_spread_A + self.action_centre_A
        if gate_B is None or intent_BC is None:
            return (actions_BHA,)
        return actions_BHA, gate_B, intent_BC

    def _blended(self, output_BHO: Tensor, here_BA: Tensor, near_m: float) -> Tensor:
        """`near_and_far.blended` in the graph: blends the two predictions of positions."""
        far_BHA, way_BHN = output_BHO.split([here_BA.shape[1], len(self.positions_N)], dim=-1)
        here_B1N, spread_N = here_BA[:, None, self.positions_N], self.action_spread_A[self.positions_N]
        way_m_BHEX = (way_BHN * spread_N).unflatten(-1, (EFFECTORS, -1))
        share_BHE1 = 1 / (1 + FLOOR**2 + (way_m_BHEX / near_m).square().sum(dim=-1, keepdim=True))
        share_BHN = share_BHE1.expand_as(way_m_BHEX).flatten(-2)
        change_BHN = share_BHN * (here_B1N + way_BHN - far_BHA[..., self.positions_N])
        return far_BHA.index_add(-1, self.positions_N, change_BHN)


def export_onnx(run: Path, out: Path) -> Parity:
    """Writes the file only if onnxruntime reproduces PyTorch's outputs with it."""
    if out.suffix != ".onnx":
        raise ServingError(f"--out {out}: the file's name must end in .onnx")
    if not out.parent.is_dir():
        raise ServingError(f"{out.parent}: there is no such folder")
    saved = open_checkpoint(run)
    policy = Policy(saved.config)
    load_into(policy, saved.weights(), saved.path)
    size = sum(weight.numel() * weight.element_size() for weight in policy.parameters())
    if size > LARGEST_BYTES:
        raise ServingError(f"{saved.path}: {size / 1e9:.1f} GB of weights do not fit in one ONNX file (2 GB)")
    whole = WholePolicy(policy.float(), saved.statistics)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".onnx_draft_") as folder:
        draft = Path(folder, out.name)
        _write(whole, saved, draft)
        parity = compare(whole, saved.config, draft)
        worst = max(parity.worst, key=parity.worst.__getitem__)
        if not parity.worst[worst] <= TOLERANCE:
            raise ServingError(
                f"{saved.path}: onnxruntime's {worst} differ from PyTorch's by {parity.worst[worst]:.2g} (at most "
                f"{TOLERANCE:g} allowed); nothing was written"
            )
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.replace(out)
    sync_directory(out.parent)
    return parity


def _write(whole: WholePolicy, saved: Checkpoint, draft: Path) -> None:
    config = saved.config
    outputs = ["actions", "gate", "intent"] if config.correction else ["actions"]
    batch = torch.export.Dim("batch", min=1)
    try:
        with warnings.catch_warnings(), _quiet():
            warnings.simplefilter("ignore")  # of the exporter about itself
            program = torch.onnx.export(
                whole,
                observations(config, 2, seed=0),
                input_names=["images", "state"],
                output_names=outputs,
                opset_version=OPSET,
                dynamic_shapes=({0: batch}, {0: batch}),
                dynamo=True,
                verbose=False,
            )
        assert program is not None
        program.save(str(draft), external_data=False)
        model = onnx.load(str(draft))
        onnx.helper.set_model_props(model, _properties(saved))
        onnx.save(model, str(draft))
        onnx.checker.check_model(str(draft))
    except (torch.onnx.OnnxExporterError, onnx.checker.ValidationError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ServingError(f"{saved.path}: PyTorch cannot express this policy in ONNX: {lines[0][:200]}") from error


def _properties(saved: Checkpoint) -> dict[str, str]:
    """Metadata for programs that use the file, as text, which ONNX requires."""
    config = saved.config
    return {
        "cameras": ",".join(config.cameras),
        "image_size": str(config.image_size),
        "horizon": str(config.horizon),
        "action_hz": f"{RATE_HZ:g}",
        "action_space": config.action_space,
        "action_dim": str(config.action_dim),
        "hidden_embodiment": str(config.hidden_embodiment).lower(),
        "model": policy_name(saved.recipe, saved.step),
        "checkpoint": file_sha256(saved.path / "checkpoint.json"),
    }


def observations(config: PolicyConfig, count: int, seed: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    side = config.image_size
    images = rng.integers(0, 256, (count, len(config.cameras), side, side, 3), dtype=np.uint8)
    return torch.from_numpy(images), torch.from_numpy(rng.normal(size=(count, config.action_dim)).astype(np.float32))


def compare(whole: WholePolicy, config: PolicyConfig, file: Path, batches: tuple[int, ...] = (1, 3)) -> Parity:
    """Compares outputs on random observations, in batch sizes other than the export's."""
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    worst = dict.fromkeys(names, 0.0)
    spread_A = whole.action_spread_A.numpy()
    for seed, count in enumerate(batches, start=1):
        images, state = observations(config, count, seed)
        with torch.inference_mode():
            wanted = whole(images, state)
        answers = session.run(names, {"images": images.numpy(), "state": state.numpy()})
        for name, ours, theirs in zip(names, wanted, answers, strict=True):
            apart = np.abs(ours.numpy() - np.asarray(theirs)) / (spread_A if name == "actions" else 1)
            worst[name] = float(max(worst[name], apart.max()))  # a NaN stays
    return Parity(observations=sum(batches), worst=worst)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporter's log."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
