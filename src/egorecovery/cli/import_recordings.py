"""`egorecovery import`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from tyro.conf import OmitArgPrefixes, Positional

from egorecovery.capture.formats.options import AlohaOptions, EgoVerseOptions, Format, LeRobotOptions
from egorecovery.cli.options import command_of

if TYPE_CHECKING:
    from egorecovery.capture import Imported, PictureFit
    from egorecovery.capture.formats.importer import ImportAs, Importer, Robot

SAID_BY_RECORDINGS = ("task", "active", "source", "operator", "name", "recorded_at")
WORKCELL = "the workcell's arms"


@dataclass(frozen=True, kw_only=True)
class Import:
    """Add demonstrations to a store: recordings, or data of ALOHA, LeRobot or EgoVerse.

    Unusable ones are refused with the reason. Running it again adds only what is missing.
    """

    EXAMPLE: ClassVar = (
        "import DATA --format lerobot --task cup_brush --source robot_success --out runs/store --dry-run"
    )
    HEADINGS: ClassVar = {
        "out": "from what to where",
        "task": "what the data do not say themselves",
        "camera": "cameras, arms and hands",
        "image_size": "pictures",
        "limit": "this import",
    }

    paths: Positional[tuple[Path, ...]]
    """Recordings or folders of them (docs/formats.md), or data sets (docs/formats_other.md)."""
    out: Path | None = None
    """The store to add to; made if there is none. Needed, except with --dry-run."""
    format: Format = "recordings"
    """What the data is."""
    dry_run: bool = False
    """Say what is there and what would be made of it; add nothing."""
    sheet: Path | None = None
    """With --dry-run: write moments of the first episode as a PNG picture."""
    task: str = ""
    """What is done in it, as in cup_brush. Recordings say so themselves."""
    active: tuple[Literal["left", "right"], ...] = ()
    """For a task of your own: the arms whose motion corrects the failure."""
    source: Literal["", "robot_success", "robot_recovery", "human_success", "human_recovery"] = ""
    """Who does it, and whether it is a recovery. Recordings say so themselves."""
    operator: str = "unknown"
    """Who made it, for the audit."""
    name: str = ""
    """Episodes are called NAME-000000 and so on; by default the data set's name."""
    recorded_at: str = ""
    """When the first episode began, such as 2026-03-01T10:00:00+00:00, where the data does not say."""
    camera: tuple[str, ...] = ()
    """Which camera is which, as in head=cam_high left_wrist=cam_left, where names do not tell."""
    robot: Path | None = None
    """The arms, MJCF, URDF or JSON (docs/kinematics.md): where the fingertips are, from the joints."""
    gripper_range: tuple[str, ...] = ()
    """What grippers read, as in state=0.02,0.058 action=-0.3,1.6: CLOSED,OPEN; else the data set's extremes."""
    transform: Path | None = None
    """Where the data's frame lies in the workspace, JSON (docs/hand_tracks.md)."""
    hands: Path | None = None
    """Hand tracks of clips, recorded or only pictures: an npz, or a folder of them (docs/hand_tracks.md)."""
    image_size: int | None = None
    """Make pictures squares of that many pixels."""
    fit: Literal["letterbox", "crop"] = "letterbox"
    """With --image-size: all of the picture between black bars, or the square in its middle."""
    hide_embodiment: bool = False
    """Remove arms and hands from recordings' pictures by the masks beside them (docs/formats.md)."""
    limit: tuple[str, ...] = ()
    """Acceptance limits to change for this import, such as max_gap_s=0.2 min_tracked=0.8."""
    workers: int = 0
    """Processes to use; 0 for all cores."""
    json: bool = False
    """Print JSON instead of text."""
    aloha: OmitArgPrefixes[AlohaOptions] = field(default_factory=AlohaOptions)
    lerobot: OmitArgPrefixes[LeRobotOptions] = field(default_factory=LeRobotOptions)
    egoverse: OmitArgPrefixes[EgoVerseOptions] = field(default_factory=EgoVerseOptions)

    def run(self) -> int:
        from egorecovery.capture.importing import ImportRules, Outcome, import_episodes
        from egorecovery.capture.session_log import adopt_logs
        from egorecovery.cli.console import messages, progress_bar
        from egorecovery.cli.import_report import show, show_findings
        from egorecovery.cli.words import wrapped
        from egorecovery.episodes import AcceptanceLimits, EpisodeStore
        from egorecovery.errors import RecipeError, RecordingError
        from egorecovery.executors import cores
        from egorecovery.storage.drafts import leftovers

        rules = ImportRules(
            acceptance=AcceptanceLimits.changed(self.limit),
            fit=self._picture_fit(),
            hide_embodiment=self.hide_embodiment,
        )
        importer = self._importer()
        if self.dry_run:
            if self.sheet:
                importer.write_sheet(self.sheet)
            really = replace(self, out=self.out or Path("STORE"), dry_run=False, sheet=None)
            show_findings(importer.findings(), rules.fit, self.sheet, command_of("import", really), as_json=self.json)
            return 0
        if self.out is None:
            raise RecipeError("--out is missing: name the store to add to, or use --dry-run")
        if (self.format != "recordings" or self.hands) and not self.json:
            for note in importer.findings().notes:
                messages.print(wrapped(f"note: {note}", messages.file), soft_wrap=True)
        if not importer.places():
            raise RecordingError(f"{', '.join(map(str, self.paths))}: there is no episode in it; nothing was imported")
        imported: list[Imported] = []
        with EpisodeStore.create(self.out).writing() as writer, progress_bar("Importing", "episodes") as advance:
            if writer.recovered:
                messages.print(f"took over from {writer.recovered}, which ended without finishing")
            for path, problem, advice in leftovers(self.out):  # of other computers; own ones are gone by now
                messages.print(wrapped(f"note: {path.name} {problem}; {advice}", messages.file), soft_wrap=True)
            advance(0, len(importer.places()))
            for recording in import_episodes(writer, importer, rules, workers=self.workers or cores()):
                imported.append(recording)
                advance(len(imported), len(importer.places()))
            if self.format == "recordings":
                adopt_logs(writer.store, map(Path, importer.places()))
        if self.format != "recordings" and not self.json:
            reasons = {reason for one in imported for reason in one.reasons}
            for warning in importer.findings().warnings:
                if warning not in reasons:
                    messages.print(wrapped(f"warning: {warning}", messages.file), soft_wrap=True)
        show(imported, self.out, as_json=self.json)
        failed = any(recording.outcome in (Outcome.CLASHING, Outcome.UNREADABLE) for recording in imported)
        return 1 if failed or not any(recording.accepted for recording in imported) else 0

    def _picture_fit(self) -> "PictureFit | None":
        from egorecovery.capture import PictureFit
        from egorecovery.errors import RecipeError

        if self.image_size is not None:
            return PictureFit(self.image_size, self.fit)
        if self.fit != "letterbox":
            raise RecipeError(f"--fit {self.fit} needs --image-size")
        return None

    def _importer(self) -> "Importer":
        from egorecovery.capture.formats.recordings import RecordingFolders
        from egorecovery.capture.formats.registry import open_data_set
        from egorecovery.errors import RecipeError

        # The folder comes first: where it holds other data, the message names --format, which makes the rest right.
        recordings = self.format == "recordings" and self.hands is None
        folders = RecordingFolders.found(self.paths) if recordings else None
        if self.hide_embodiment and self.format != "recordings":
            raise RecipeError(f"--hide-embodiment needs masks beside recordings; {self.format} data has none")
        if folders is not None:
            self._refuse_what_recordings_say(*SAID_BY_RECORDINGS, "camera", "gripper_range", "transform")
        options: dict[str, Any] = {"aloha": self.aloha, "lerobot": self.lerobot, "egoverse": self.egoverse}
        for format in options.keys() - {self.format}:
            if self._given(format):
                raise RecipeError(f"options of {format} are for --format {format}, this is {self.format}")
        if folders is not None:
            return replace(folders, robot=self._robot() if self.robot else None)
        if self.hands is not None:
            return self._hand_clips(self.hands)
        return open_data_set(self.format, self.paths, self._import_as(), options[self.format])

    def _hand_clips(self, hands: Path) -> "Importer":
        from egorecovery.capture.formats.hand_clips import HandClips, clips_among
        from egorecovery.capture.recording_files import is_recording
        from egorecovery.errors import RecipeError

        if self.format != "recordings":
            raise RecipeError(f"--hands goes with pictures, not with --format {self.format}; leave one of them out")
        for said in ("camera", "robot", "gripper_range"):
            if self._given(said):
                raise RecipeError(f"--{said.replace('_', '-')} does not go with --hands; leave it out")
        paths = clips_among(self.paths)
        recorded = [is_recording(path) for path in paths]
        if any(recorded) and not all(recorded):
            raise RecipeError(
                f"{paths[recorded.index(True)]} is a recording, {paths[recorded.index(False)]} is none; "
                f"import them one after the other"
            )
        if all(recorded):
            self._refuse_what_recordings_say(*SAID_BY_RECORDINGS)
        return HandClips.found(paths, None if all(recorded) else self._import_as(), hands, self.transform)

    def _refuse_what_recordings_say(self, *names: str) -> None:
        from egorecovery.errors import RecipeError

        for name in names:
            if self._given(name):
                raise RecipeError(f"--{name.replace('_', '-')}: recordings say it themselves; leave it out")

    def _given(self, name: str) -> bool:
        return getattr(self, name) != getattr(Import(paths=()), name)

    def _import_as(self) -> "ImportAs":
        from egorecovery.capture.formats.camera_names import parsed_cameras
        from egorecovery.capture.formats.grippers import parse_ranges
        from egorecovery.capture.formats.importer import ImportAs, parsed_time
        from egorecovery.episodes import Side, Source, task_named
        from egorecovery.errors import RecipeError

        for said in ("task", "source"):
            if not getattr(self, said):
                raise RecipeError(
                    f"--{said} is missing: {'a clip' if self.hands else self.format + ' data'} does not say it"
                )
        return ImportAs(
            task=task_named(self.task, tuple(Side(side) for side in self.active)),
            source=Source(self.source),
            robot=self._robot(),
            operator=self.operator,
            name=self.name,
            recorded_at=parsed_time(self.recorded_at),
            cameras=parsed_cameras(self.camera),
            grippers=parse_ranges(self.gripper_range),
            transform=self.transform,
        )

    def _robot(self) -> "Robot":
        from functools import partial

        from egorecovery.capture.formats.importer import Robot

        if self.robot is not None:
            from egorecovery.kinematics.robot_file import load_arms

            load_arms(self.robot)  # a file that cannot be used is said now, not once per episode
            return Robot(name=self.robot.name, arms=partial(load_arms, self.robot), given=True)
        from egorecovery.workcell.kinematics import workcell_arms

        return Robot(name=WORKCELL, arms=workcell_arms)
