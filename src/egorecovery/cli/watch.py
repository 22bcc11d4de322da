"""`egorecovery watch`."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from tyro.conf import Positional

from egorecovery.cli.words import command
from egorecovery.errors import StudioError


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Watch evaluated rollouts in the browser, with gate and intent under the film.

    RUNS: folders or result files of evaluate --film, of experiment --films, or of score --export.
    """

    EXAMPLE: ClassVar = "watch runs/policy"

    runs: Positional[tuple[Path, ...]]
    """What to watch; several are shown as one list."""
    host: str = "127.0.0.1"
    """The address to listen on. One that others can reach needs --token-file."""
    port: int | None = None
    """The port to listen on; 8765, or a free one where that is taken, if left out."""
    no_browser: bool = False
    """Print the address and do not open a browser."""
    token_file: Path | None = None
    """A file with the token that the address carries, instead of a random one."""

    def run(self) -> int:
        from egorecovery.cli.console import console, end_interrupted_line
        from egorecovery.evaluation.rollout_videos import filmed_beside, rollout_videos

        try:
            from egorecovery.studio.server import Serving, serve
            from egorecovery.studio.watching import watch_app
        except ImportError as error:
            raise StudioError(f"the studio needs {error.name}: pip install 'egorecovery[studio]'") from None
        rollouts = []
        for run in self.runs:
            if not run.exists():
                raise StudioError(f"{run} does not exist; name a folder or a result file of an evaluation")
            if (run / "store.json").exists():
                raise StudioError(
                    f"{run} is a store of episodes: '{command('annotate', run)}' shows them; to watch rollouts, name a "
                    "run that was evaluated"
                )
            videos = rollout_videos(run)
            rollouts += videos.rollouts
            for sentence in videos.left_out:
                console.print(f"left out: {sentence}", soft_wrap=True)
        if not rollouts:
            beside = [path for run in self.runs for path in filmed_beside(run)]
            instead = f"'{command('watch', beside[0])}' shows the films beside it; or " if beside else ""
            raise StudioError(
                f"{', '.join(map(str, self.runs))}: there is no film of a rollout on record; {instead}evaluate with "
                "--film N, or run the experiment with --films N"
            )
        serving = Serving(host=self.host, port=self.port, token_file=self.token_file, browser=not self.no_browser)

        def announce(address: str) -> None:
            console.print(f"{len(rollouts)} rollouts to watch at", soft_wrap=True)
            console.print(address, soft_wrap=True)
            console.print("The address carries a token: keep it to yourself. Ctrl-C ends.")

        serve(lambda access: watch_app(rollouts, access), serving, announce)
        end_interrupted_line()
        console.print("stopped; nothing was written")
        console.print(f"next: {command('score', *self.runs)}", soft_wrap=True)
        return 0
