"""The routes of Browse and Annotate."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Depends, Query, WebSocket
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import JSONResponse, Response

from egorecovery.episodes import RATE_HZ, EpisodeStore
from egorecovery.recovery import Quality, propose
from egorecovery.studio.access import Access
from egorecovery.studio.annotating.agreement import agreements, boundary_noise
from egorecovery.studio.annotating.changes import Changes
from egorecovery.studio.annotating.clip_motion import ClipMotion, clip_motion
from egorecovery.studio.annotating.clips import MAX_FRAMES, ClipIndex
from egorecovery.studio.annotating.desk import CONTENT_LETTERS, Conflict, Desk, Entry, Viewer, plain
from egorecovery.studio.app import local_app
from egorecovery.studio.guard import Guard

MAX_NAME, MAX_NOTE = 80, 2000  # characters


class Change(BaseModel):
    """Fields of every change: the annotator, and the revision that they saw."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    annotator: str = Field(min_length=1, max_length=MAX_NAME)
    independent: bool = False
    seen_revision: int = Field(ge=0)

    @property
    def viewer(self) -> Viewer:
        return Viewer(annotator=self.annotator.strip(), independent=self.independent)


class Undoing(Change):
    to_revision: int = Field(ge=0)  # 0: before the first annotation


class Saving(Change):
    boundary: int | None = Field(default=None, ge=0)
    quality: Literal["good", "fair", "poor"] = "good"
    discard: bool = False
    withdraw: bool = False
    note: str = Field(default="", max_length=MAX_NOTE)
    seen_content: str = Field(default="", max_length=CONTENT_LETTERS)  # of the recording whose pictures were shown

    @property
    def entry(self) -> Entry:
        return Entry(
            boundary=self.boundary,
            quality=Quality(self.quality),
            discard=self.discard,
            note=self.note,
            withdraw=self.withdraw,
            seen_content=self.seen_content,
        )


def _viewer(annotator: str = "", independent: bool = False) -> Viewer:
    return Viewer(annotator=annotator.strip(), independent=independent)


Viewing = Annotated[Viewer, Depends(_viewer)]  # from the query


def annotate_app(store: EpisodeStore, access: Access, *, annotator: str = "") -> Guard:
    """Browse and Annotate over one store."""
    desk = Desk(ClipIndex(store))
    return local_app(page="annotate/index.html", routers=[annotate_router(desk, annotator)], access=access)


def annotate_router(desk: Desk, annotator: str) -> APIRouter:
    router = APIRouter(prefix="/api")
    clips = desk.clips
    changes = Changes(
        clips.store.annotations_path, lambda: {annotation.episode: annotation.revision for annotation in desk.history()}
    )

    @router.get("/clips")
    def listed(viewer: Viewing) -> Response:
        return JSONResponse(
            {
                "store": clips.store.root.name,
                "annotator": annotator,
                "rate_hz": RATE_HZ,
                "clips": desk.rows(viewer),
                **desk.progress(viewer),
            }
        )

    @router.get("/clips/{clip}")
    def opened(clip: str, viewer: Viewing) -> Response:
        row = desk.row(clip, viewer)
        motion = clip_motion(clips.store, clip)
        return JSONResponse({"row": row, "motion": _plain_motion(motion, with_candidate=not viewer.independent)})

    @router.get("/clips/{clip}/row")
    def looked_at(clip: str, viewer: Viewing) -> Response:
        return JSONResponse(desk.row(clip, viewer))

    @router.get("/clips/{clip}/frames")
    def frames(clip: str, first: int = 0, count: int = Query(MAX_FRAMES, ge=1)) -> Response:
        return Response(clips.frame_batch(clip, first, count), media_type="application/octet-stream")

    @router.get("/clips/{clip}/thumbnail")
    def thumbnail(clip: str) -> Response:
        return Response(clips.thumbnail(clip), media_type="image/jpeg")

    @router.post("/clips/{clip}/annotation")
    def save(clip: str, saving: Saving) -> Response:
        candidate = propose(clips.store, clip).frame if clips.card(clip).source.is_recovery else None
        try:
            row = desk.save(clip, saving.entry, saving.viewer, candidate=candidate, seen_revision=saving.seen_revision)
        except Conflict as conflict:
            return _conflict(conflict, saving.viewer)
        return JSONResponse({"row": row, **desk.progress(saving.viewer)})

    @router.post("/clips/{clip}/undo")
    def undo(clip: str, undoing: Undoing) -> Response:
        revisions = {"to_revision": undoing.to_revision, "seen_revision": undoing.seen_revision}
        try:
            row = desk.undo(clip, undoing.viewer, **revisions)
        except Conflict as conflict:
            return _conflict(conflict, undoing.viewer)
        return JSONResponse({"row": row, **desk.progress(undoing.viewer)})

    @router.get("/agreement")
    def agreement() -> Response:
        pairs = [
            {
                "first": pair.first,
                "second": pair.second,
                **pair.summary(),
                "differences": [difference.record() for difference in pair.differences],
            }
            for pair in agreements(desk.history())
        ]
        return JSONResponse({"pairs": pairs})

    @router.get("/boundary-noise")
    def noise() -> Response:
        disposition = {"content-disposition": 'attachment; filename="boundary_noise.json"'}
        return JSONResponse(boundary_noise(desk.history()), headers=disposition)

    @router.websocket("/changes")
    async def listen(page: WebSocket) -> None:
        await changes.attend(page)

    return router


def _conflict(conflict: Conflict, viewer: Viewer) -> Response:
    theirs = None if conflict.theirs is None else plain(conflict.theirs)
    if theirs and viewer.independent and theirs["annotator"] != viewer.annotator:
        theirs = {"annotator": theirs["annotator"]}  # without the boundary
    return JSONResponse({"error": str(conflict), "theirs": theirs}, 409)


def _plain_motion(motion: ClipMotion, *, with_candidate: bool) -> dict[str, Any]:
    candidate = motion.candidate if with_candidate else None
    return {
        "energy": np.round(np.nan_to_num(motion.energy), 5).tolist(),
        "candidate": None if candidate is None else {"frame": candidate.frame, "clarity": round(candidate.clarity, 3)},
        "intent_m": np.round(motion.intent_m, 5).tolist(),
        "target_exists": motion.target_exists.tolist(),
        "inside_from": motion.inside_from.tolist(),
    }
