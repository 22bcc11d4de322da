"""The routes of the rollout viewer."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, HTTPException
from starlette.responses import FileResponse, JSONResponse, Response

from egorecovery.episodes import RATE_HZ
from egorecovery.episodes.pictures import GAP_PX
from egorecovery.evaluation.rollout_videos import RolloutVideo
from egorecovery.evaluation.video import GATE_ON, PANEL_PX
from egorecovery.studio.access import Access
from egorecovery.studio.app import local_app
from egorecovery.studio.guard import Guard
from egorecovery.studio.scoring.real_robot import REAL_ROBOT


def watch_app(rollouts: Sequence[RolloutVideo], access: Access) -> Guard:
    """The viewer for videos of one or more evaluations."""
    return local_app(page="watch/index.html", routers=[watch_router(rollouts)], access=access)


def watch_router(rollouts: Sequence[RolloutVideo]) -> APIRouter:
    router = APIRouter(prefix="/api")
    films: dict[str, Path] = {str(number): rollout.film for number, rollout in enumerate(rollouts)}
    rows = [_row(str(number), rollout) for number, rollout in enumerate(rollouts)]

    @router.get("/rollouts")
    def listed() -> Response:
        return JSONResponse({"rate_hz": RATE_HZ, "gate_on": GATE_ON, "rollouts": rows})

    @router.get("/films/{number}")
    def film(number: str) -> Response:
        if number not in films or not films[number].is_file():
            raise HTTPException(404, "there is no such film")
        return FileResponse(films[number], media_type="video/mp4")

    return router


def _row(number: str, rollout: RolloutVideo) -> dict[str, Any]:
    record = rollout.record
    steps = round(record.duration_s * RATE_HZ)
    return {
        "id": number,
        "policy": record.subject.policy,
        "seed": record.subject.seed,
        "task": record.task,
        "regime": record.regime,
        "index": record.index,
        "mode": record.mode,
        "outcome": record.outcome,
        "reason": record.reason,
        "scored_by": record.protocol.get("scored_by", "rules"),
        "retries": record.retries,
        "frames": max(steps, 1),
        # The panel above the cameras repeats what the traces show.
        "panel_px": 0 if record.protocol.get("name") == REAL_ROBOT else PANEL_PX + GAP_PX,
        "decided_at": decision_steps(record.decisions, steps, record.protocol.get("replan_steps")),
        "gate": list(record.gate_trace),
        "intent": [list(intent) for intent in record.intent_trace],
    }


def decision_steps(decisions: int, steps: int, replan_steps: int | None) -> list[int]:
    """Frames of the policy's decisions: every `replan_steps`, or evenly if chunks are shorter."""
    if not decisions:
        return []
    if replan_steps and -(-steps // replan_steps) == decisions:
        return [number * replan_steps for number in range(decisions)]
    return [round(number * steps / decisions) for number in range(decisions)]
