"""Errors as `application/problem+json` (RFC 9457), everywhere but in the model gateway."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from app.observability.logging import get_logger

log = get_logger()

MEDIA_TYPE = "application/problem+json"

PROBLEM_SCHEMA: dict[str, Any] = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {"type": "array", "items": {"type": "object"}},
    },
}


class Problem(Exception):
    """An answer that is not the one asked for. `errors` name what is wrong with a body or parameters."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        errors: list[dict[str, Any]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})

    def answer(self) -> JSONResponse:
        content: dict[str, Any] = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors is not None:
            content["errors"] = self.errors
        return JSONResponse(content, self.status, headers=self.headers, media_type=MEDIA_TYPE)


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route: which problems it may answer with."""
    return {
        status: {
            "description": HTTPStatus(status).phrase,
            "content": {MEDIA_TYPE: {"schema": PROBLEM_SCHEMA}},
        }
        for status in statuses
    }


def invalid(error: ValidationError | RequestValidationError) -> Problem:
    """422 with a place and a sentence for each mistake; never echoes what was sent."""
    return Problem(
        422, "a parameter or the body is wrong", errors=[_mistake(one) for one in error.errors()[:20]]
    )


def _mistake(error: ErrorDetails | dict[str, Any]) -> dict[str, Any]:
    return {"loc": [str(part)[:100] for part in error["loc"]], "msg": str(error["msg"])[:300]}


def unavailable(error: BaseException) -> Problem:
    log.warning("storage.failed", error=type(error).__name__)
    return Problem(503, "storage is unavailable; try again", headers={"Retry-After": "2"})


def install(app: FastAPI) -> None:
    """Every way a request can fail ends in a problem."""

    async def problem(_request: Request, error: Exception) -> JSONResponse:
        return error.answer() if isinstance(error, Problem) else unavailable(error).answer()

    async def wrong(_request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, RequestValidationError):
            raise error
        return invalid(error).answer()

    async def http(_request: Request, error: Exception) -> JSONResponse:
        if not isinstance(error, HTTPException):
            raise error
        return Problem(error.status_code, str(error.detail), headers=error.headers).answer()

    async def unexpected(_request: Request, error: Exception) -> JSONResponse:
        log.error("request.failed", error=type(error).__name__)
        return Problem(500, "an error of ours; the log has more").answer()

    app.add_exception_handler(Problem, problem)
    app.add_exception_handler(RequestValidationError, wrong)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(SQLAlchemyError, problem)
    app.add_exception_handler(OSError, problem)
    app.add_exception_handler(Exception, unexpected)
