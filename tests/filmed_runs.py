"""Films and result files as `evaluate` leaves them, without the rollouts: for tests of the viewer and of scoring."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

from egorecovery.evaluation import ResultFile, RolloutRecord, Subject
from egorecovery.evaluation.rollout_videos import video_path
from egorecovery.evaluation.video import Moment, encode_film, frames

RATE_HZ = 25
REPLAN = 5


def rollout(index: int, succeeded: bool, *, policy: str, steps: int = 20, **changes) -> RolloutRecord:
    decisions = -(-steps // REPLAN)
    fields = {
        "subject": Subject(policy=policy, policy_hash="f00d", seed=1),
        "task": "cube_stack",
        "regime": "recovery",
        "index": index,
        "start": {"mode": "held" if index % 2 else "tilted_over", "x_m": 0.01 * index},
        "protocol": {"name": "bench", "starts_seed": "tests", "replan_steps": REPLAN},
        "outcome": "success" if succeeded else "failure",
        "reason": "goal held" if succeeded else "time limit",
        "duration_s": steps / RATE_HZ,
        "retries": 0,
        "decisions": decisions,
        "gate_trace": tuple(round(0.9 - 0.2 * k, 3) for k in range(decisions)),
        "intent_trace": tuple((round(0.5 - 0.1 * k, 3), 0.2, 0.1, 0.05) for k in range(decisions)),
    }
    return RolloutRecord(**{**fields, **changes})


def film_of(record: RolloutRecord, path: Path, cameras: int = 1, size: int = 32) -> None:
    """A film with the panel that names everything; the pictures darken from step to step."""
    steps = round(record.duration_s * RATE_HZ)
    moments = []
    for step in range(steps):
        images = np.full((cameras, size, size, 3), 200 - 6 * step % 150, np.uint8)
        images[:, : size // 2, : size // 2] = [200, 200, 40] if record.succeeded else [40, 60, 200]
        k = min(step // REPLAN, record.decisions - 1)
        gate = record.gate_trace[k] if record.gate_trace else None
        moments.append(Moment(images, gate, record.intent_trace[k] if record.intent_trace else None))
    path.parent.mkdir(parents=True, exist_ok=True)
    title = f"{record.subject.policy}   {record.task} {record.regime} {record.index}"
    encode_film(frames(moments, title, f"{record.outcome}: {record.reason}"), path)


def evaluated_run(folder: Path, records: list[RolloutRecord], stem: str = "results") -> Path:
    """A folder as `egorecovery evaluate --film N --out FOLDER/STEM.jsonl` leaves it."""
    ResultFile(folder / f"{stem}.jsonl").append_all(records)
    for record in records:
        which = {"task": record.task, "regime": record.regime, "index": record.index, "key": record.key}
        film_of(record, video_path(folder / f"{stem}.jsonl", **which))
    return folder


def write_video(
    path: Path,
    *,
    frames: int = 12,
    rate: int = 25,
    size: tuple[int, int] = (48, 64),
    codec: str = "libx264",
    pixels: str = "yuv420p",
    says: str = "",
    at: list[int] | None = None,
    sound: bool = False,
) -> None:
    """A camera's video; `says` goes into every place for text that it has, `at` are the ticks of its frames."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(path), "w") as container:
        video = container.add_stream(codec, rate=rate)
        video.pix_fmt, (video.height, video.width) = pixels, size
        audio = container.add_stream("aac", rate=16_000, layout="mono") if sound else None
        for place in ("title", "comment", "artist", "description") if says else ():
            container.metadata[place] = says
        if says:
            video.metadata["handler_name"] = says
        for number in range(frames):
            picture = np.full((*size, 3), 20 + 200 * number // frames, np.uint8)
            picture[:4] = 255
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            if at is not None:
                frame.pts, frame.time_base = at[number], Fraction(1, rate)
            container.mux(video.encode(frame))
        container.mux(video.encode())
        if audio is not None:
            hum = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
            hum.sample_rate = 16_000
            container.mux(audio.encode(hum))
            container.mux(audio.encode())
