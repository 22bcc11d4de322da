"""Loads a policy for serving from a training run's folder."""

from dataclasses import dataclass
from pathlib import Path

from egorecovery import accelerator
from egorecovery.errors import ServingError
from egorecovery.kinematics.arms import Arms
from egorecovery.policy.checkpoint import Checkpoint, open_checkpoint
from egorecovery.serving.metadata import Fit
from egorecovery.serving.served_policy import AnswerAs, ServedPolicy
from egorecovery.storage.checksummed_json import file_sha256


@dataclass(frozen=True, kw_only=True)
class PolicySettings:
    """Which checkpoint is served, and how."""

    run: Path  # a checkpoint, or a training run, whose latest checkpoint is used
    device: str = "auto"
    acceleration: accelerator.Mode = "auto"
    client_hz: float = 50.0
    fit: Fit | None = None  # None: the checkpoint's own rule
    answer: AnswerAs = "joints"


def load_served(settings: PolicySettings, arms: Arms | None) -> ServedPolicy:
    saved = open_checkpoint(settings.run)
    return ServedPolicy(
        accelerator.load_policy(saved.path, settings.device, mode=settings.acceleration),
        horizon=saved.config.horizon,
        checkpoint=file_sha256(saved.path / "checkpoint.json"),  # which holds the hash of the weights
        client_hz=settings.client_hz,
        fit=_fit(saved, settings.fit),
        answer=settings.answer,
        arms=arms if saved.config.action_space == "effector" else None,
    )


def _fit(saved: Checkpoint, asked: Fit | None) -> Fit:
    """The picture fit of the policy. A checkpoint that names its fit accepts no other."""
    own = saved.config.picture_fit
    if own == "exact":
        return asked or own
    if asked not in (None, own):
        raise ServingError(f"{saved.path} was trained on pictures fitted by '{own}': leave out --fit {asked}")
    return own
