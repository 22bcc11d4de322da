"""Files to and from a hub: those that belong to a store, a run or a checkpoint, and no others."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from glob import escape
from pathlib import Path, PurePosixPath
from typing import Literal

os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")  # nothing is sent but what the user asked to send

from huggingface_hub import CommitOperationAdd, HfApi
from huggingface_hub.errors import (
    HFValidationError,
    HTTPError,  # pyright: ignore[reportPrivateImportUsage] - of httpx or httpx2, by its version
    LocalTokenNotFoundError,
    RepositoryNotFoundError,
)

from egorecovery.errors import EgoRecoveryError
from egorecovery.sharing.cards import card_of
from egorecovery.storage.containment import (
    exists,
    files_below,
    inside,
    is_relative_name,
    remove,
    special_files,
    tree_below,
)

Kind = Literal["store", "run", "checkpoint"]
BELONGS: dict[Kind, tuple[str, ...]] = {
    "store": (
        "store.json",
        "episodes/*",
        "labels/*",
        "collection.jsonl",
        "collection.jsonl.anchor",
        "annotations.jsonl",
        "annotations.jsonl.anchor",
    ),
    "run": ("recipe.json", "log.jsonl", "manifest.json", "training.json", "checkpoints/*", "results.jsonl"),
    "checkpoint": ("checkpoint.json", "*.safetensors"),
}
MARKS: dict[Kind, str] = {"store": "store.json", "run": "checkpoints/", "checkpoint": "checkpoint.json"}
FILES_PER_COMMIT = 500
CARD = "README.md"


class SharingError(EgoRecoveryError):
    """A folder that cannot be pushed, a repository that cannot be pulled, or a hub that says no."""


@dataclass(frozen=True)
class Pushed:
    url: str
    files: int


@dataclass(frozen=True)
class Pulled:
    kind: Kind
    files: int


def kind_of(folder: Path) -> Kind:
    for kind, mark in MARKS.items():
        if exists(folder / mark):
            return kind
    if not folder.exists():
        raise SharingError(f"{folder} does not exist; name a store, training run or checkpoint")
    raise SharingError(
        f"{folder} is no store, training run or checkpoint (none of {', '.join(MARKS.values())} is there); name one"
    )


def repository_type(kind: Kind) -> str:
    return "dataset" if kind == "store" else "model"


def files_to_push(folder: Path, kind: Kind) -> list[str]:
    """What belongs to it; of a run only the latest checkpoint."""
    strange = special_files(folder)
    if strange:
        raise SharingError(f"{strange[0]} is a link or a special file: it is not pushed; remove it, or copy the file")
    names = [name for name in files_below(folder) if _belongs(name, kind)]
    if kind != "run":
        return sorted(names)
    from egorecovery.policy.checkpoint import latest  # here: a store is pushed without torch

    last = latest(folder / "checkpoints")
    if last is None:
        raise SharingError(f"{folder} has no checkpoint yet: train first")
    return sorted(name for name in names if not _is_other_checkpoint(name, last.name))


def push(
    folder: Path,
    repository: str,
    *,
    private: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Pushed:
    """Made if there is none. In commits of many files; the card comes last, when all that it describes is there."""
    kind = kind_of(folder)
    names, api = files_to_push(folder, kind), HfApi()
    with explained(repository):
        made = api.create_repo(repository, repo_type=repository_type(kind), private=private, exist_ok=True)
        for first in range(0, len(names), FILES_PER_COMMIT):
            part = names[first : first + FILES_PER_COMMIT]
            _commit(api, repository, kind, {name: inside(folder, *name.split("/")) for name in part})
            progress(first + len(part), len(names))
        _commit(api, repository, kind, {CARD: card_of(folder, kind, repository).encode()})
    return Pushed(url=str(made), files=len(names))


def _commit(api: HfApi, repository: str, kind: Kind, files: "dict[str, Path] | dict[str, bytes]") -> None:
    operations = [CommitOperationAdd(path_in_repo=name, path_or_fileobj=source) for name, source in files.items()]
    api.create_commit(
        repository,
        operations,
        commit_message=f"{kind.capitalize()} of EgoRecovery: {len(operations)} files",
        repo_type=repository_type(kind),
    )


def pull(repository: str, folder: Path, check: Callable[[Path], None], *, revision: str | None = None) -> Pulled:
    """Into a new folder, which appears only when `check` has found nothing wrong with what came.

    Until then it lies in a draft beside it, and a pull that was interrupted goes on there.
    """
    if folder.exists():
        raise SharingError(f"{folder} exists; name a new folder with --out")
    api = HfApi()
    with explained(repository):
        type_, names = _listed(api, repository, revision)
        kind = _kind_among(names)
        if kind is None or repository_type(kind) != type_:
            raise SharingError(
                f"{repository} holds no store, training run or checkpoint of EgoRecovery (none of "
                f"{', '.join(MARKS.values())} is there)"
            )
        wanted = [name for name in names if _belongs(name, kind)]
        strange = [name for name in names if not is_relative_name(name) or "\\" in name]
        if strange:
            raise SharingError(
                f"{repository}: {strange[0]!r} is no name of a file below its folder; nothing was pulled"
            )
        draft = folder.with_name(f".{folder.name}.pulling")
        draft.parent.mkdir(parents=True, exist_ok=True)
        api.snapshot_download(
            repository,
            repo_type=type_,
            revision=revision,
            local_dir=draft,
            allow_patterns=[escape(name) for name in wanted],  # names, whatever letters are in them
            max_workers=4,
        )
    remove(draft / ".cache")
    try:
        if strange := special_files(draft):
            raise SharingError(f"{strange[0]} is a link or a special file; nothing was pulled")
        _keep_only(wanted, draft)
        check(draft)
    except EgoRecoveryError:
        remove(draft)
        raise
    os.rename(draft, folder)
    return Pulled(kind=kind, files=len(wanted))


def _keep_only(names: list[str], draft: Path) -> None:
    """An interrupted pull may have been of another repository, or of an older revision."""
    kept = {".", *names, *(str(folder) for name in names for folder in PurePosixPath(name).parents)}
    for name in sorted(set(tree_below(draft)) - kept, reverse=True):  # files before their folders
        remove(draft / name)


def _kind_among(names: list[str]) -> Kind | None:
    for kind, mark in MARKS.items():
        if any(name.startswith(mark) for name in names):
            return kind
    return None


def _listed(api: HfApi, repository: str, revision: str | None) -> tuple[str, list[str]]:
    """A repository of models or, where there is none of that id, of data."""
    try:
        return "model", api.list_repo_files(repository, repo_type="model", revision=revision)
    except RepositoryNotFoundError:
        return "dataset", api.list_repo_files(repository, repo_type="dataset", revision=revision)


def _belongs(name: str, kind: Kind) -> bool:
    return any(fnmatch(name, pattern) for pattern in BELONGS[kind]) and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_other_checkpoint(name: str, last: str) -> bool:
    return name.startswith("checkpoints/") and not name.startswith(f"checkpoints/{last}/")


@contextmanager
def explained(repository: str) -> Iterator[None]:
    """What a hub or the way to it says, as one message."""
    try:
        yield
    except HFValidationError as error:
        raise SharingError(f"{repository!r} is no id of a repository: write NAME/REPOSITORY ({error})") from None
    except LocalTokenNotFoundError:
        raise SharingError("the hub asks who you are: log in with 'hf auth login', or set HF_TOKEN") from None
    except RepositoryNotFoundError:
        raise SharingError(
            f"the hub has no repository {repository}, or you may not see it: check the id; log in with 'hf auth login'"
        ) from None
    except (HTTPError, ConnectionError) as error:
        first = (str(error).strip() or repr(error)).splitlines()[0]
        raise SharingError(
            f"{repository}: the hub cannot be used: {first}; check the network, HF_ENDPOINT and 'hf auth login', then "
            "run the same command again"
        ) from None
