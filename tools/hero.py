"""Draws docs/pictures/hero.webp: an attempt that fails, and the recovery, by a robot and by a person, side by side.

python tools/hero.py RUN [--seed 0] [--out docs/pictures/hero.webp]

Both films are of the simulated workcell, from its outside camera: one script, carried out once by the robot's
teleoperator and once by a person's hands. The gate below is what the policy of RUN says of the pictures and joints of
every frame, as it would in a rollout; for the person it looks at the recorded clip, cleaned by the import. RUN is a
training of a method with a gate on cube stacking. The picture in docs is of the checkpoint of step 600 of

egorecovery simulate --task cube_stack --source robot_success --episodes 50 --image-size 64 --out STORE --seed 7
egorecovery simulate --task cube_stack --source robot_recovery --episodes 60 --image-size 64 --out STORE --seed 7 \\
    --across-family
egorecovery simulate --task cube_stack --source human_recovery --episodes 160 --image-size 64 --out STORE --seed 7
egorecovery label STORE
egorecovery train STORE --task cube_stack --recipe demo --method shared_egorecovery --robot-success 48 \\
    --robot-recovery 58 --human-recovery 150 --set batch.human 24 --steps 1200 --save-every 200 --run RUN --device cpu
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tyro
from numpy import ndarray
from PIL import Image, ImageDraw, ImageFont

from egorecovery.capture import to_episode
from egorecovery.demo import demo_protocol
from egorecovery.diagnostics.activations import DiagnosedRun, FrozenPolicy
from egorecovery.episodes import EpisodeStore, Provenance, Source, check_episode
from egorecovery.evaluation import BatchedPolicy
from egorecovery.evaluation.checkpoint_source import CheckpointFactory
from egorecovery.evaluation.rollout import RolloutJob, look
from egorecovery.intent import label_store
from egorecovery.recovery import Annotation, AnnotationJournal
from egorecovery.workcell.appearance import PLAIN, Room
from egorecovery.workcell.demonstration import OPERATOR
from egorecovery.workcell.human_demonstration import HumanDemonstrator
from egorecovery.workcell.human_hands import Manner
from egorecovery.workcell.human_recording import Film, human_recording
from egorecovery.workcell.kinematics import pointing_down
from egorecovery.workcell.maneuver import CorrectionDone, Script, World
from egorecovery.workcell.outside_camera import OutsideCamera
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start
from egorecovery.workcell.tasks import scene_named
from egorecovery.workcell.tasks.cube_stack import CUBE_M, _move, _pick
from egorecovery.workcell.teleoperator import Teleoperator
from egorecovery.workcell.workcell import Workcell

TASK = "cube_stack"
MISS_M = (0.025, 0.085)  # where the cube is let go of, from the green one: to the front and to the side
SIZE_PX, GAP_PX, HEAD_PX, GATE_PX, BAR_PX = 320, 12, 34, 92, 44
PICTURE_MS = 80
ROBOT_EVERY, PERSON_EVERY = 4, 2  # steps a picture: twice the speed, and the speed it happened at
LAST_PICTURES = 18  # the outcome stays to be seen
PAPER, INK, OPEN, CLOSED = (255, 255, 255), (32, 36, 42), (217, 130, 43), (74, 127, 181)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to draw."""

    run: tyro.conf.Positional[Path]
    seed: int = 0
    out: Path = Path("docs/pictures/hero.webp")


@dataclass(frozen=True, kw_only=True)
class Take:
    """A film and the gate along it, one value per step."""

    title: str
    pictures: list[ndarray]
    gate: ndarray
    every: int  # steps a picture
    failed: int  # the step at which the cube has been dropped
    corrected: int  # the boundary: the last step of the correction


class Failed:
    """Between two waypoints of the script: the attempt has failed."""


def attempt(scene: TaskScene, world: World, rng: np.random.Generator) -> Iterator:
    """Stacks beside the other cube, lets go, comes up as after success; then the task's own recovery."""
    yield from _pick(world, rng)
    beside_m = world.facts().green.position_m + [*MISS_M, CUBE_M + 0.025]
    yield _move(beside_m, pointing_down(), 0.0, holds_m=CUBE_M)
    yield _move(beside_m, pointing_down(), 0.9, straight=True, wait_s=0.3)
    yield Failed()
    up_m = world.facts().green.position_m + [0, 0, 0.09]
    yield _move(up_m, pointing_down(), 1.0, wait_s=0.3)
    yield from scene.recover(world, rng)


def marked(script: Iterator, marks: dict[str, int], now) -> Script:
    """Notes when it failed and when it was corrected."""
    for wanted in script:
        if isinstance(wanted, Failed):
            marks["failed"] = now()
            continue
        if isinstance(wanted, CorrectionDone):
            marks["corrected"] = now() - 1
        yield wanted


