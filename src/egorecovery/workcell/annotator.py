"""A simulated annotator, who sees the candidate and the video and errs by a frame or two, like people."""

from dataclasses import dataclass

from numpy.random import Generator

from egorecovery.episodes import Episode
from egorecovery.recovery import Annotation, candidate_boundary


@dataclass(frozen=True, kw_only=True)
class SimulatedAnnotator:
    """Confirms or moves a candidate, with errors."""

    name: str = "simulated annotator"
    confirms_within: int = 3  # frames between candidate and truth within which the candidate is confirmed
    error_frames: float = 2.0  # standard deviation of boundaries that it sets itself

    def annotate(self, episode: Episode, true_boundary: int, rng: Generator, saved_at: str) -> Annotation:
        """Confirms the motion-energy candidate, or moves it to its estimate of the correction's end."""
        candidate = candidate_boundary(episode.effector_m[:, list(episode.task.active_effectors)]).frame
        seen = round(true_boundary + rng.normal(0, self.error_frames))
        boundary = candidate if abs(candidate - true_boundary) <= self.confirms_within else seen
        return Annotation(
            episode=episode.id,
            boundary=min(max(boundary, 0), len(episode) - 1),
            candidate=candidate,
            annotator=self.name,
            saved_at=saved_at,
        )
