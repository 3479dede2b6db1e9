"""One call through the gateway: reserve, forward, stream back, settle. Settles whatever happens in between."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import httpx
from sqlalchemy.exc import SQLAlchemyError

from app.db.model_calls import Settlement, record_reservation, record_settlement
from app.db.sandbox_access import SandboxIdentity, lock_live
from app.domain.credentials import CredentialScope
from app.domain.model_price import (
    ModelPrice,
    Usage,
    affordable_tokens,
    cost_usd,
    input_ceiling_usd,
    output_usd,
    price_of,
)
from app.observability.crashpoints import crashpoint
from app.observability.logging import get_logger
from app.web.model_gateway.errors import ModelError
from app.web.model_gateway.meter import Meter
from app.web.model_gateway.policy import MAX_OUTPUT_TOKENS, MIN_OUTPUT_TOKENS, Allowed
from app.web.parts import Parts

log = get_logger()

_TOKENS_PER_S = 250
"""Faster than any model writes: bounds what a call that was cut off can have produced."""


@dataclass
class Reservation:
    """Money set aside for one call. `max_tokens` is what the answer may have at most."""

    call_id: str
    model: str
    price: ModelPrice
    amount_usd: float
    input_usd: float
    max_tokens: int
    began_s: float = field(default_factory=time.monotonic)


async def reserve(
    parts: Parts, sandbox: SandboxIdentity, allowed: Allowed, raw: bytes, key_of: CredentialScope
) -> Reservation:
    """Sets the worst case aside and notes whose key the call uses, cutting `max_tokens` to what the budget affords. Raises ModelError 403.

    One call takes at most half of what remains (as long as that is worth a call), so that sub-agents working side by
    side don't starve each other.
    """
    price = price_of(allowed.model, parts.settings.prices)
    input_usd = input_ceiling_usd(raw, price)
    wanted = min(allowed.max_tokens, MAX_OUTPUT_TOKENS)
    crashpoint("reserve.before")
    async with parts.database.write() as session:
        row = await lock_live(session, sandbox.id)
        if row is None:
            raise ModelError(403, "this sandbox has ended", "unauthorized")
        row.model_key_of, row.model_key_trouble = key_of, None
        left_usd = row.budget_usd - row.spent_usd - row.reserved_usd - input_usd
        least = min(wanted, MIN_OUTPUT_TOKENS)
        granted = min(wanted, max(affordable_tokens(left_usd / 2, price), least))
        amount = input_usd + output_usd(granted, price)
        call_id = await record_reservation(session, sandbox.id, allowed.model, amount, parts.clock())
    crashpoint("reserve.after")
    if call_id is None:
        raise ModelError(403, "the budget of this sandbox is spent", "budget")
    return Reservation(call_id, allowed.model, price, amount, input_usd, granted)


async def settle(
    parts: Parts, sandbox: SandboxIdentity, reservation: Reservation, status: int | None, meter: Meter | None
) -> None:
    """What it came to, at most what was reserved unless the upstream's own count says more."""
    usage, cost = _reckon(reservation, status, meter)
    settlement = Settlement(
        cost_usd=cost,
        status=status,
        input_tokens=usage.input,
        output_tokens=usage.output,
        cache_tokens=usage.cache_read + usage.cache_write_5m + usage.cache_write_1h,
    )
    crashpoint("settle.before")
    try:
        async with parts.database.write() as session:
            await record_settlement(session, reservation.call_id, settlement, parts.clock())
    except (SQLAlchemyError, OSError) as error:
        # The reservation stays; the sweep settles it as spent.
        log.warning("model_call.not_settled", sandbox_id=sandbox.id, error=type(error).__name__)
    crashpoint("settle.after")
    parts.metrics.model_cost.inc(cost)
    for kind, count in (("input", usage.input), ("output", usage.output), ("cache", settlement.cache_tokens)):
        parts.metrics.model_tokens.labels(kind).inc(count)
    log.info(
        "model_call.settled",
        sandbox_id=sandbox.id,
        model=reservation.model,
        status=status,
        cost_usd=round(cost, 6),
    )


def _reckon(reservation: Reservation, status: int | None, meter: Meter | None) -> tuple[Usage, float]:
    """Errors cost nothing. An answer with its final count costs that. One that was cut, or does not say, costs the
    input it could have had plus the output it can have made in its time, at most what was reserved.
    """
    if meter is None or (status is not None and status >= 300):
        return Usage(), 0.0
    if meter.complete and meter.usage is not None:
        return meter.usage, cost_usd(meter.usage, reservation.price)
    elapsed_s = time.monotonic() - reservation.began_s
    if status is not None and meter.usage is None and meter.bytes_seen:
        return Usage(), reservation.amount_usd
    seen = meter.usage or Usage()
    made = max(seen.output, meter.bytes_seen // 3, int(elapsed_s * _TOKENS_PER_S))
    guess = Usage(
        input=seen.input,
        output=min(reservation.max_tokens, made),
        cache_read=seen.cache_read,
        cache_write_5m=seen.cache_write_5m,
        cache_write_1h=seen.cache_write_1h,
    )
    if meter.usage is None:
        return guess, min(
            reservation.amount_usd, reservation.input_usd + output_usd(guess.output, reservation.price)
        )
    return guess, max(
        cost_usd(seen, reservation.price), min(reservation.amount_usd, cost_usd(guess, reservation.price))
    )


class Upstream:
    """An answer on its way. `status` and `headers` are known; the body has not been read."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.content_type = response.headers.get("content-type", "application/json")
        self.meter = Meter(streamed=self.content_type.startswith("text/event-stream"))

    @property
    def headers(self) -> Mapping[str, str]:
        """Those that the agent's CLI uses; nothing about our account."""
        wanted = ("request-id", "retry-after", "x-should-retry", "retry-after-ms")
        return {name: self._response.headers[name] for name in wanted if name in self._response.headers}

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Ends early, with a shorter body, when the upstream breaks off; the client sees that."""
        async for piece in self._response.aiter_raw():
            self.meter.feed(piece)
            yield piece
        self.meter.finish()

    async def read_whole(self, cap: int) -> bytes:
        """The whole body, cut at `cap`: for errors and other short answers."""
        body = b""
        async for piece in self._response.aiter_raw():
            body += piece
            if len(body) > cap:
                break
        return body[:cap]

    async def aclose(self) -> None:
        with suppress(httpx.HTTPError):
            await self._response.aclose()


async def send(
    parts: Parts, url: str, headers: Mapping[str, str], body: bytes, params: Mapping[str, str]
) -> Upstream:
    """Raises ModelError 502 or 504 when the upstream can't be reached or stays silent."""
    client = parts.model_http
    request = client.build_request("POST", url, content=body, headers=dict(headers), params=dict(params))
    try:
        return Upstream(await client.send(request, stream=True))
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        log.warning("model.unreachable", error=type(error).__name__)
        raise ModelError(502, "the model can't be reached now", "unreachable") from None
    except httpx.TimeoutException:
        raise ModelError(504, "the model did not answer in time", "timeout") from None
    except httpx.HTTPError as error:
        log.warning("model.broke_off", error=type(error).__name__)
        raise ModelError(502, "the model broke off", "broken") from None
