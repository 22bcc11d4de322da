"""A scoring session on disk. What raters may see is kept apart from the key.

SESSION/plan.json       sealed: videos by random names, tasks, written criteria, seed of the order, digest of the key
        videos/ID.mp4   neutral copies
        ratings.jsonl   journal: every rating, undo, adjudication and the unblinding, kept forever
        key.json        sealed: which rollout each video shows. Read at export and never before; may lie elsewhere
"""

import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from egorecovery.errors import StoreDamaged
from egorecovery.randomness import generator_for
from egorecovery.storage.atomic_io import sync_directory, sync_tree, write_file
from egorecovery.storage.checksummed_json import digest, read_checksummed, with_checksum
from egorecovery.storage.containment import inside, is_file
from egorecovery.storage.drafts import draft_of, remove_drafts_of_the_dead
from egorecovery.storage.journal import Journal
from egorecovery.storage.typed_json import Must, between, from_json, to_json
from egorecovery.studio.scoring.clip import Clip
from egorecovery.studio.scoring.criteria import Criteria
from egorecovery.studio.scoring.errors import ScoringError
from egorecovery.studio.scoring.neutral_video import VideoFacts, neutral_copy

SCHEMA = 1
PLAN, KEY, RATINGS, VIDEOS = "plan.json", "key.json", "ratings.jsonl", "videos"
ID_BYTES = 6
_ID = re.compile(r"[0-9a-f]{12}")
MOST_RATERS = 2
Progress = Callable[[int, int], None]
_Count = Annotated[int, between(0, (1 << 63) - 1)]


@dataclass(frozen=True, kw_only=True)
class BlindVideo:
    """The facts about a video that a rater may see."""

    id: Annotated[str, Must("of 12 hexadecimal digits", lambda name: bool(_ID.fullmatch(name)))]
    task: str
    facts: VideoFacts
    bytes: _Count


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The videos, number of raters and criteria of a session."""

    created_at: str
    seed: _Count  # of the order
    raters: Annotated[int, between(1, MOST_RATERS)]
    criteria: Mapping[str, Criteria]
    videos: tuple[BlindVideo, ...]
    key_digest: str  # the key holds a random number, so that its content cannot be found by trial

    def record(self) -> dict[str, Any]:
        return {**to_json(self), "schema": SCHEMA}

    @classmethod
    def of(cls, record: Mapping[str, Any], where: str) -> "Plan":
        """Refused where nobody's program wrote it: ids become names of files, numbers go to a player."""
        fields = {name: value for name, value in record.items() if name != "schema"}
        plan = from_json(cls, fields, f"{where}: ", StoreDamaged, "copy the session again")
        if len({video.id for video in plan.videos}) != len(plan.videos):
            raise StoreDamaged(f"{where}: two videos have one id; copy the session again")
        if missing := {video.task for video in plan.videos} - plan.criteria.keys():
            raise StoreDamaged(f"{where}: there are no criteria for {min(missing)}; copy the session again")
        return plan

    def order(self, rater: str) -> list[BlindVideo]:
        """A rater's order of videos. It differs by rater, to spread fatigue, and goes task by task.

        It is derived from the random names, so the seed does not reveal which rollout a video shows.
        """
        rng = generator_for(seed=self.seed, purpose="order of scoring", rater=rater)
        tasks = [str(task) for task in rng.permutation(sorted({video.task for video in self.videos}))]
        shuffled = [self.videos[place] for place in rng.permutation(len(self.videos))]
        return sorted(shuffled, key=lambda video: tasks.index(video.task))


@dataclass(frozen=True, kw_only=True)
class Session:
    """An open session, without the key."""

    root: Path
    plan: Plan

    @property
    def journal(self) -> Journal:
        return Journal(self.root / RATINGS)

    def video_file(self, video: BlindVideo) -> Path:
        return inside(self.root, VIDEOS, f"{video.id}.mp4")


def is_session(path: Path) -> bool:
    return (path / PLAN).is_file() and (path / VIDEOS).is_dir()


