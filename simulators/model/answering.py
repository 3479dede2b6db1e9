"""Sending an answer: streamed or whole, held at gates, or broken off as its fault says."""

import asyncio
import json
from collections.abc import AsyncIterator

from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from simulators.model import wire
from simulators.model.gates import Gates
from simulators.model.request_log import Entry
from simulators.model.script import Fault, Step

PING_EVERY_S = 1.0
_PORTAL = "<!doctype html><title>Sign in</title><p>Please sign in to use this network.</p>"
_MESSAGES = {
    400: "The request is not valid.",
    401: "invalid x-api-key",
    403: "The key has no permission for this.",
    404: "not found",
    429: "This request would exceed the rate limit.",
    529: "Overloaded",
}


class CutError(Exception):
    """The connection is to be closed here, in the middle of the answer."""


class ModelResponse(StreamingResponse):
    """A body sent piece by piece that may break off, with its end written to the request log."""

    def __init__(self, pieces: AsyncIterator[bytes], entry: Entry, media_type: str) -> None:
        super().__init__(pieces, media_type=media_type, headers={"request-id": f"req_{entry.number}"})
        self._entry = entry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 (ASGI's signature)
        """Send the pieces; an end without the last chunk makes the server drop the connection."""
        sending = asyncio.ensure_future(self._send_all(send))
        leaving = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
                self._entry.end("complete")
        except CutError:
            self._entry.end("cut")
        finally:
            self._entry.end("disconnected")
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        started = False
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            async for piece in self.body_iterator:
                if not started:
                    await send(start)
                    started = True
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        except CutError:
            if not started:  # an answer that never began would be made a 500 by the server
                await send(start)
            raise
        if not started:
            await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def respond(answer: wire.Answer, step: Step, fault: Fault | None, gates: Gates, entry: Entry) -> Response:
    """The HTTP answer; `entry` says whether the request asked for a stream."""
    if fault and fault.kind == "status":
        return failure(fault, answer.model, entry)
    entry.status = 200
    if fault and fault.kind == "html":
        entry.end("complete")
        return HTMLResponse(_PORTAL)
    sender = _Sender(answer, step, fault, gates, entry)
    streamed = bool(entry.body().get("stream"))
    if streamed:
        return ModelResponse(sender.stream(), entry, "text/event-stream; charset=utf-8")
    return ModelResponse(sender.whole(), entry, "application/json")


def failure(fault: Fault, model: str, entry: Entry) -> Response:
    """An error answer, recorded in the log."""
    entry.status = fault.status
    entry.end("complete")
    headers = {"request-id": f"req_{entry.number}"}
    if fault.retry_after_s is not None:
        headers["retry-after"] = f"{fault.retry_after_s:g}"
    message = (fault.message or _MESSAGES.get(fault.status, "Internal server error")).replace(
        "{model}", model
    )
    body = wire.error_body(fault.status, message, fault.error_type)
    return JSONResponse(body, fault.status, headers)


class _Sender:
    def __init__(
        self, answer: wire.Answer, step: Step, fault: Fault | None, gates: Gates, entry: Entry
    ) -> None:
        self._answer, self._step, self._fault = answer, step, fault
        self._gates, self._entry = gates, entry
        self._kind = fault.kind if fault else None

    async def stream(self) -> AsyncIterator[bytes]:
        if self._kind == "no_bytes":
            await self._silence()
        if self._kind == "empty":
            return
        yield wire.start_event(self._answer)
        yield wire.PING
        async for ping in self._hold("start"):
            yield ping
        if self._kind == "malformed":
            yield b'event: content_block_start\ndata: {"type": "content_block_start", "index":\n\n'
            return
        pieces = list(wire.content_events(self._answer))
        half = max(1, len(pieces) // 2)
        for piece in pieces[:half]:
            yield piece
        async for ping in self._hold("middle"):
            yield ping
        await self._break_off()
        for piece in pieces[half:]:
            yield piece
        for piece in wire.end_events(self._answer):
            yield piece

    async def whole(self) -> AsyncIterator[bytes]:
        if self._kind == "no_bytes":
            await self._silence()
        if self._kind == "empty":
            return
        # Without a stream there is no ping to send: the client simply waits.
        async for _ in self._hold("start"):
            pass
        async for _ in self._hold("middle"):
            pass
        body = json.dumps(wire.message_body(self._answer)).encode()
        half = len(body) // 2
        yield body[:half]
        if self._kind == "malformed":
            return
        await self._break_off()
        yield body[half:]

    async def _hold(self, where: str) -> AsyncIterator[bytes]:
        """Wait for the step's delay and gate, with a ping every second."""
        if where == "start" and self._step.delay_s:
            loop = asyncio.get_running_loop()
            until = loop.time() + self._step.delay_s
            while (left := until - loop.time()) > 0:
                await asyncio.sleep(min(left, PING_EVERY_S))
                yield wire.PING
        if self._step.gate and self._step.gate_at == where:
            with self._gates.queue(self._step.gate, self._entry.number) as opened:
                while not opened.is_set():
                    try:
                        await asyncio.wait_for(opened.wait(), PING_EVERY_S)
                    except TimeoutError:
                        yield wire.PING

    async def _break_off(self) -> None:
        if self._kind == "stall":
            await self._silence()
        if self._kind == "cut":
            raise CutError

    async def _silence(self) -> None:
        """Send nothing more until the client goes away or the fault's gate is opened."""
        if self._fault and self._fault.gate:
            with self._gates.queue(self._fault.gate, self._entry.number) as opened:
                await opened.wait()
            raise CutError
        await asyncio.Event().wait()
