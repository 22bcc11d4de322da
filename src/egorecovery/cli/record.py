"""`egorecovery record`."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from tyro.conf import arg

from egorecovery.cli.words import command
from egorecovery.errors import CaptureError

if TYPE_CHECKING:
    from egorecovery.capture.keys import Controls
    from egorecovery.capture.operator_loop import KeyMap
    from egorecovery.capture.recorder import Recorder, RecordingPlan

TICK_S = 0.05  # how often streams are looked at while no key is pressed


@dataclass(frozen=True, kw_only=True)
class Record:
    """Record demonstrations: stage a failure, one key starts, one stops, accept or discard, next."""

    EXAMPLE: ClassVar = "record --task cup_brush --source human_recovery --camera head=uvc:/dev/video0 --out runs/raw"
    HEADINGS: ClassVar = {
        "operator": "what is logged",
        "robot": "a robot's state and action",
        "keys": "the session",
    }

    task: str
    """What is shown: a task of the paper, or a name of your own with --active."""
    source: Literal["robot_success", "robot_recovery", "human_success", "human_recovery"]
    """Who shows it, and whether it is a recovery."""
    camera: Annotated[tuple[str, ...], arg(metavar="NAME=DRIVER:TARGET")]
    """The cameras by name, such as head=uvc:/dev/video0 or head=replay:STORE/EPISODE (docs/collect.md)."""
    out: Path
    """Folder of raw recordings to add to; made if there is none."""
    operator: str = ""
    """Who records; your login name by default."""
    active: tuple[Literal["left", "right"], ...] = ()
    """Sides whose motion is the correction, for a task of your own."""
    robot: str = ""
    """Robot sources: 'command:PROGRAM ARGUMENTS' that prints JSON lines, or replay:STORE/EPISODE."""
    robot_hz: float = 50.0
    """How many lines a second the robot's program prints."""
    keys: Annotated[tuple[str, ...], arg(metavar="ACTION=KEY")] = ()
    """Other keys, such as start=f5 accept=enter+y. A foot pedal is a key."""
    script: Path | None = None
    """Take actions from this file instead of the keyboard; '-' reads them from stdin (docs/collect.md)."""
    preview: bool = False
    """Show a small picture of each camera in the terminal."""
    keep_free_gb: float = 5.0
    """Disk space that is never recorded over."""

    def run(self) -> int:
        from egorecovery.capture.clocks import SessionClock
        from egorecovery.capture.operator_loop import KeyMap, State
        from egorecovery.capture.recorder import RecordingPlan
        from egorecovery.cli.console import console
        from egorecovery.episodes import Side, Source, task_named

        keys = KeyMap.parse(self.keys)
        specs = self._specs()
        source = Source(self.source)
        plan = RecordingPlan(
            task=task_named(self.task, tuple(Side(side) for side in self.active)),
            source=source,
            operator=self._operator([spec.driver for spec in specs]),
            keep_free_bytes=int(self.keep_free_gb * 1e9),
        )
        with ExitStack() as stack:
            recorder = self._recorder(stack, plan, SessionClock())
            stack.callback(self._close, recorder)
            controls = stack.enter_context(self._controls(keys))
            show = stack.enter_context(self._screen(recorder, keys))
            while recorder.state is not State.ENDED:
                before, happened = recorder.state, recorder.last
                try:
                    action = controls.next(before, TICK_S)
                except EOFError:  # the script ended while a clip is open
                    break
                recorder.tick()
                if action is not None:
                    recorder.press(action)
                show(recorder.last if (recorder.last != happened or action is not None) else "")
        accepted, discarded = len(recorder.recorded), recorder.discarded
        console.print(f"{accepted} clip{'s' * (accepted != 1)} recorded, {discarded} discarded")
        console.print(f"wrote: {self.out}", soft_wrap=True)
        console.print(f"wrote: {self.out / 'collection.jsonl'}", soft_wrap=True)
        console.print(self._next(accepted), soft_wrap=True)
        return 0 if recorder.unfinished is None else 1

    def _close(self, recorder: "Recorder") -> None:
        """Ends the session. An accepted clip that still finds no room is named, with all that it lacks."""
        import json

        from egorecovery.capture.recording_files import DESCRIPTION
        from egorecovery.cli.console import console, messages

        happened = recorder.last
        try:
            recorder.close()
            if recorder.last != happened and recorder.unfinished is None:
                console.print(recorder.last, soft_wrap=True)
        finally:
            if (left := recorder.unfinished) is not None:
                messages.print(f"{left.home.name} was accepted, but: {left.problem}", soft_wrap=True)
                messages.print(
                    f"It is kept in {left.path}. When that is mended, write the next line into its {DESCRIPTION}, "
                    f"then move the folder to {left.home}:",
                    soft_wrap=True,
                )
                print(json.dumps(left.description, ensure_ascii=False), flush=True)

    def _specs(self):
        from egorecovery.capture.cameras.spec import CameraSpec

        specs = [CameraSpec.parse(text) for text in self.camera]
        names = [spec.camera for spec in specs]
        if not specs:
            raise CaptureError("--camera names no camera; write NAME=DRIVER:TARGET, as in head=uvc:/dev/video0")
        if len(set(names)) < len(names):
            raise CaptureError(f"--camera names one camera twice: {', '.join(names)}")
        return specs

    def _operator(self, drivers: list[str]) -> str:
        """A replay demonstrates nothing: what it costs is marked as simulated, as the workcell's times are."""
        import getpass

        from egorecovery.episodes.attempt_log import SIMULATED

        name = self.operator or getpass.getuser()
        if name.startswith(SIMULATED):
            raise CaptureError(f"operator {name!r}: names that begin with 'simulated' are for replays")
        return SIMULATED + name if "replay" in drivers or self.robot.startswith("replay:") else name

    def _recorder(self, stack: ExitStack, plan: "RecordingPlan", clock) -> "Recorder":
        """Devices first: one that cannot be opened leaves no trace on disk."""
        from egorecovery.capture.cameras import SensorOpener
        from egorecovery.capture.clip_draft import accepted_drafts
        from egorecovery.capture.recorder import Recorder
        from egorecovery.capture.sensor_worker import SensorWorker
        from egorecovery.capture.session_log import SessionLog, clear_leftovers
        from egorecovery.cli.console import messages
        from egorecovery.storage.lock import WriterLock

        if plan.source.is_human == bool(self.robot):
            wanted = "takes no --robot" if plan.source.is_human else "needs --robot: its state and action"
            raise CaptureError(f"source {plan.source} {wanted} (docs/collect.md)")
        opener = SensorOpener(plan.source)
        cameras, robot = {}, None
        try:
            for spec in self._specs():  # read from the moment it is open: pictures must not grow old in the device
                camera = opener.camera(spec)
                cameras[spec.camera] = SensorWorker(str(spec.camera), camera, lambda spec=spec: opener.camera(spec))
            if self.robot:
                stream = opener.robot(self.robot, self.robot_hz)
                robot = SensorWorker("robot", stream, lambda: opener.robot(self.robot, self.robot_hz))
            self.out.mkdir(parents=True, exist_ok=True)
            if (self.out / "store.json").exists():
                raise CaptureError(f"{self.out} is a store; record into a folder of raw recordings, then import it")
            stack.enter_context(WriterLock(self.out / "writer.lock"))
            for name in clear_leftovers(self.out):
                messages.print(f"{name}: a recorder was killed while it ran; the attempt is logged as discarded")
            for path in accepted_drafts(self.out):
                messages.print(
                    f"{path} was accepted and could not be finished: write its recording.json (docs/formats.md), then "
                    f"move it to {self.out / path.stem}, or remove it",
                    soft_wrap=True,
                )
            log = SessionLog(self.out, plan.task, plan.source, plan.operator, clock)
            log.require_clock()
        except BaseException:
            for worker in [*cameras.values(), *([robot] if robot is not None else [])]:
                worker.close()
            raise
        for camera, worker in cameras.items():
            if worker.sensor.guessed_intrinsics:
                messages.print(
                    f"{camera}: no calibration given, a field of view of 65 degrees is assumed; "
                    f"hand tracking will be off in depth (calibration=FILE, docs/collect.md)"
                )
        return Recorder(plan, self.out, cameras, robot, clock, log)

    @contextmanager
    def _controls(self, keys: "KeyMap") -> "Iterator[Controls]":
        import sys

        from egorecovery.capture.keys import PipedLines, Script, keyboard

        if self.script is not None and str(self.script) != "-":
            with self.script.open() as lines:
                yield Script(lines, str(self.script))
        elif self.script is not None or not sys.stdin.isatty():
            yield Script(PipedLines(sys.stdin), "the script on stdin")
        else:
            with keyboard(keys) as typed:
                yield typed

    @contextmanager
    def _screen(self, recorder: "Recorder", keys: "KeyMap"):
        """A live meter in a terminal; one line an event elsewhere."""
        from egorecovery.cli.console import console
        from egorecovery.cli.record_screen import screen

        if not console.is_terminal:
            yield lambda news: print(news, flush=True) if news else None
            return
        from rich.live import Live

        with Live(console=console, auto_refresh=False, transient=True) as live:

            def show(_: str) -> None:
                live.update(screen(recorder, keys, preview=self.preview), refresh=True)

            yield show

    def _next(self, accepted: int) -> str:
        store = self.out.with_name(f"{self.out.name}_store")
        replayed = any("=replay:" in text for text in self.camera)
        if not accepted:
            return f"next: egorecovery record --help, or record again into {self.out} and accept a clip"
        if self.source.startswith("human") and not replayed:
            tracks = self.out.with_name(f"{self.out.name}_tracks")
            return f"next: track each clip's hands into {tracks}/CLIP.npz (docs/hand_tracks.md), then " + command(
                "import", self.out, "--hands", tracks, "--out", store
            )
        return f"next: {command('import', self.out, '--out', store)}"
