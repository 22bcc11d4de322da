"""Draws docs/pictures/hero.webp: a failure and its recovery, by a robot with a trained policy and by a person.

python tools/hero.py RUN --start 3 [--regime recovery] [--out docs/pictures/hero.webp]

RUN is a training of a method with a gate, such as `shared_egorecovery`, recipe `demo`. Both films are of the simulator,
from its outside camera. The robot's is a rollout of RUN from that start of the protocol of the demo; its gate is asked
at every frame. The person's is a demonstration from the same start, or with --regime initial from --failure, a failure
start of the same task; the gate under it is what the same policy says of the person's own pictures. Under both: the
gate, as it unfolds.
"""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from egorecovery.capture import to_episode
from egorecovery.demo import demo_protocol
from egorecovery.diagnostics.activations import DiagnosedRun, FrozenPolicy
from egorecovery.episodes import RATE_HZ, EpisodeStore, Provenance, Source, check_episode
from egorecovery.evaluation import BatchedPolicy
from egorecovery.evaluation.checkpoint_source import CheckpointFactory
from egorecovery.evaluation.protocol import Regime, draw_start
from egorecovery.evaluation.rollout import RolloutJob, attempt, look
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.workcell.appearance import Room
from egorecovery.workcell.human_demonstration import HumanDemonstrator
from egorecovery.workcell.human_hands import Manner
from egorecovery.workcell.human_recording import Film, human_recording
from egorecovery.workcell.outside_camera import OutsideCamera
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named

