"""The routes of a scoring session. They never read the key, so they cannot reveal which rollout a video shows."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

from fastapi import APIRouter, HTTPException, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import FileResponse, JSONResponse, Response

from egorecovery.evaluation.rater_agreement import agreement
from egorecovery.storage.typed_json import to_json
from egorecovery.studio.access import Access
from egorecovery.studio.app import local_app
from egorecovery.studio.guard import Guard
from egorecovery.studio.scoring.errors import StaleRating
from egorecovery.studio.scoring.ratings import LONGEST_NAME, LONGEST_NOTE, Line, Rating, Ratings, Role, require_name
from egorecovery.studio.scoring.session import BlindVideo, Session


class Author(BaseModel):
    """A person and their role."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    by: str = Field(min_length=1, max_length=LONGEST_NAME)
    role: Literal["rater", "adjudicator"] = "rater"


class Rated(Author):
    video: str
    verdict: Literal["success", "failure"]
    note: str = Field(default="", max_length=LONGEST_NOTE)
    seen_revision: int = Field(ge=0)


def score_app(session: Session, access: Access, *, rater: str = "") -> Guard:
    """Score and Adjudicate over one session."""
    return local_app(page="score/index.html", routers=[score_router(session, rater)], access=access)


def score_router(session: Session, rater: str) -> APIRouter:
    router = APIRouter(prefix="/api")
    videos = {video.id: video for video in session.plan.videos}

    @router.get("/session")
    def about() -> Response:
        return JSONResponse(_about(session, _now(session), rater))

    @router.get("/queue")
    def queue(
        by: str = Query(min_length=1, max_length=LONGEST_NAME), role: Literal["rater", "adjudicator"] = "rater"
    ) -> Response:
        require_name(by)
        ratings = _now(session)
        if role == "rater":
            return JSONResponse({"videos": [_row(ratings, video, by, role) for video in session.plan.order(by)]})
        unlike = [videos[name] for name in ratings.disagreements] if ratings.adjudicating else []
        return JSONResponse(
            {"videos": [{**_row(ratings, video, by, role), "raters": _raters(ratings, video.id)} for video in unlike]}
        )

    @router.get("/videos/{name}")
    def film(name: str) -> Response:
        if name not in videos:
            raise HTTPException(404, "there is no video of that name in this session")
        return FileResponse(session.video_file(videos[name]), media_type="video/mp4")

    @router.post("/ratings")
    def rate(rated: Rated) -> Response:
        rating = Rating(
            video=rated.video,
            by=rated.by,
            verdict=rated.verdict,
            note=rated.note.strip(),
            role=rated.role,
            at=_clock(),
        )
        try:
            session.journal.append_after(_on(session, lambda now: now.next_rating(rating, rated.seen_revision)))
        except StaleRating as stale:
            row = _row(_now(session), videos[rated.video], rated.by, rated.role)
            return JSONResponse({"error": str(stale), "video": row}, 409)
        return _changed(session, rated.video, rated.by, rated.role)

    @router.post("/undo")
    def undo(author: Author) -> Response:
        line = session.journal.append_after(_on(session, lambda now: now.next_undo(author.by, author.role, _clock())))
        return _changed(session, line["video"], author.by, author.role)

    @router.post("/adjudication")
    def adjudicate(author: Author) -> Response:
        require_name(author.by)
        if not _now(session).adjudicating:
            session.journal.append_after(_on(session, lambda now: now.next_adjudication(author.by, _clock())))
        return JSONResponse(_about(session, _now(session), rater))

    return router


def _changed(session: Session, video: str, by: str, role: Role) -> Response:
    ratings = _now(session)
    rated = next(listed for listed in session.plan.videos if listed.id == video)
    return JSONResponse({"video": _row(ratings, rated, by, role), "session": _about(session, ratings, "")})


def _now(session: Session) -> Ratings:
    return Ratings(session.plan, session.journal.records())


def _on(session: Session, decide: Callable[[Ratings], Line]) -> Callable[[list[Line]], Line]:
    return lambda lines: decide(Ratings(session.plan, lines))


def _clock() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _about(session: Session, ratings: Ratings, rater: str) -> dict[str, Any]:
    """The session's state: counts per rater without verdicts, and agreement once all have finished."""
    plan = session.plan
    return {
        "rater": rater,
        "videos": len(plan.videos),
        "raters_wanted": plan.raters,
        "raters": [{"name": name, "rated": len(ratings.of(name))} for name in ratings.raters],
        "criteria": to_json(plan.criteria),
        "complete": ratings.is_complete,
        "adjudicating": ratings.adjudicating,
        "unblinded": ratings.unblinded,
        "disagreements": len(ratings.disagreements) if ratings.is_complete else None,
        "undecided": sum(ratings.final(video) is None for video in ratings.disagreements),
        "agreement": _agreement(ratings) if ratings.is_complete and plan.raters > 1 else None,
    }


def _agreement(ratings: Ratings) -> dict[str, Any]:
    ours, theirs = (ratings.of(name) for name in ratings.raters)
    names = sorted(ours)
    agreed = agreement([ours[name].verdict for name in names], [theirs[name].verdict for name in names])
    return {"rollouts": agreed.rollouts, "agreed": agreed.agreed, "kappa": agreed.kappa}


def _row(ratings: Ratings, video: BlindVideo, by: str, role: Role) -> dict[str, Any]:
    rating = ratings.of(by, role).get(video.id)
    return {
        "id": video.id,
        "task": video.task,
        "frames": video.facts.frames,
        "rate_hz": video.facts.rate_hz,
        "width": video.facts.width,
        "height": video.facts.height,
        "verdict": rating.verdict if rating else None,
        "note": rating.note if rating else "",
        "by": rating.by if rating else None,
        "revision": ratings.revision(by, video.id, role),
    }


def _raters(ratings: Ratings, video: str) -> list[dict[str, str]]:
    return [{"name": rating.by, "verdict": rating.verdict, "note": rating.note} for rating in ratings.on(video)]
