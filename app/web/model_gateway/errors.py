"""Errors in the Messages API's own shape: `{"type": "error", "error": {"type", "message"}}`.

A refusal that will not change is 403: the agent's CLI tries every other code again, for up to three minutes
(measured). Nothing here is an `overloaded_error`: of those it bears three, and then ends the turn.
"""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}

ERROR_SCHEMA: dict[str, Any] = {
    "title": "ModelError",
    "type": "object",
    "required": ["type", "error"],
    "properties": {
        "type": {"const": "error"},
        "error": {
            "type": "object",
            "required": ["type", "message"],
            "properties": {"type": {"type": "string"}, "message": {"type": "string"}},
        },
    },
}


class ModelError(Exception):
    """An answer of the gateway's own."""

    def __init__(
        self, status: int, message: str, outcome: str = "refused", retry_after_s: int | None = None
    ) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message
        self.outcome = outcome
        self.retry_after_s = retry_after_s

    def answer(self) -> JSONResponse:
        content = {
            "type": "error",
            "error": {"type": _TYPES.get(self.status, "api_error"), "message": self.message},
        }
        headers = {"Retry-After": str(self.retry_after_s)} if self.retry_after_s is not None else {}
        if self.status in (408, 413):
            headers["Connection"] = "close"
        return JSONResponse(content, self.status, headers=headers)


def model_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a gateway route."""
    return {
        status: {"description": "An error", "content": {"application/json": {"schema": ERROR_SCHEMA}}}
        for status in statuses
    }