def robot(run: Path, scene: TaskScene, start: Start, seed: int) -> Take:
    policy = BatchedPolicy(CheckpointFactory(checkpoint=run.absolute())())
    source = policy.source
    job = RolloutJob(
        task=TASK,
        regime="initial",
        index=0,
        protocol=demo_protocol(TASK),
        cameras=tuple(source.cameras),
        image_size=source.image_size,
        action_space=source.action_space,
    )
    pictures: list[ndarray] = []
    gates: list[float] = []
    marks: dict[str, int] = {}
    rng = np.random.default_rng(seed)
    with Workcell(scene, image_size=source.image_size) as cell, OutsideCamera(cell.robot.model, SIZE_PX) as camera:
        cell.reset(start)
        teleoperator = Teleoperator(cell.robot, scene)
        teleoperator.aim = OPERATOR

        def tick(_: ndarray) -> None:
            if len(gates) % ROBOT_EVERY == 0:
                pictures.append(camera.render(cell.robot.data))
            gates.append(float(policy.ask([look(job, cell)])[0].gate))

        script = marked(attempt(scene, teleoperator, rng), marks, lambda: len(gates))
        teleoperator.demonstrate(script, rng, tick, lambda: None)
        if not scene.goal(cell.facts()):
            raise SystemExit(f"seed {seed}: the robot did not recover; try another one")
    return Take(
        title="Robot, teleoperated (2x speed)", pictures=pictures, gate=np.array(gates), every=ROBOT_EVERY, **marks
    )


class SeenFromOutside(Film):
    """A demonstration that another camera films as well."""

    def __init__(self, person, cameras, camera: OutsideCamera) -> None:
        super().__init__(person, cameras)
        self._outside = camera
        self.outside: list[ndarray] = []

    @property
    def steps(self) -> int:
        return len(self._seen)

    def _take(self, seen) -> None:
        if self.steps % PERSON_EVERY == 0:
            self.outside.append(self._outside.render(self._person.data))
        super()._take(seen)


def person(run: DiagnosedRun, scene: TaskScene, start: Start, seed: int) -> Take:
    """The same, recorded and imported as any human clip; then the policy looks at it."""
    demonstrator = HumanDemonstrator(scene, image_size=run.recipe.policy.image_size)
    hands, rng, marks = demonstrator._person, np.random.default_rng(seed), {}
    with OutsideCamera(hands.model, SIZE_PX) as camera:
        hands.reset(Manner.draw(rng))
        Room(hands.model).dress(start.appearance)
        scene.stage(hands, start)
        film = SeenFromOutside(hands, demonstrator._cameras, camera)
        film.shoot(marked(attempt(scene, hands, rng), marks, lambda: film.steps), rng)
        if not scene.goal(hands.facts()):
            raise SystemExit(f"seed {seed}: the person did not recover; try another one")
    at = "2026-01-01T00:00:00+00:00"
    provenance = Provenance(operator="simulated person", recorder="tools/hero.py", started_at=at, stopped_at=at)
    recording = human_recording(
        film, "hero", task=scene.task, source=Source.HUMAN_RECOVERY, provenance=provenance, rng=rng
    )
    demonstrator.close()
    episode = to_episode(recording)
    if reasons := check_episode(episode):
        raise SystemExit(f"seed {seed}: the import would refuse this clip ({'; '.join(reasons)}); try another one")
    boundary = min(marks["corrected"], len(episode) - 1)
    with tempfile.TemporaryDirectory() as folder:
        store = EpisodeStore.create(Path(folder) / "store")
        with store.writing() as writer:
            writer.add(episode)
        note = Annotation(episode=episode.id, boundary=boundary, candidate=boundary, annotator="script", saved_at=at)
        AnnotationJournal(store.annotations_path).save(note, n_frames=len(episode), seen_revision=0)
        label_store(store)
        [seen] = FrozenPolicy(run, "cpu").observe(store, [(Source.HUMAN_RECOVERY, episode.id)])
    assert seen.gate_T is not None
    return Take(title="Person", pictures=film.outside, gate=seen.gate_T, every=PERSON_EVERY, **marks)


def panel(take: Take, number: int) -> Image.Image:
    """One view with its gate so far."""
    number = min(number, len(take.pictures) - 1)
    step = min(number * take.every, len(take.gate) - 1)
    gate = float(take.gate[step])
    image = Image.new("RGB", (SIZE_PX, HEAD_PX + SIZE_PX + GATE_PX), PAPER)
    image.paste(Image.fromarray(take.pictures[number]), (0, HEAD_PX))
    draw = ImageDraw.Draw(image)
    draw.text((2, 8), take.title, INK, ImageFont.load_default(17))
    top, height = HEAD_PX + SIZE_PX + 28, BAR_PX
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
    for at_step, words in ((take.failed, "dropped"), (take.corrected, "corrected")):
        if step >= at_step:
            at = at_step * width
            draw.line((at, top, at, top + height + 4), INK, 2)
            aside = (at - 58) if words == "dropped" else (at - 2)
            draw.text((aside, top + height + 3), words, INK, ImageFont.load_default(14))
    return image


def main(options: Options) -> None:
    run, scene = DiagnosedRun.open(options.run, TASK, "policy"), scene_named(TASK)
    start = replace(scene.draw_initial(np.random.default_rng(options.seed)), appearance=PLAIN)
    acted, shown = robot(options.run, scene, start, options.seed), person(run, scene, start, options.seed)
    for take in (acted, shown):
        print(f"{take.title}: {len(take.gate)} steps, dropped at {take.failed}, corrected at {take.corrected}")
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
