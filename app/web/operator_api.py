"""The operator's view of specs and tasks, and the levers on them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse

from app.db.artifacts import find_chunk, find_spec_artifact
from app.db.models import Artifact
from app.db.operator_views import find_spec_row
from app.db.phases import find_unfinished_phase
from app.db.retries import record_retry
from app.db.specs import record_cancel
from app.domain.ids import SpecId
from app.domain.replies import RetryRefusal, RetryRefused
from app.domain.states import SPEC_LIVE, Flow, SpecState
from app.queue.jobs import JobName
from app.web.body import JsonBody, json_body
from app.web.operator_auth import (
    OPERATOR_PROBLEMS,
    Cursor,
    IdPath,
    Limit,
    clean_id,
    place_of,
    require_operator,
    unknown,
)
from app.web.operator_models import (
    CancelReceipt,
    ExecuteAsk,
    ExecuteReceipt,
    Page,
    SpecItem,
    SpecView,
    TaskItem,
    TaskView,
)
from app.web.operator_reads import read_spec, read_specs, read_task, read_tasks
from app.web.parts import Parts, PartsOf
from app.web.problems import Problem, problems
from sandbox_payload.wire import ArtifactName
from sandbox_payload.wire.plan import PhaseName

router = APIRouter(
    prefix="/api/v1", tags=["operator"], dependencies=[Depends(require_operator)], responses=OPERATOR_PROBLEMS
)

PHASES = tuple(name.value for name in PhaseName)
_BUNDLES = (ArtifactName.RESULT.value, ArtifactName.CHECKPOINT.value)


@router.get("/specs")
async def list_specs(parts: PartsOf, limit: Limit = 50, cursor: Cursor = None) -> Page[SpecItem]:
    return await read_specs(parts.database, place_of(cursor), limit)


@router.get("/specs/{spec_id}")
async def show_spec(spec_id: IdPath, parts: PartsOf) -> SpecView:
    found = await read_spec(parts.database, clean_id(spec_id, "spec"))
    if found is None:
        raise unknown("spec")
    return found


@router.get(
    "/specs/{spec_id}/bundle",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A git bundle",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def fetch_bundle(spec_id: IdPath, parts: PartsOf) -> StreamingResponse:
    """The newest result that its sandboxes handed over, else their newest checkpoint."""
    async with parts.database.read() as session:
        row = await find_spec_row(session, clean_id(spec_id, "spec"))
        artifact = None if row is None else await find_spec_artifact(session, SpecId(spec_id), _BUNDLES)
    if row is None:
        raise unknown("spec")
    if artifact is None:
        raise Problem(404, "no bundle has been handed over yet")
    headers = {
        "Content-Length": str(artifact.size),
        "Content-Disposition": f'attachment; filename="{row.spec.id}-{artifact.name}"',
        "X-Content-SHA256": artifact.sha256,
    }
    return StreamingResponse(
        _content(parts, artifact), headers=headers, media_type="application/octet-stream"
    )


async def _content(parts: Parts, artifact: Artifact) -> AsyncIterator[bytes]:
    """Piece by piece, each in a transaction of its own. Replaced meanwhile, it ends short of its Content-Length."""
    position = 0
    while True:
        async with parts.database.read() as session:
            piece = await find_chunk(session, artifact.id, position)
        if piece is None:
            return
        yield piece
        position += 1


@router.post("/specs/{spec_id}/cancel", status_code=202, responses=problems(409))
async def cancel_spec(spec_id: IdPath, parts: PartsOf) -> CancelReceipt:
    """Asks for the end of a live spec; asking again is fine. 409 when it has ended."""
    async with parts.database.write() as session:
        row = await find_spec_row(session, clean_id(spec_id, "spec"))
        if row is None:
            raise unknown("spec")
        if row.spec.state not in SPEC_LIVE:
            raise Problem(409, f"the spec is {row.spec.state.value} already")
        await record_cancel(session, row.spec.id, "operator", parts.clock())
        await session.refresh(row.spec)
    parts.spawn(parts.doorbell.ring(JobName.ADVANCE, row.spec.id, row.spec.version))
    return CancelReceipt(spec_id=row.spec.id)


@router.post(
    "/specs/{spec_id}/execute",
    status_code=202,
    responses=problems(400, 408, 409, 413),
    openapi_extra=json_body(ExecuteAsk.model_json_schema(), required=False),
)
async def execute_spec(
    spec_id: IdPath, parts: PartsOf, ask: Annotated[ExecuteAsk, Depends(JsonBody(ExecuteAsk))]
) -> ExecuteReceipt:
    """Queues a failed or cancelled spec again; a worker then starts it in a sandbox, never here."""
    async with parts.database.write() as session:
        row = await find_spec_row(session, clean_id(spec_id, "spec"))
        if row is None:
            raise unknown("spec")
        spec = row.spec
        if ask.resume_from_phase is not None and ask.resume_from_phase not in PHASES:
            raise Problem(422, f"there is no such phase; the phases are {', '.join(PHASES)}")
        if spec.state in SPEC_LIVE or spec.state is SpecState.COMPLETED:
            raise Problem(
                409, f"the spec is {spec.state.value}; only a failed or cancelled one can be executed"
            )
        refused = await record_retry(session, spec.id, parts.clock(), ask.resume_from_phase)
        if refused is not None:
            raise _refusal(refused)
        await session.refresh(spec)
        phase = None if spec.flow is Flow.QUICK else await find_unfinished_phase(session, spec.id)
    parts.spawn(parts.doorbell.ring(JobName.ADVANCE, spec.id, spec.version))
    return ExecuteReceipt(
        spec_id=spec.id,
        status="queued",
        current_phase=phase,
        sandbox_id=None,
        message="queued; a worker starts it in a sandbox",
    )


def _refusal(refused: RetryRefused) -> Problem:
    if refused.reason is RetryRefusal.LATER_PHASE:
        return Problem(
            422,
            f"that phase is later than the first unfinished one; possible are {', '.join(refused.phases)}",
        )
    if refused.reason is RetryRefusal.UNKNOWN_PHASE:
        return Problem(422, "this spec is done without planning, so no phase can be named")
    if refused.reason is RetryRefusal.LABEL_GONE:
        return Problem(409, "its label was removed from the issue; set again, it starts a new spec")
    return Problem(
        409, "the spec can't start now: its end is still being written, or its issue has another one"
    )


@router.get("/tasks")
async def list_all_tasks(parts: PartsOf, limit: Limit = 50, cursor: Cursor = None) -> Page[TaskItem]:
    return await read_tasks(parts.database, place_of(cursor), limit)


@router.get("/tasks/{task_id}")
async def show_task(task_id: IdPath, parts: PartsOf) -> TaskView:
    found = await read_task(parts.database, clean_id(task_id, "task"))
    if found is None:
        raise unknown("task")
    return found
