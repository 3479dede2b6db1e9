"""The connection behind :class:`simulators.github.control.Control`."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

Json = dict[str, Any]
Found = TypeVar("Found")


class ControlError(Exception):
    """The simulator refused a control action; the text says why."""


class ControlClient:
    """Talks to ``/_sim/…`` of a running simulator."""

    def __init__(self, url: str, *, timeout_s: float = 30.0) -> None:
        self.url = url.rstrip("/")
        # Kept for less long than the server does, which may close it just when the next request goes out.
        limits = httpx.Limits(keepalive_expiry=2.0)
        self._http = httpx.Client(base_url=self.url, timeout=timeout_s, trust_env=False, limits=limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._http.close()

    def do(self, action: str, **arguments: Any) -> Json:
        """Any action by name, ``AREA/VERB``; arguments that are None are left out. Raises ControlError."""
        given = {name: value for name, value in arguments.items() if value is not None}
        found: Json = self._result(self._http.post(f"/_sim/{action}", json=given))
        return found

    def read(self, name: str, **query: Any) -> Any:
        """``requests``, ``writes``, ``deliveries``, ``state``, and of the state ``repository`` or ``issue``."""
        chosen = {key: value for key, value in query.items() if value is not None}
        return self._result(self._http.get(f"/_sim/{name}", params=chosen))

    def wait_for(self, look: Callable[[], Found | None], timeout_s: float = 10.0, what: str = "it") -> Found:
        """Calls ``look`` until it answers something true; TimeoutError after the limit."""
        deadline = time.monotonic() + timeout_s
        while True:
            found = look()
            if found:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} did not happen within {timeout_s} s")
            time.sleep(0.02)

    @staticmethod
    def _result(answer: httpx.Response) -> Any:
        if answer.is_success:
            return answer.json()
        try:
            message = answer.json()["error"]
        except (ValueError, KeyError):
            message = f"{answer.status_code} {answer.text[:500]}"
        raise ControlError(message)
