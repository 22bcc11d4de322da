"""The state of ratings as a pure function of the journal's lines: ratings, open videos, decisions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from egorecovery.errors import StoreDamaged
from egorecovery.storage.typed_json import from_json, to_json
from egorecovery.studio.scoring.errors import ScoringError, StaleRating
from egorecovery.studio.scoring.session import Plan

Verdict = Literal["success", "failure"]
Role = Literal["rater", "adjudicator"]
LONGEST_NAME, LONGEST_NOTE = 80, 2000


@dataclass(frozen=True, kw_only=True)
class Rating:
    """One person's rating of one video."""

    video: str
    by: str
    verdict: Verdict
    note: str = ""
    role: Role = "rater"
    at: str = ""  # ISO 8601, from the caller's clock
    revision: int = 0  # of this person's rating of this video; 1 for the first, set on saving


class Saved(TypedDict):
    """What a line of a rating always has, though a `Rating` on its way to the journal may lack it."""

    role: Role
    at: str
    revision: int


class Undo(TypedDict):
    """A line that takes back a person's last rating."""

    kind: Literal["undo"]
    video: str
    by: str
    role: Role
    at: str
    revision: int


Line = dict[str, Any]  # {"kind": "rating", ...Rating} | {"kind": "undo", ...} | {"kind": ADJUDICATING | UNBLINDED, ...}
ADJUDICATING, UNBLINDED = "adjudication begun", "unblinded"


_Person = tuple[Role, str]


def _person(role: Role, by: str) -> _Person:
    """The person behind a line. All adjudicators count as one person, because they decide together."""
    return role, by if role == "rater" else ""