def open_session(root: Path) -> Session:
    if not is_session(root):
        raise ScoringError(f"{root} is not a scoring session: it has no {PLAN} and {VIDEOS}/")
    record = read_checksummed(inside(root, PLAN))
    if record.get("schema") != SCHEMA:
        raise ScoringError(f"{root / PLAN} has schema {record.get('schema')}, this version reads {SCHEMA}")
    session = Session(root=root, plan=Plan.of(record, str(root / PLAN)))
    for video in session.plan.videos:
        path = session.video_file(video)
        if not is_file(path) or path.stat().st_size != video.bytes:
            raise StoreDamaged(f"{path} is missing or not as it was written; copy the whole session again")
    return session


def create_session(
    root: Path,
    clips: Sequence[Clip],
    *,
    criteria: Mapping[str, Criteria],
    created_at: str,
    seed: int = 0,
    raters: int = MOST_RATERS,
    key_file: Path | None = None,
    on_progress: Progress = lambda done, total: None,
) -> Session:
    """Creates a session with copies of the videos under random names. `key_file` keeps the key away from raters."""
    if not 1 <= raters <= MOST_RATERS:
        raise ScoringError(f"a session has one rater or two, got {raters}")
    key_file = key_file or root / KEY
    for path in (root, key_file):
        if path.exists():
            raise ScoringError(f"{path} exists already; choose another name, or open the session that is there")
    names = _random_names(clips)
    with whole_folder(root) as draft:
        (draft / VIDEOS).mkdir()
        videos: list[BlindVideo] = []
        for done, name in enumerate(sorted(names)):  # sorted, so that file times reveal nothing
            on_progress(done, len(names))
            videos.append(_copy(name, names[name], draft))
        on_progress(len(names), len(names))
        key = _key(names, {video.id: video.facts for video in videos})
        plan = Plan(
            created_at=created_at,
            seed=seed,
            raters=raters,
            criteria=criteria,
            videos=tuple(videos),
            key_digest=digest(key),
        )
        write_file(draft / PLAN, with_checksum(plan.record()))
        _write_key(draft / KEY if key_file == root / KEY else key_file, key)
    return Session(root=root, plan=plan)


def read_key(session: Session, key_file: Path | None = None) -> dict[str, Any]:
    """Reads which rollout each video shows. Called only by an export."""
    path = key_file or session.root / KEY
    if not path.is_file():
        raise ScoringError(
            f"there is no key at {path}; unblinding needs the key.json that was made with the session; name it with "
            "--key"
        )
    key = read_checksummed(path)
    if digest(key) != session.plan.key_digest:
        raise ScoringError(f"{path} is the key of another session, or was changed; name the one made with this session")
    return key["videos"]


def _random_names(clips: Sequence[Clip]) -> dict[str, Clip]:
    """Random names that no seed can reproduce."""
    names: dict[str, Clip] = {}
    for clip in clips:
        while (name := secrets.token_hex(ID_BYTES)) in names:
            pass
        names[name] = clip
    return names


def _copy(name: str, clip: Clip, draft: Path) -> BlindVideo:
    target = draft / VIDEOS / f"{name}.mp4"
    facts = neutral_copy(clip.video, target, clip.crop_top_px)
    return BlindVideo(id=name, task=clip.rollout.task, facts=facts, bytes=target.stat().st_size)


def _key(names: Mapping[str, Clip], facts: Mapping[str, VideoFacts]) -> dict[str, Any]:
    videos = {}
    for name, clip in names.items():
        rollout = clip.rollout.record()
        rollout["duration_s"] = rollout["duration_s"] or round(facts[name].duration_s, 3)
        videos[name] = {"source": str(clip.video.absolute()), "automatic": clip.automatic, "rollout": rollout}
    return {"schema": SCHEMA, "random": secrets.token_hex(32), "videos": videos}


def _write_key(path: Path, key: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, with_checksum(key))
    path.chmod(0o600)


@contextmanager
def whole_folder(root: Path) -> Iterator[Path]:
    """A draft folder that is renamed to `root` at the end, or removed after an error."""
    root.parent.mkdir(parents=True, exist_ok=True)
    remove_drafts_of_the_dead(root.parent, of=root.name)
    draft = draft_of(root)
    draft.mkdir()
    try:
        yield draft
        sync_tree(draft)
        draft.rename(root)
        sync_directory(root.parent)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
