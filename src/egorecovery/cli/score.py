"""`egorecovery score`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tyro.conf import Positional

from egorecovery.cli.extras import require
from egorecovery.cli.words import command
from egorecovery.errors import StudioError

if TYPE_CHECKING:
    from egorecovery.evaluation import RolloutRecord
    from egorecovery.studio.scoring import Session, Unblinded


@dataclass(frozen=True, kw_only=True)
class Score:
    """Score rollout videos blind in the browser: of evaluate --film, of an experiment, or of a real robot.

    RUN_OR_VIDEOS: result folders with films, a CSV table of videos (columns video, task, method, start, regime), a
    folder of METHOD/TASK-REGIME-START.mp4; or a scoring session that exists already.
    """

    EXAMPLE: ClassVar = "score runs/policy --session scoring"
    HEADINGS: ClassVar = {
        "session": "a new session",
        "export": "later",
        "rater": "the page",
    }

    run_or_videos: Positional[tuple[Path, ...]]
    """What to score, or a scoring session that exists."""
    session: Path = Path("scoring")
    """The folder to make: neutral copies of the videos, the ratings, and the key."""
    raters: int = 2
    """1 or 2; where two disagree, somebody adjudicates."""
    seed: int = 0
    """Decides in which order each rater sees the videos."""
    key: Path | None = None
    """Where the key is, if not in the session: keep it from the raters and give it again for --export."""
    criteria: Path | None = None
    """A JSON file with success criteria of your own tasks."""
    export: Path | None = None
    """Unblind: write verdicts, agreement and a table into this new folder, and close the ratings for good."""
    prepare: bool = False
    """Make the session and end, for example to copy it to a rater's machine."""
    rater: str | None = None
    """Your name; the page asks for it otherwise."""
    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs --token-file."""
    port: int | None = None
    """The port to listen on; 8765, or a free one where that is taken, if left out."""
    no_browser: bool = False
    """Print the address and do not open a browser."""
    token_file: Path | None = None
    """A file with the token that the address carries, instead of a random one."""

    def run(self) -> int:
        if self.export is None and not self.prepare:
            require("fastapi", "uvicorn")  # before a session is made
        session = self._session()
        if self.export is not None:
            return self._export(session, self.export)
        if self.prepare:
            return 0
        return self._serve(session)

    def _session(self) -> "Session":
        """The one that is named, or a new one of the videos that are."""
        from egorecovery.cli.console import console, progress_bar
        from egorecovery.studio.scoring import (
            ScoringError,
            clips_of,
            create_session,
            criteria_for,
            is_session,
            open_session,
        )

        if len(self.run_or_videos) == 1 and is_session(self.run_or_videos[0]):
            return open_session(self.run_or_videos[0])
        if self.export is not None:
            raise ScoringError("--export unblinds a session: name its folder alone, as in 'score SESSION --export OUT'")
        if is_session(self.session):
            raise ScoringError(
                f"{self.session} is a scoring session already: '{command('score', self.session)}' goes on with it; "
                "for other videos name a new folder with --session"
            )
        clips, notes = clips_of(self.run_or_videos)
        criteria = criteria_for({clip.rollout.task for clip in clips}, self.criteria)
        with progress_bar("Copying", "videos") as advance:
            session = create_session(
                self.session,
                clips,
                criteria=criteria,
                created_at=_now(),
                seed=self.seed,
                raters=self.raters,
                key_file=self.key,
                on_progress=advance,
            )
        for note in notes:
            console.print(f"left out: {note}", soft_wrap=True)
        console.print(f"session: {session.root}, {len(clips)} videos under random names", soft_wrap=True)
        console.print(f"key: {self.key or session.root / 'key.json'}; do not open it before the export", soft_wrap=True)
        if self.prepare:
            console.print(f"next: {command('score', session.root)}", soft_wrap=True)
        return session

    def _serve(self, session: "Session") -> int:
        from egorecovery.cli.console import console, end_interrupted_line
        from egorecovery.studio.scoring import Ratings

        try:
            from egorecovery.studio.scoring.routes import score_app
            from egorecovery.studio.server import Serving, serve
        except ImportError as error:
            raise StudioError(f"the studio needs {error.name}: pip install 'egorecovery[studio]'") from None
        serving = Serving(host=self.host, port=self.port, token_file=self.token_file, browser=not self.no_browser)

        def announce(address: str) -> None:
            console.print(f"{len(session.plan.videos)} videos to score at", soft_wrap=True)
            console.print(address, soft_wrap=True)
            console.print("The address carries a token: keep it to yourself. Ctrl-C ends.")

        serve(lambda access: score_app(session, access, rater=self.rater or ""), serving, announce)
        end_interrupted_line()
        lacking = Ratings(session.plan, session.journal.records()).lacking()
        console.print(f"stopped; ratings are in {session.journal.path}", soft_wrap=True)
        for sentence in lacking:
            console.print(f"open: {sentence}", soft_wrap=True)
        key = ["--key", self.key] if self.key else []
        more = [] if lacking else ["--export", f"{session.root}-export", *key]
        console.print(f"next: {command('score', session.root, *more)}", soft_wrap=True)
        return 0

    def _export(self, session: "Session", out: Path) -> int:
        from egorecovery.cli.console import console
        from egorecovery.studio.scoring import ScoringError, unblind, write_export

        if out.exists():
            raise ScoringError(f"{out} exists already; choose another folder for the export")
        unblinded = unblind(session, _now(), self.key)
        written = write_export(unblinded, out)
        show_verdicts(unblinded)
        for path in written:
            console.print(f"wrote: {path}", soft_wrap=True)
        console.print(f"next: {command('watch', out)}", soft_wrap=True)
        return 0


def show_verdicts(unblinded: "Unblinded") -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from egorecovery.cli.console import console
    from egorecovery.evaluation import rates
    from egorecovery.evaluation.rollout_groups import policy_namer

    named = policy_namer(unblinded.records)

    def who(record: "RolloutRecord") -> tuple[str, str, str]:
        return record.task, record.regime, named(record)

    table = Table(title="verdicts of people", title_justify="left", box=SIMPLE)
    for column in ("task", "regime", "method", "success", "rate, 95% Wilson"):
        table.add_column(column, justify="right" if column.startswith(("success", "rate")) else "left")
    for group, rate in rates(unblinded.records, by=who).items():
        count, interval = str(rate).split("  ")
        table.add_row(*group, count, interval)
    console.print(table)
    found = unblinded.agreements
    if found.raters:
        console.print(f"between raters: {found.raters}", soft_wrap=True)
    if found.automatic:
        console.print(f"with the automatic verdict: {found.automatic}", soft_wrap=True)
        for name, one in found.automatic_by_rater.items():
            console.print(f"  {name} alone: {one}", soft_wrap=True)
    for one in found.unlike:
        console.print(f"  unlike: {one.source}, people say {one.record.outcome}", soft_wrap=True)


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).isoformat(timespec="seconds")
