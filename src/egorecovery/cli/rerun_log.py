"""An episode or a rollout in the Rerun viewer: pictures, paths of the effectors, gate and intent, on one clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rerun as rr  # pyright: ignore[reportMissingImports] - an extra

from egorecovery.episodes.vocabulary import RATE_HZ
from egorecovery.errors import RecipeError
from egorecovery.storage.containment import read_bytes

if TYPE_CHECKING:
    from egorecovery.episodes import EpisodeStore
    from egorecovery.evaluation.results import RolloutRecord

VIEW = "view"  # instead of a file's name: open the viewer
CLOCK = "time"
FILM_BYTES = 1 << 30


@contextmanager
def recording(target: str, name: str) -> Iterator[Any]:
    """Where things are logged to: a new .rrd file, or the viewer."""
    if target != VIEW and not target.endswith(".rrd"):
        raise RecipeError(f"--rerun {target}: write a file that ends in .rrd, or '{VIEW}' to open the viewer")
    stream = rr.RecordingStream("egorecovery", recording_id=name)
    if target == VIEW:
        stream.spawn()
    else:
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        stream.save(target)
    yield stream
    stream.flush()
    stream.disconnect()


def log_episode(store: "EpisodeStore", identifier: str, target: str) -> None:
    """Gate and intent are the labels' here: what a policy is to say at each frame."""
    episode = store.read(identifier)
    with recording(target, episode.id) as stream:
        stream.log("facts", rr.TextDocument(f"{episode.id}: {episode.task.name}, {episode.source}"), static=True)
        for side in range(episode.effector_m.shape[1]):
            stream.log(f"workspace/path_{_side(side)}", rr.LineStrips3D([episode.effector_m[:, side]]), static=True)
        labels = _labels(store, identifier)
        for frame in range(len(episode)):
            stream.set_time(CLOCK, duration=frame / RATE_HZ)
            for camera, images in episode.cameras.items():
                encoded = bytes(images.frames.encoded(frame))
                stream.log(f"cameras/{camera}", rr.EncodedImage(contents=encoded, media_type="image/jpeg"))
            for side, place_m in enumerate(episode.effector_m[frame]):
                stream.log(f"workspace/{_side(side)}", rr.Points3D([place_m], radii=0.01))
            stream.log("state", rr.Scalars(episode.state[frame]))
            stream.log("action", rr.Scalars(episode.action[frame]))
            if labels is not None:
                stream.log("labels/gate", rr.Scalars(float(labels.in_recovery[frame])))
                if labels.intent_mask[frame]:
                    stream.log("labels/intent_m", rr.Scalars(labels.intent_m[frame]))


def log_rollout(record: "RolloutRecord", film: Path | None, target: str) -> None:
    """Gate and intent at every decision, and the film where there is one."""
    replan_s = float(record.protocol.get("replan_steps", 1)) / RATE_HZ
    with recording(target, record.key[:16]) as stream:
        said = f"{record.task}, {record.regime} start {record.index}: {record.outcome} ({record.reason})"
        stream.log("facts", rr.TextDocument(said), static=True)
        if film is not None:
            video = rr.AssetVideo(contents=read_bytes(film, FILM_BYTES), media_type="video/mp4")
            stream.log("film", video, static=True)
            times_ns = video.read_frame_timestamps_nanos()
            stream.send_columns(
                "film",
                indexes=[rr.TimeColumn(CLOCK, duration=1e-9 * times_ns)],
                columns=rr.VideoFrameReference.columns_nanos(times_ns),
            )
        for number, gate in enumerate(record.gate_trace):
            stream.set_time(CLOCK, duration=number * replan_s)
            stream.log("policy/gate", rr.Scalars(gate))
        for number, intent in enumerate(record.intent_trace):
            stream.set_time(CLOCK, duration=number * replan_s)
            stream.log("policy/intent", rr.Scalars(list(intent)))


def _labels(store: "EpisodeStore", identifier: str) -> Any:
    from egorecovery.intent import LabelStore

    labels = LabelStore(store.labels_path)
    return None if labels.card(identifier) is None else labels.read(identifier)


def _side(effector: int) -> str:
    return ("left", "right")[effector]
