"""`/healthz`, `/readyz`, `/metrics`: public, quick, and silent about everything but themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import BaseModel
from sqlalchemy.exc import SQLAlchemyError

from app.db.deliveries import find_oldest_unhandled
from app.db.operator_views import count_specs, find_newest_beat
from app.domain.states import SpecState
from app.web.parts import Parts, PartsOf

router = APIRouter(tags=["health"])

_LOOK_S = 1.5


class Alive(BaseModel):
    status: str = "ok"


class Ready(BaseModel):
    """`worker_beat_age_s`: since a worker was last heard; None when none ever was. It does not decide readiness."""

    database: bool
    redis: bool
    worker_beat_age_s: float | None = None


@router.get("/healthz", openapi_extra={"security": []})
async def healthz() -> Alive:
    return Alive()


@router.get(
    "/readyz",
    response_model=Ready,
    responses={503: {"model": Ready, "description": "Something is away"}},
    openapi_extra={"security": []},
)
async def readyz(parts: PartsOf) -> JSONResponse:
    """200 when database and Redis answer within 1.5 s, else 503 with which of them does."""
    database, redis, age_s = await asyncio.gather(
        _within(parts.database.ping()), _within(parts.redis_ping()), _worker_age_s(parts)
    )
    ready = Ready(database=database, redis=redis, worker_beat_age_s=age_s)
    return JSONResponse(ready.model_dump(), 200 if database and redis else 503)


async def _within(look: Awaitable[bool]) -> bool:
    try:
        async with asyncio.timeout(_LOOK_S):
            return await look
    except (SQLAlchemyError, OSError):
        return False


async def _worker_age_s(parts: Parts) -> float | None:
    try:
        async with asyncio.timeout(_LOOK_S), parts.database.read() as session:
            beat_at = await find_newest_beat(session, "worker")
    except (SQLAlchemyError, OSError):
        return None
    return None if beat_at is None else max(0.0, (parts.clock() - beat_at).total_seconds())


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    openapi_extra={"security": []},
)
async def metrics(parts: PartsOf) -> Response:
    """Prometheus text. What comes from the database keeps its last value while the database is away."""
    try:
        async with asyncio.timeout(_LOOK_S), parts.database.read() as session:
            counts = await count_specs(session)
            oldest = await find_oldest_unhandled(session)
    except (SQLAlchemyError, OSError):
        pass
    else:
        for state in SpecState:
            parts.metrics.specs.labels(state.value).set(counts.get(state, 0))
        age_s = 0.0 if oldest is None else max(0.0, (parts.clock() - oldest).total_seconds())
        parts.metrics.oldest_delivery_s.set(age_s)
    return Response(generate_latest(parts.metrics.registry), media_type=CONTENT_TYPE_LATEST)
