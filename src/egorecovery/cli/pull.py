"""`egorecovery pull`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from tyro.conf import Positional, arg

from egorecovery.cli.words import CLIENT_RATES, command, require_id


@dataclass(frozen=True, kw_only=True)
class Pull:
    """Pull a store, a training run or a checkpoint from a Hugging Face hub.

    Every byte of it is verified before the folder appears; what is damaged is not taken (docs/security.md).
    """

    EXAMPLE: ClassVar = "pull me/cube-policy --out runs/pulled"

    repository: Positional[Annotated[str, arg(metavar="NAME/REPOSITORY")]]
    """Its id on the hub, as in me/policy."""
    out: Path
    """The folder to make."""
    revision: str | None = None
    """A branch, a tag or a commit; main if not given."""

    def run(self) -> int:
        require_id(self.repository)
        from egorecovery.cli.console import console, messages
        from egorecovery.cli.verify import require_undamaged
        from egorecovery.sharing import pull

        messages.print(f"pulling {self.repository} ...", soft_wrap=True)
        pulled = pull(self.repository, self.out, require_undamaged, revision=self.revision)
        console.print(f"pulled and verified: {pulled.kind}, {pulled.files} files: {self.out}", soft_wrap=True)
        if pulled.kind == "store":
            console.print(f"next: {command('inspect', self.out)}", soft_wrap=True)
            return 0
        console.print(CLIENT_RATES, soft_wrap=True)
        console.print(f"next: {command('serve', self.out, '--client-hz', 25)}", soft_wrap=True)
        return 0
