"""A film of one rollout: the cameras side by side, above them the phase, the gate over time, and the intent."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

import numpy as np
from jaxtyping import UInt8
from numpy import ndarray

from egorecovery.episodes import RATE_HZ
from egorecovery.episodes.pictures import FILM_HEIGHT_PX, below, beside
from egorecovery.errors import RecipeError
from egorecovery.evaluation.batched_policy import ActionChunk, BatchedPolicy
from egorecovery.evaluation.rollout import Ending, RolloutJob, attempt, look
from egorecovery.workcell.workcell import Workcell

PANEL_PX, TITLE_PX = 120, 24
TEXT_PX = 13
ENCODING = {"crf": "24", "preset": "veryfast"}  # half the time of the usual preset, and files as small
LAST_S = 1.5  # the last picture stays, so that the outcome can be read
INK, PALE, ALARM, CALM = (30, 30, 30), (225, 225, 225), (200, 60, 40), (60, 110, 180)
GATE_ON = 0.5  # above it the policy takes itself to be recovering


@dataclass(frozen=True, eq=False)
class Moment:
    """One step of the film."""

    images: UInt8[ndarray, "V S S 3"]
    gate: float | None
    intent: tuple[float, ...] | None


def render_video(job: RolloutJob, policy: BatchedPolicy, path: Path, who: str | None = None) -> Ending:
    """Runs a rollout once more, looking at every step. It goes as it went without a camera running."""
    need_encoder()
    moments: list[Moment] = []

    def record(cell: Workcell, answer: ActionChunk) -> None:
        moments.append(Moment(look(job, cell).images, answer.gate, answer.intent))

    ending = attempt(job, lambda question: policy.ask([question])[0], record)
    if not moments:
        raise RecipeError(f"there is nothing to film: the rollout ended before its first step ({ending.reason})")
    title = f"{who or policy.source.name}   {job.task} {job.regime} {job.index}"
    title += f" ({ending.start.mode})" if ending.start else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    encode_film(frames(moments, title, f"{ending.result}: {ending.reason}"), path)
    return ending


def frames(moments: list[Moment], title: str, outcome: str) -> Iterator[UInt8[ndarray, "H W 3"]]:
    """The pictures of the film; the outcome shows on the last ones."""
    gates = [moment.gate for moment in moments]
    largest = max((abs(value) for moment in moments for value in moment.intent or ()), default=1.0)
    for step, moment in enumerate(moments):
        last = step == len(moments) - 1
        zoom = max(1, round(FILM_HEIGHT_PX / moment.images.shape[1]))
        tiles = beside([image.repeat(zoom, axis=0).repeat(zoom, axis=1) for image in moment.images])
        words = [title, f"{step / RATE_HZ:5.1f} s   {phase(moment.gate)}", outcome if last else ""]
        panel = _panel(tiles.shape[1], words, gates[: step + 1], len(moments), moment.intent, largest)
        picture = below([panel, tiles])  # players lay their controls over the bottom
        yield from [_even(picture)] * (round(LAST_S * RATE_HZ) if last else 1)


def phase(gate: float | None) -> str:
    """What the policy takes itself to be doing."""
    if gate is None:
        return "no gate"
    return f"{'recovering' if gate > GATE_ON else 'nominal'}, gate {gate:.2f}"


def _panel(
    width: int,
    words: list[str],
    gates: list[float | None],
    total: int,
    intent: tuple[float, ...] | None,
    largest: float,
) -> UInt8[ndarray, "H W 3"]:
    """A title; below it text on the left, the gate over time in the middle, the intent's coefficients on the right."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", (width, PANEL_PX), (255, 255, 255))
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(TEXT_PX)
    title, *more = words
    draw.text((6, 5), title, fill=INK, font=font)
    column = max(1, round(0.42 * width / (0.55 * TEXT_PX)))  # letters
    for line, part in enumerate(part for text in more for part in wrap(text, column)):
        draw.text((6, TITLE_PX + 4 + 18 * line), part, fill=INK, font=font)
    left, right, top, bottom = 0.45 * width, 0.8 * width, TITLE_PX + 4, PANEL_PX - 22
    draw.rectangle((left, top, right, bottom), outline=PALE)
    draw.line((left, (top + bottom) / 2, right, (top + bottom) / 2), fill=PALE)
    draw.text((left, bottom + 3), "gate", fill=INK, font=font)
    for step, gate in enumerate(gates):
        if gate is not None:
            across = left + (right - left) * (step + 0.5) / total
            colour = ALARM if gate > GATE_ON else CALM
            draw.line((across, bottom - (bottom - top) * gate, across, bottom), fill=colour)
    left, right = 0.84 * width, 0.98 * width
    draw.rectangle((left, top, right, bottom), outline=PALE)
    draw.text((left, bottom + 3), "intent", fill=INK, font=font)
    for number, value in enumerate(intent or ()):
        slot = (right - left) / len(intent or ())
        height = (bottom - top) * abs(value) / max(largest, 1e-9)
        begin = left + slot * (number + 0.2)
        draw.rectangle((begin, bottom - height, begin + 0.6 * slot, bottom), fill=CALM)
    return np.asarray(image)


def _even(image: UInt8[ndarray, "H W 3"]) -> UInt8[ndarray, "H W 3"]:
    """The codec wants even sizes."""
    return np.ascontiguousarray(image[: image.shape[0] // 2 * 2, : image.shape[1] // 2 * 2])


def encode_film(pictures: Iterator[UInt8[ndarray, "H W 3"]], path: Path) -> None:
    """H.264 at the speed it happened."""
    import av

    with av.open(str(path), "w") as container:
        video = container.add_stream("libx264", rate=round(RATE_HZ), options=ENCODING)
        video.pix_fmt = "yuv420p"
        for number, picture in enumerate(pictures):
            if number == 0:
                video.height, video.width = picture.shape[:2]
            container.mux(video.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(video.encode())


def need_encoder() -> None:
    """Before the rollout, not after it."""
    try:
        import av
        import PIL  # noqa: F401 - both are used by name where they are needed
    except ImportError as error:
        raise RecipeError(f"filming needs PyAV and Pillow ({error}): pip install av pillow") from None
    del av
