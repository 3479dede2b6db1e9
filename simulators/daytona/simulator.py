"""The simulated Daytona as one ASGI application: control plane, toolbox proxy, events, control side."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from simulators.daytona.api import ControlPlane
from simulators.daytona.control import Control
from simulators.daytona.errors import ApiError
from simulators.daytona.faults import Fault
from simulators.daytona.toolbox import Toolbox
from simulators.daytona.world import World

Json = dict[str, Any]
EVENTS = "/api/socket.io/"
KEPT_REQUESTS = 5_000


class DaytonaSimulator:
    """``app`` serves everything; ``running`` must be open around it. Events need python-socketio, which comes with
    Daytona's SDK; without it clients poll.
    """

    def __init__(self, directory: Path, base_url: str, api_key: str, image_version: str = "") -> None:
        self.world = World(directory, base_url, api_key, image_version)
        self.faults: list[Fault] = []
        self.requests: list[Json] = []
        self._plane = ControlPlane(self.world)
        self._toolbox = Toolbox(self.world)
        self._control = Control(self.world, self.faults, self.requests)
        self._events = self._make_events()

    def _make_events(self) -> Any:
        try:
            import socketio  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        except ImportError:
            return None
        server = socketio.AsyncServer(async_mode="asgi", cors_allowed_origins="*")

        async def connect(_sid: str, _environ: Json, auth: Json | None = None) -> bool:
            return (auth or {}).get("token") == self.world.api_key

        server.on("connect", connect)
        self.world.notify = server.emit
        return socketio.ASGIApp(server, socketio_path=EVENTS.strip("/"))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Timers run; at the end every machine is gone."""
        timers = asyncio.create_task(self.world.run())
        try:
            yield
        finally:
            timers.cancel()
            with suppress(asyncio.CancelledError):
                await timers
            await self.world.close()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection."""
        path = scope.get("path", "")
        if path.startswith(EVENTS) and self._events is not None:
            await self._events(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._web_socket(scope, receive, send)
        elif scope["type"] == "http" and path.startswith("/_sim/"):
            await (await self._controlled(Request(scope, receive)))(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(Request(scope, receive), scope, receive, send)

    async def _controlled(self, request: Request) -> Response:
        name = request.url.path.removeprefix("/_sim/")
        try:
            if request.method == "GET":
                return JSONResponse(self._control.read(name))
            return JSONResponse(await self._control.do(name, json.loads(await request.body() or b"{}")))
        except (LookupError, ValueError, TypeError, ApiError) as problem:
            return JSONResponse({"error": f"{type(problem).__name__}: {problem}"}, 422)

    async def _http(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = request.url.path, request.method
        entry: Json = {"method": method, "path": path, "query": str(request.url.query), "at": time.time()}
        self.requests.append(entry)
        del self.requests[:-KEPT_REQUESTS]
        fault = next((one for one in self.faults if one.takes(method, path)), None)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
        response = None if fault is not None and not fault.apply else await self._answer(request, path)
        if fault is not None and fault.drop:
            return await drop_connection(receive, send)
        if fault is not None and fault.status is not None:
            refusal = ApiError(fault.status, fault.message, fault.headers)
            response = JSONResponse(refusal.body(), refusal.status, headers=refusal.headers)
        if response is None:
            response = await self._answer(request, path)
        entry["status"] = response.status_code
        return await response(scope, receive, send)

    async def _answer(self, request: Request, path: str) -> Response:
        try:
            if request.headers.get("authorization") != f"Bearer {self.world.api_key}":
                raise ApiError(401, "Unauthorized")
            if path.startswith("/toolbox/"):
                found = await self._toolbox.answer(request, path.removeprefix("/toolbox"))
            elif path.startswith("/api/"):
                found = await self._plane.answer(request, path.removeprefix("/api"))
            elif path.startswith("/build-logs/"):
                return Response("built\n", media_type="text/plain")
            else:
                raise ApiError(404, f"Cannot {request.method} {path}")
        except ApiError as error:
            return JSONResponse(error.body(), error.status, headers=error.headers)
        except (KeyError, ValueError, TypeError) as error:
            return JSONResponse(ApiError(400, f"bad request: {error}").body(), 400)
        if isinstance(found, Response):
            return found
        status, body = found
        return JSONResponse(body, status) if body is not None else Response(status_code=status)

    async def _web_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        token = dict(scope["headers"]).get(b"authorization", b"").decode()
        fault = next((one for one in self.faults if one.takes("WS", path)), None)
        known = path.startswith("/toolbox/") and token == f"Bearer {self.world.api_key}"
        if not known or (fault is not None and fault.drop):
            await receive()
            await send({"type": "websocket.close", "code": 1011})
            return
        try:
            await self._toolbox.follow(path.removeprefix("/toolbox"), scope, receive, send)
        except ApiError:
            await send({"type": "websocket.close", "code": 1011})


async def drop_connection(receive: Receive, send: Send) -> None:
    """Closes the connection without an answer (uvicorn's transport is behind ``send``)."""
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is None:
        raise RuntimeError("dropping connections needs uvicorn")
    transport.close()
    while (await receive())["type"] != "http.disconnect":
        continue
