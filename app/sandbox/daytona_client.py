"""The one place that loads Daytona's SDK. Loading costs seconds, so it happens in a thread, at the first call.

The client belongs to the event loop of its first call (its connections do); each call is bounded and raises only what
`ports.Sandboxes` allows.
"""

from __future__ import annotations

import asyncio
import importlib
import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from app.domain.errors import Denied, Gone, RetryAt
from app.sandbox.daytona_account import DaytonaAccount
from app.sandbox.daytona_errors import BUSY, classify

CALL_S = 12.0
"""For a call that does not carry files. Below a step's 20 s."""
_CLOSE_S = 5.0

Found = TypeVar("Found")


def utc_now() -> datetime:
    return datetime.now(UTC)


def load_sdk() -> Any:
    """The SDK's module under its new or its old name (the same code). Raises Denied when neither is installed."""
    for name in ("daytona", "daytona_sdk"):
        try:
            with warnings.catch_warnings():
                # The old name says that it is one; the operator can't do anything about it.
                warnings.simplefilter("ignore", DeprecationWarning)
                module = importlib.import_module(name)
                _ = module.AsyncDaytona  # loaded when it is first asked for
        except ImportError:
            continue
        return module
    raise Denied(
        "the Daytona SDK is not installed: `make .venv/.daytona` in Issuewright's directory installs it",
        reason="sandbox",
    )


class DaytonaClient:
    """`clock` gives aware UTC. The machines and parameters that it hands out are the SDK's own objects."""

    def __init__(self, account: DaytonaAccount, clock: Callable[[], datetime] = utc_now) -> None:
        self.account = account
        self.clock = clock
        self._loading = asyncio.Lock()
        self._sdk: Any = None
        self._client: Any = None

    async def sdk(self) -> Any:
        async with self._loading:
            if self._sdk is None:
                self._sdk = await asyncio.to_thread(load_sdk)
            if self._client is None:
                # Each value explicitly: the SDK looks in the working directory's .env for what is missing.
                self._client = self._sdk.AsyncDaytona(
                    self._sdk.DaytonaConfig(
                        api_key=self.account.api_key,
                        api_url=self.account.api_url or "https://app.daytona.io/api",
                        target=self.account.target,
                    )
                )
        return self._sdk

    async def call(self, make: Callable[[Any], Awaitable[Found]], limit_s: float = CALL_S) -> Found:
        """The answer of `make(client)`. Raises Gone for a 404, else as `classify` says; RetryAt when it takes longer."""
        sdk = await self.sdk()
        library_error = importlib.import_module("daytona_api_client_async").ApiException
        try:
            async with asyncio.timeout(limit_s):
                return await make(self._client)
        except TimeoutError as error:
            raise RetryAt(f"Daytona did not answer within {limit_s:g} s", self.clock() + BUSY) from error
        except library_error as error:  # the SDK lets some through, those of snapshots among them
            told = sdk.DaytonaError(str(error.body or error.reason), error.status, error.headers)
            raise classify(told, self.clock()) from error
        except (sdk.DaytonaError, OSError) as error:
            raise classify(error, self.clock()) from error

    async def find(self, name: str) -> Any | None:
        """The machine of that name or id; None when there is none."""
        with suppress(Gone):
            return await self.call(lambda client: client.get(name))
        return None

    async def list_labeled(self, labels: dict[str, str]) -> list[Any]:
        sdk = await self.sdk()

        async def collect(client: Any) -> list[Any]:
            # To the end: leaving it early makes the SDK log a traceback.
            return [one async for one in client.list(sdk.ListSandboxesQuery(labels=labels, limit=100))]

        return await self.call(collect)

    async def find_snapshot(self, name: str) -> Any | None:
        with suppress(Gone):
            return await self.call(lambda client: client.snapshot.get(name))
        return None

    async def ensure_deleted(self, name: str) -> None:
        """Gone, or on its way. Does not depend on a stop. Raises RetryAt while Daytona is busy with it."""
        machine = await self.find(name)
        if machine is None or str(getattr(machine.state, "value", machine.state)).startswith("destroy"):
            return
        with suppress(Gone):
            await self.call(lambda client: client.delete(machine, timeout=CALL_S - 2))

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(TimeoutError, OSError):
                async with asyncio.timeout(_CLOSE_S):
                    await client.close()


def age(machine: Any, now: datetime) -> timedelta | None:
    """Since its creation, by Daytona's clock and ours; None when it does not say."""
    try:
        made_at = datetime.fromisoformat(str(machine.created_at))
    except (AttributeError, ValueError):
        return None
    return now - (made_at if made_at.tzinfo else made_at.replace(tzinfo=UTC))
