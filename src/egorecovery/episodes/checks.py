"""Acceptance: the paper's episode filtering, one plain function per rule. Each finding says what, where, how much."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields

import numpy as np
import simplejpeg
from jaxtyping import Bool, Float
from numpy import ndarray

from egorecovery.episodes.episode import CameraStream, Episode
from egorecovery.episodes.frames import JpegFrames
from egorecovery.episodes.vocabulary import RATE_HZ, Camera, Side
from egorecovery.errors import EpisodeError, RecipeError


@dataclass(frozen=True, kw_only=True)
class AcceptanceLimits:
    """What an episode may still have wrong with it."""

    min_duration_s: float = 0.6  # below one intent window of a usual clip nothing can be learned
    min_motion_m: float = 0.01  # the active effector must move at least this far: no motion, no maneuver
    max_sync_error_s: float = 0.06  # 1.5 frames at 25 Hz between a grid time and the image shown for it
    max_gap_s: float = 0.12  # 3 frames at 25 Hz without a new image
    max_frozen_s: float = 0.4  # the same picture while an effector moves: a hung camera
    frozen_motion_m: float = 0.04  # an effector that moves this far, more than tracking noise does, must be seen moving
    max_step_m: float = 0.2  # of an effector between two frames, 5 m/s: nobody is that fast, a lost encoder or track is
    black_level: float = 4.0  # mean intensity (0..255) of a picture that shows nothing
    max_black_s: float = 0.0
    min_tracked: float = 0.9  # share of frames in which both hands are reliably tracked (human episodes)
    max_untracked_s: float = 0.6  # longest stretch without either hand

    def __post_init__(self) -> None:
        if not 0 <= self.min_tracked <= 1:
            raise RecipeError(f"min_tracked is a share between 0 and 1, got {self.min_tracked}")

    @classmethod
    def changed(cls, settings: Iterable[str]) -> "AcceptanceLimits":
        """The usual limits with some changed, each written as name=number."""
        known = [field.name for field in fields(cls)]
        values: dict[str, float] = {}
        for setting in settings:
            name, _, number = setting.partition("=")
            if name not in known:
                raise RecipeError(f"there is no limit {name!r}; there are {', '.join(known)}")
            try:
                values[name] = float(number)
            except ValueError:
                raise RecipeError(f"limit {setting!r}: write a number, as in {name}=0.2") from None
        return cls(**values)


Rule = Callable[[Episode, AcceptanceLimits], Iterator[str]]


def check_episode(episode: Episode, limits: AcceptanceLimits | None = None) -> tuple[str, ...]:
    """Every reason to discard an episode; none means accepted."""
    limits = limits or AcceptanceLimits()
    return tuple(reason for rule in RULES for reason in rule(episode, limits))


def valid_start(episode: Episode, _: AcceptanceLimits) -> Iterator[str]:
    if not episode.provenance.start_valid:
        wanted = "failure state" if episode.source.is_recovery else "nominal start"
        yield f"start: the operator or simulator marked it as no valid {wanted}"


def complete_maneuver(episode: Episode, limits: AcceptanceLimits) -> Iterator[str]:
    made = episode.provenance
    if made.interruption:
        yield f"maneuver: interrupted ({made.interruption})"
    if not made.completed:
        yield "maneuver: not carried through to its end"
    if episode.duration_s < limits.min_duration_s:
        yield f"maneuver: lasts {episode.duration_s:.2f} s, at least {limits.min_duration_s} s wanted"
    path_m = episode.effector_m[:, list(episode.task.active_effectors)]
    moved_m = float(np.linalg.norm(np.ptp(path_m, axis=0), axis=-1).max())
    if np.isfinite(moved_m) and moved_m < limits.min_motion_m:
        wanted_mm = limits.min_motion_m * 1000
        yield f"maneuver: the active effector moves {moved_m * 1000:.1f} mm, at least {wanted_mm:.0f} wanted"


def finite_values(episode: Episode, _: AcceptanceLimits) -> Iterator[str]:
    for name in ("timestamps_s", "state", "action", "effector_m"):
        array = getattr(episode, name)
        bad = ~np.isfinite(array.reshape(len(array), -1)).all(axis=1)
        if bad.any():
            yield f"{name}: NaN or infinite in {bad.sum()} of {len(bad)} frames, first at frame {np.argmax(bad)}"


def no_teleport(episode: Episode, limits: AcceptanceLimits) -> Iterator[str]:
    """Where both frames count as known; jumps of a tracker that cleaning has bridged do not."""
    known = episode.reliable[1:] & episode.reliable[:-1]
    step_m = np.where(known, np.linalg.norm(np.diff(episode.effector_m, axis=0), axis=2), 0.0)
    step_m = np.nan_to_num(step_m)  # NaN has a rule of its own
    if step_m.size and step_m.max() > limits.max_step_m:
        frame, side = np.unravel_index(int(step_m.argmax()), step_m.shape)
        yield (
            f"effector_m: the {list(Side)[side]} effector jumps {step_m.max():.2f} m at t={frame / RATE_HZ:.2f} s, "
            f"within {1000 / RATE_HZ:.0f} ms (limit {limits.max_step_m:g} m): a lost encoder or track?"
        )


def monotonic_clocks(episode: Episode, _: AcceptanceLimits) -> Iterator[str]:
    steps_s = np.diff(episode.timestamps_s)
    if len(steps_s) and not np.allclose(steps_s, 1 / RATE_HZ, atol=1e-6):
        worst = int(np.argmax(np.abs(steps_s - 1 / RATE_HZ)))
        yield f"timestamps_s: not the {RATE_HZ:g} Hz grid; step {worst} lasts {steps_s[worst] * 1000:.1f} ms"
    for camera, stream in episode.cameras.items():
        backwards = np.diff(stream.timestamps_s) < 0
        if backwards.any():
            yield f"{camera}: timestamps run backwards at frame {int(np.argmax(backwards)) + 1}"


def synchronised_streams(episode: Episode, limits: AcceptanceLimits) -> Iterator[str]:
    for camera, stream in episode.cameras.items():
        error_s = np.abs(stream.timestamps_s - episode.timestamps_s)
        worst = int(np.argmax(error_s))
        if not error_s[worst] <= limits.max_sync_error_s:
            yield (
                f"{camera}: out of sync by {error_s[worst] * 1000:.0f} ms at t={episode.timestamps_s[worst]:.2f} s "
                f"(limit {limits.max_sync_error_s * 1000:.0f} ms)"
            )


def no_dropout(episode: Episode, limits: AcceptanceLimits) -> Iterator[str]:
    for camera, stream in episode.cameras.items():
        yield from _gap(camera, stream, limits)
        brightness, same = _glance(stream.frames)
        black_s = _longest_run(brightness < limits.black_level) / RATE_HZ
        if black_s > limits.max_black_s:
            yield f"{camera}: black for {black_s:.2f} s (limit {limits.max_black_s} s)"
        yield from _frozen(episode, camera, same, limits)


def known_motion(episode: Episode, limits: AcceptanceLimits) -> Iterator[str]:
    """Hands may be lost for a moment; a robot that does not know its own joints was not recorded."""
    both = np.asarray(episode.reliable.all(axis=1))
    if not episode.source.is_human:
        unknown_s = _longest_run(~both) / RATE_HZ
        if unknown_s > limits.max_gap_s:
            yield f"log: no robot state for {unknown_s:.2f} s (limit {limits.max_gap_s} s)"
        return
    if both.mean() < limits.min_tracked:
        yield f"hands: both tracked in {both.mean():.1%} of frames, at least {limits.min_tracked:.0%} wanted"
    lost_s = _longest_run(~both) / RATE_HZ
    if lost_s > limits.max_untracked_s:
        yield f"hands: tracking lost for {lost_s:.2f} s in a row (limit {limits.max_untracked_s} s)"


RULES: tuple[Rule, ...] = (
    valid_start,
    complete_maneuver,
    finite_values,
    no_teleport,
    monotonic_clocks,
    synchronised_streams,
    no_dropout,
    known_motion,
)


def _gap(camera: Camera, stream: CameraStream, limits: AcceptanceLimits) -> Iterator[str]:
    taken_s = np.unique(stream.timestamps_s)
    if len(taken_s) < 2:
        return
    gaps_s = np.diff(taken_s)
    worst = int(np.argmax(gaps_s))
    if gaps_s[worst] > limits.max_gap_s:
        yield f"{camera}: no image for {gaps_s[worst]:.2f} s at t={taken_s[worst]:.2f} s (limit {limits.max_gap_s} s)"


def _frozen(episode: Episode, camera: Camera, same: Bool[ndarray, " T"], limits: AcceptanceLimits) -> Iterator[str]:
    """Still pictures are fine while nothing moves (a simulator has no sensor noise); not while an arm travels."""
    # A wrist camera moves with its own arm; the other arm may work out of its sight.
    watched = [camera.side.effector] if camera.side else [0, 1]
    for start, stop in _runs(same):
        path_m = episode.effector_m[start - 1 : stop, watched]
        moved_m = float(np.linalg.norm(np.ptp(path_m, axis=0), axis=-1).max())
        if (stop - start) / RATE_HZ > limits.max_frozen_s and moved_m > limits.frozen_motion_m:
            yield (
                f"{camera}: picture frozen for {(stop - start) / RATE_HZ:.2f} s at t={start / RATE_HZ:.2f} s "
                f"while an effector moved {moved_m * 1000:.0f} mm"
            )


def _glance(frames: JpegFrames) -> tuple[Float[ndarray, " T"], Bool[ndarray, " T"]]:
    """Mean brightness of each frame, and whether it equals the one before; at an eighth of its size, one at a time."""
    brightness, same = np.empty(len(frames)), np.zeros(len(frames), bool)
    previous = None
    for index in range(len(frames)):
        try:
            small = simplejpeg.decode_jpeg(frames.encoded(index), min_width=16, min_height=16, min_factor=1.5)
        except ValueError as error:
            raise EpisodeError(f"frame {index} is not a readable JPEG ({error})") from error
        brightness[index] = small.mean()
        same[index] = previous is not None and np.array_equal(small, previous)
        previous = small
    return brightness, same


def _runs(flags: Bool[ndarray, " T"]) -> list[tuple[int, int]]:
    """Half-open stretches of True."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(start), int(stop)) for start, stop in edges.reshape(-1, 2)]


def _longest_run(flags: Bool[ndarray, " T"]) -> int:
    return max((stop - start for start, stop in _runs(flags)), default=0)
