"""The API's error answers."""

from typing import Any


class ApiError(Exception):
    """``status`` and text; ``source`` as in Daytona's envelope, ``headers`` for rate limits."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: dict[str, str] | None = None,
        source: str = "DAYTONA_API",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers or {}
        self.source = source

    def body(self) -> dict[str, Any]:
        return {
            "statusCode": self.status,
            "message": str(self),
            "code": f"HTTP_{self.status}",
            "source": self.source,
        }