class Ratings:
    """The state of a session after its journal's lines."""

    def __init__(self, plan: Plan, lines: Sequence[Line]) -> None:
        self.plan = plan
        self._ids = {video.id for video in plan.videos}
        self._done: dict[_Person, list[Rating]] = {}  # without undone ratings
        self._revisions: dict[tuple[_Person, str], int] = {}
        self.adjudicating = self.unblinded = False
        for number, line in enumerate(lines, start=1):
            try:
                self._add(line, f"line {number} of the ratings: ")
            except (IndexError, KeyError) as error:
                raise StoreDamaged(
                    f"line {number} of the ratings is none of this session ({error!r:.120}); copy the session again"
                ) from None

    def _add(self, line: Line, where: str) -> None:
        kind = line["kind"]
        if kind in (ADJUDICATING, UNBLINDED):
            self.adjudicating |= kind == ADJUDICATING
            self.unblinded |= kind == UNBLINDED
            return
        advice = "copy the session again"
        if kind == "rating":
            from_json(Saved, line, where, StoreDamaged, advice)
            fields = {name: value for name, value in line.items() if name != "kind"}
            rating = from_json(Rating, fields, where, StoreDamaged, advice)
            self._said_by(rating.role, rating.by, rating.video, rating.revision).append(rating)
        else:
            undo: Undo = from_json(Undo, line, where, StoreDamaged, advice)
            self._said_by(undo["role"], undo["by"], undo["video"], undo["revision"]).pop()

    def _said_by(self, role: Role, by: str, video: str, revision: int) -> list[Rating]:
        person = _person(role, by)
        self._revisions[person, video] = revision
        return self._done.setdefault(person, [])

    @property
    def raters(self) -> list[str]:
        """Raters in the order of their first ratings. Those who undid all of theirs are left out."""
        return [name for (role, name), done in self._done.items() if role == "rater" and done]

    def of(self, by: str, role: Role = "rater") -> dict[str, Rating]:
        """A person's latest rating of each video."""
        return {rating.video: rating for rating in self._done.get(_person(role, by), ())}

    def revision(self, by: str, video: str, role: Role = "rater") -> int:
        """The revision of a person's rating; 0 if there is none."""
        return self._revisions.get((_person(role, by), video), 0)

    def on(self, video: str) -> list[Rating]:
        """The raters' ratings of a video."""
        return [mine[video] for name in self.raters if video in (mine := self.of(name))]

    def decision(self, video: str) -> Rating | None:
        """The adjudicators' latest rating of a video."""
        return self.of("", "adjudicator").get(video)

    @property
    def is_complete(self) -> bool:
        """Whether all required raters have rated every video."""
        return all(len(self.on(video)) == self.plan.raters for video in self._ids)

    @property
    def disagreements(self) -> list[str]:
        return [video.id for video in self.plan.videos if len({rating.verdict for rating in self.on(video.id)}) > 1]

    def final(self, video: str) -> Verdict | None:
        """The raters' verdict if they agree, otherwise the adjudicators'; None while there is none."""
        ratings = self.on(video)
        if len(ratings) < self.plan.raters:
            return None
        if len({rating.verdict for rating in ratings}) == 1:
            return ratings[0].verdict
        decided = self.decision(video)
        return decided.verdict if decided else None

    def lacking(self) -> list[str]:
        """What is missing before an export, as sentences."""
        total = len(self._ids)
        counts = [(name, len(self.of(name))) for name in self.raters]
        sentences = [f"{name} has rated {count} of {total} videos" for name, count in counts if count < total]
        absent = self.plan.raters - len(self.raters)
        sentences += [f"{absent} of {self.plan.raters} raters have not begun"] if absent > 0 else []
        undecided = sum(self.final(video) is None for video in self.disagreements)
        return sentences + ([f"{undecided} disagreements are not adjudicated"] if undecided and not sentences else [])

    # Lines that may be appended next. Each method returns the line or raises an error.

    def next_rating(self, rating: Rating, seen_revision: int) -> Line:
        self._require_video(rating.video)
        _require_words(rating)
        self._require_open(rating.role, rating.by, rating.video)
        current = self.revision(rating.by, rating.video, rating.role)
        if current != seen_revision:
            theirs = self.of(rating.by, rating.role).get(rating.video)
            saved = f"{theirs.verdict!r}" if theirs else "no rating"
            raise StaleRating(
                f"{rating.by} has changed this video's rating to {saved} in another window; it is shown now: rate "
                "again if you want another"
            )
        return {"kind": "rating", **to_json(rating), "revision": current + 1}

    def next_undo(self, by: str, role: Role, at: str) -> Line:
        """Undoes a person's latest rating. Their earlier rating of the video is valid again."""
        done = self._done.get(_person(role, by), [])
        if not done:
            raise ScoringError("there is nothing to undo")
        last = done[-1]
        self._require_open(role, by, last.video)
        revision = self.revision(by, last.video, role) + 1
        return {"kind": "undo", "role": role, "by": by, "video": last.video, "at": at, "revision": revision}

    def next_adjudication(self, by: str, at: str) -> Line:
        """Closes the ratings. From now on raters may see each other's ratings."""
        if self.plan.raters < 2:
            raise ScoringError("this session has one rater, so there is nothing to adjudicate")
        if not self.is_complete:
            raise ScoringError(f"adjudication begins when all videos are rated: {'; '.join(self.lacking())}")
        return {"kind": ADJUDICATING, "by": by, "at": at}

    def next_unblinding(self, at: str) -> Line:
        if lacking := self.lacking():
            raise ScoringError(f"the session cannot be unblinded yet: {'; '.join(lacking)}")
        return {"kind": UNBLINDED, "at": at}

    def _require_video(self, video: str) -> None:
        if video not in self._ids:
            raise ScoringError("there is no video of that name in this session")

    def _require_open(self, role: Role, by: str, video: str) -> None:
        if self.unblinded:
            raise ScoringError("the session has been unblinded: its ratings are closed")
        if role == "adjudicator":
            if not self.adjudicating:
                raise ScoringError("adjudication has not begun")
            if video not in self.disagreements:
                raise ScoringError("the raters agree on this video: there is nothing to adjudicate")
        elif self.adjudicating:
            raise ScoringError("adjudication has begun: ratings are closed")
        elif by not in self.raters and len(self.raters) >= self.plan.raters:
            names = " and ".join(self.raters)
            raise ScoringError(f"this session has its {self.plan.raters} raters, {names}; somebody else can adjudicate")


def _require_words(rating: Rating) -> None:
    require_name(rating.by)
    if len(rating.note) > LONGEST_NOTE:
        raise ScoringError(f"a note has at most {LONGEST_NOTE} characters, got {len(rating.note)}")


def require_name(name: str) -> None:
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME or not name.isprintable():
        raise ScoringError(f"a rater's name has 1 to {LONGEST_NAME} visible characters, got {name!r}")
