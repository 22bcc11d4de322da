"""The transfer probe on what policies saw: their trunks' features against where the object truly was."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy import ndarray

from egorecovery.diagnostics.activations import DiagnosedRun, ObservedEpisode, Unseen
from egorecovery.diagnostics.episode_bootstrap import DiagnosticError
from egorecovery.diagnostics.transfer_probe import FOLDS, ProbedPool, transfer_probe
from egorecovery.episodes import EpisodeId, Source


def held_out_robots(unseen: Unseen, runs: Sequence[DiagnosedRun]) -> list[tuple[Source, EpisodeId]]:
    """Robot episodes that none of the policies was trained on."""
    held = [unseen.of(run) for run in runs]
    shared = [each for each in held[0] if not each[0].is_human and all(each in other for other in held[1:])]
    if len(shared) < 2 * FOLDS:
        raise DiagnosticError(
            f"{len(shared)} robot episodes are held out by all policies, {2 * FOLDS} are wanted (two per fold): train "
            "with a larger held_out, or give others with --fresh"
        )
    return shared


def probe_trunk(observed: Sequence[ObservedEpisode], position_m: Mapping[EpisodeId, ndarray]) -> dict[str, ProbedPool]:
    """On the mean of the action tokens, which policies with and without heads both have."""
    return transfer_probe(
        np.concatenate([episode.trunk_TD for episode in observed]),
        np.concatenate([position_m[episode.episode] for episode in observed]),
        np.repeat(np.arange(len(observed)), [len(episode.trunk_TD) for episode in observed]),
        [str(episode.source) for episode in observed for _ in range(len(episode.trunk_TD))],
    )
