"""A human attempt at a demonstration: recorded and tracked like the rig does, judged by the task's rules."""

from numpy.random import Generator

from egorecovery.episodes import RATE_HZ, Camera
from egorecovery.workcell.appearance import Room
from egorecovery.workcell.demonstration import PATIENCE_S, Attempt
from egorecovery.workcell.human_hands import HumanHands, Manner, human_cell
from egorecovery.workcell.human_recording import CameraClock, Film, HandTracker
from egorecovery.workcell.kinematics import HOME
from egorecovery.workcell.physics import PhysicsDiverged
from egorecovery.workcell.render import Cameras
from egorecovery.workcell.rules import Judge, Outcome, Protocol
from egorecovery.workcell.scene import TaskScene
from egorecovery.workcell.starts import Start


class HumanDemonstrator:
    """A person at the table who wears the cameras."""

    def __init__(
        self, scene: TaskScene, *, image_size: int = 96, depth: bool = False, hidden_embodiment: bool = False
    ) -> None:
        self.scene = scene
        self._depth = depth
        model = human_cell(scene)
        self._person = HumanHands(model, scene)
        self._room = Room(model)
        self._cameras = Cameras(model, image_size, hidden_embodiment)

    def attempt(self, start: Start, rng: Generator) -> Attempt:
        person, scene = self._person, self.scene
        film = Film(person, self._cameras, self._depth)
        try:
            person.reset(Manner.draw(rng))
            self._room.dress(start.appearance)
            scene.stage(person, start)
            first = person.facts()
            invalid_reason = scene.invalid_reason(first, start)
            if invalid_reason is not None:
                return Attempt.failed(0.0, f"staging: {invalid_reason}")
            script = scene.recover(person, rng) if start.kind == "recovery" else scene.succeed(person, rng)
            film.shoot(script, rng)
            outcome = self._wait(first)
        except PhysicsDiverged as error:
            return Attempt.failed(max(film.duration_s, 0.0), str(error))
        if outcome is None or not outcome.succeeded:
            return Attempt.failed(film.duration_s, outcome.reason if outcome else "the goal was not reached")
        return Attempt(
            motion=film.hands(HandTracker(), rng),
            cameras={camera: film.camera(camera, CameraClock(), rng) for camera in Camera},
            duration_s=film.duration_s,
            failure=None,
            correction_done_s=film.boundary_s,
        )

    def close(self) -> None:
        self._cameras.close()

    def _wait(self, first: object) -> Outcome | None:
        """Keeps the hands still until the goal has held long enough. The reset rule is for robots only."""
        protocol = Protocol()
        judge = Judge(protocol, HOME)
        for _ in range(round((protocol.stable_s + PATIENCE_S) * RATE_HZ)):
            facts = self._person.facts()
            terminal = self.scene.terminal(facts, first)
            outcome = judge.watch(goal=self.scene.goal(facts), terminal=terminal, joints=None)
            if outcome is not None:
                return outcome
            self._person.settle(1 / RATE_HZ)
        return None
