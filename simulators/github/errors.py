"""What a route raises to answer with an error in GitHub's shape."""

from collections.abc import Mapping
from typing import Any

DOCS = "https://docs.github.com/rest"


class ApiError(Exception):
    """An error answer: status, message, optional ``errors`` list and headers."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: list[Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {message}")
        self.status = status
        self.message = message
        self.errors = errors
        self.headers = dict(headers or {})

    def body(self) -> dict[str, Any]:
        """The JSON body: message, errors when there are any, documentation_url, status."""
        body: dict[str, Any] = {"message": self.message}
        if self.errors is not None:
            body["errors"] = self.errors
        body["documentation_url"] = DOCS
        body["status"] = str(self.status)
        return body


def not_found() -> ApiError:
    """404, also what a caller without access to the thing sees."""
    return ApiError(404, "Not Found")


def forbidden() -> ApiError:
    """403 for a token without the permission that a route needs."""
    return ApiError(403, "Resource not accessible by integration")


def validation(resource: str, field: str, code: str, message: str | None = None) -> ApiError:
    """422 with one entry in ``errors``; code ``custom`` carries a message."""
    entry = {"resource": resource, "code": code, "field": field}
    if message is not None:
        entry["message"] = message
    return ApiError(422, "Validation Failed", errors=[entry])


def unprocessable(message: str) -> ApiError:
    """422 with a message alone."""
    return ApiError(422, message)