SIZE_PX, GAP_PX, HEAD_PX, GATE_PX = 320, 12, 34, 74
PICTURE_MS = 80
ROBOT_EVERY, PERSON_EVERY = 4, 2  # steps a picture: twice the speed, and the speed it happened at
LAST_PICTURES = 18  # the outcome stays to be seen
PAPER, INK, SOFT, OPEN, CLOSED = (255, 255, 255), (32, 36, 42), (110, 118, 128), (217, 130, 43), (74, 127, 181)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to draw."""

    run: tyro.conf.Positional[Path]
    start: int = 0
    regime: Regime = "recovery"
    failure: int = 0
    person_seed: int = 0
    out: Path = Path("docs/pictures/hero.webp")


@dataclass(frozen=True, kw_only=True)
class Take:
    """A film and the gate along it, one value per step."""

    title: str
    pictures: list[ndarray]
    gate: ndarray
    every: int  # steps a picture
    boundary: int | None = None  # the annotated end of the correction


def robot(options: Options, task: str) -> tuple[Take, Start]:
    """The rollout, with the policy looking at every step; it acts on every chunk's first look only."""
    policy = BatchedPolicy(CheckpointFactory(checkpoint=options.run.absolute())())
    source = policy.source
    job = RolloutJob(
        task=task,
        regime=options.regime,
        index=options.start,
        protocol=demo_protocol(task),
        cameras=tuple(source.cameras),
        image_size=source.image_size,
        action_space=source.action_space,
    )
    pictures: list[ndarray] = []
    gates: list[float] = []
    camera: OutsideCamera | None = None

    def on_frame(cell, _) -> None:
        nonlocal camera
        camera = camera or OutsideCamera(cell.robot.model, SIZE_PX)
        gates.append(float(policy.ask([look(job, cell)])[0].gate))
        if len(gates) % ROBOT_EVERY == 1:
            pictures.append(camera.render(cell.robot.data))

    ending = attempt(job, lambda question: policy.ask([question])[0], on_frame)
    if camera is not None:
        camera.close()
    print(f"robot: {ending.result} ({ending.reason}) after {ending.duration_s:.1f} s, start {ending.start}")
    assert ending.start is not None
    steps = len(gates) - round(demo_protocol(task).stable_s * RATE_HZ) + RATE_HZ  # of the 3 s it must hold show one
    if ending.result == "success":
        gates, pictures = gates[: int(steps)], pictures[: int(steps) // ROBOT_EVERY]
    title = "Robot, trained policy (2x speed)"
    return Take(title=title, pictures=pictures, gate=np.array(gates), every=ROBOT_EVERY), ending.start


class SeenFromOutside(Film):
    """A demonstration that another camera films as well."""

    def __init__(self, person, cameras, camera: OutsideCamera) -> None:
        super().__init__(person, cameras)
        self._outside = camera
        self.outside: list[ndarray] = []

    def _take(self, seen) -> None:
        if len(self._seen) % PERSON_EVERY == 0:
            self.outside.append(self._outside.render(self._person.data))
        super()._take(seen)


def person(options: Options, run: DiagnosedRun, start: Start) -> Take:
    """A demonstration from that start, recorded and imported as any other; then the policy looks at it."""
    scene = scene_named(start.task)
    demonstrator = HumanDemonstrator(scene, image_size=run.recipe.policy.image_size)
    hands = demonstrator._person
    with OutsideCamera(hands.model, SIZE_PX) as camera:
        for seed in range(options.person_seed, options.person_seed + 20):
            rng = np.random.default_rng(seed)
            hands.reset(Manner.draw(rng))
            Room(hands.model).dress(start.appearance)
            scene.stage(hands, start)
            first = hands.facts()
            film = SeenFromOutside(hands, demonstrator._cameras, camera)
            film.shoot(scene.recover(hands, rng), rng)
            if demonstrator._wait(first) is None:
                continue
            at = "2026-01-01T00:00:00+00:00"
            provenance = Provenance(operator="simulated person", recorder="tools/hero.py", started_at=at, stopped_at=at)
            episode = to_episode(
                human_recording(
                    film, "hero", task=scene.task, source=Source.HUMAN_RECOVERY, provenance=provenance, rng=rng
                )
            )
            if not check_episode(episode):
                break
        else:
            raise SystemExit("no demonstration of twenty passed the import's checks")
    demonstrator.close()
    assert film.boundary_s is not None
    boundary = round(film.boundary_s * RATE_HZ)
    print(f"person: {len(episode)} frames, boundary {boundary}, seed {seed}")
    with tempfile.TemporaryDirectory() as folder:
        store = EpisodeStore.create(Path(folder) / "store")
        with store.writing() as writer:
            writer.add(episode)
        note = Annotation(episode=episode.id, boundary=boundary, candidate=boundary, annotator="script", saved_at=at)
        AnnotationJournal(store.annotations_path).save(note, n_frames=len(episode), seen_revision=0)
        label_store(store)
        [seen] = FrozenPolicy(run, "cpu").observe(store, [(Source.HUMAN_RECOVERY, episode.id)])
    assert seen.gate_T is not None
    title = "Person, recovery clip"
    return Take(title=title, pictures=film.outside, gate=seen.gate_T, every=PERSON_EVERY, boundary=boundary)


def panel(take: Take, number: int) -> Image.Image:
    """One view with its gate so far."""
    number = min(number, len(take.pictures) - 1)
    step = min(number * take.every, len(take.gate) - 1)
    gate = float(take.gate[step])
    image = Image.new("RGB", (SIZE_PX, HEAD_PX + SIZE_PX + GATE_PX), PAPER)
    image.paste(Image.fromarray(take.pictures[number]), (0, HEAD_PX))
    draw = ImageDraw.Draw(image)
    draw.text((2, 8), take.title, INK, ImageFont.load_default(17))
    top, height = HEAD_PX + SIZE_PX + 28, GATE_PX - 30
    words = "correcting" if gate > 0.5 else "ordinary work"
    colour = OPEN if gate > 0.5 else CLOSED
    draw.text((2, top - 23), f"gate {gate:.2f}", colour, ImageFont.load_default(16))
    draw.text((84, top - 23), words, colour, ImageFont.load_default(16))
    draw.rectangle((0, top, SIZE_PX - 1, top + height), fill=(240, 241, 243))
    width = (SIZE_PX - 1) / max(1, len(take.gate) - 1)
    for column in range(int(step * width) + 1):
        value = float(take.gate[min(int(column / width), len(take.gate) - 1)])
        draw.line(
            (column, top + height - 1, column, top + height - 1 - value * (height - 2)), OPEN if value > 0.5 else CLOSED
        )
    draw.line((0, top + height / 2, SIZE_PX, top + height / 2), (200, 203, 208))
    if take.boundary is not None and step >= take.boundary:
        at = take.boundary * width
        draw.line((at, top - 2, at, top + height), INK, 2)
        side = at + 5 if at < SIZE_PX - 150 else at - 135
        draw.text((side, top + 2), "annotated boundary", INK, ImageFont.load_default(13))
    return image


def main(options: Options) -> None:
    run = DiagnosedRun.open(options.run, "cube_stack", "policy")
    acted, start = robot(options, run.recipe.task)
    if options.regime == "initial":
        protocol = replace(demo_protocol(run.recipe.task), rollouts=options.failure + 1)
        start = draw_start(protocol, scene_named(run.recipe.task), "recovery", options.failure)
    shown = person(options, run, start)
    pictures = []
    for number in range(max(len(acted.pictures), len(shown.pictures)) + LAST_PICTURES):
        panels = [panel(take, number) for take in (acted, shown)]
        frame = Image.new("RGB", (2 * SIZE_PX + GAP_PX, panels[0].height), PAPER)
        frame.paste(panels[0], (0, 0))
        frame.paste(panels[1], (SIZE_PX + GAP_PX, 0))
        pictures.append(frame)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    pictures[0].save(
        options.out, save_all=True, append_images=pictures[1:], duration=PICTURE_MS, loop=0, quality=62, method=4
    )
    print(f"{options.out}: {len(pictures)} pictures, {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(tyro.cli(Options, description=__doc__))
