"""`egorecovery push`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from egorecovery.cli.words import command, require_id


@dataclass(frozen=True, kw_only=True)
class Push:
    """Push a store, a training run or a checkpoint to a Hugging Face hub, with a card that describes it.

    Log in first ('hf auth login', or HF_TOKEN). A run goes with its latest checkpoint. What is damaged is not pushed.
    """

    EXAMPLE: ClassVar = "push runs/policy me/cube-policy"

    folder: Positional[Path]
    """The store, run or checkpoint."""
    repository: Positional[Annotated[str, arg(metavar="NAME/REPOSITORY")]]
    """Its id on the hub, as in me/policy; made if there is none."""
    private: bool = False
    """Where the repository is made: only you see it."""
    card_only: bool = False
    """Print the card that would be written, and push nothing."""

    def run(self) -> int:
        require_id(self.repository)
        from egorecovery.cli.console import console, progress_bar
        from egorecovery.cli.verify import require_undamaged
        from egorecovery.sharing import card_of, kind_of, push

        kind = kind_of(self.folder)
        if self.card_only:
            print(card_of(self.folder, kind, self.repository), end="")
            return 0
        require_undamaged(self.folder)
        with progress_bar(f"Pushing the {kind}", "files") as advance:
            pushed = push(self.folder, self.repository, private=self.private, progress=advance)
        console.print(f"pushed: {pushed.files} files and the card to {pushed.url}", soft_wrap=True)
        console.print(f"next: {command('pull', self.repository, '--out', 'COPY')}", soft_wrap=True)
        return 0
