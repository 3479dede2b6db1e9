"""The toolbox proxy: files, commands and sessions of one machine, answered by the daemon inside it."""

import asyncio
import json
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from simulators.daytona.box import BoxGone
from simulators.daytona.errors import ApiError
from simulators.daytona.machine import Machine
from simulators.daytona.world import World

Json = dict[str, Any]
FOLLOW_S = 0.05
MARKS = {"out": b"\x01\x01\x01", "err": b"\x02\x02\x02"}
SKIP_ACTIVITY = "x-daytona-skip-last-activity-update"


class Toolbox:
    """Answers below ``/toolbox/{id}``. Raises ApiError."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def answer(self, request: Request, path: str) -> tuple[int, Any] | Response:
        """``path`` without ``/toolbox``."""
        number, _, rest = path.strip("/").partition("/")
        machine = self._machine(number)
        if request.headers.get(SKIP_ACTIVITY) != "true":
            machine.last_activity_at = self.world.now()
        if rest in {"work-dir", "user-home-dir"}:
            facts, _ = await self._ask(machine, "ping")
            return 200, {"dir": facts["home"]}
        if rest == "version":
            return 200, {"version": "simulated"}
        if rest.startswith("files"):
            return await self._files(request, machine, rest)
        body = await _json(request)
        if rest == "env":
            await self._ask(machine, "env", **body)
            return 200, {}
        if rest == "process/execute":
            facts, output = await self._ask(machine, "exec", **body)
            return 200, {"exitCode": facts["exitCode"], "result": output.decode("utf-8", "replace")}
        if rest.startswith("process/session"):
            return await self._sessions(request.method, machine, rest.split("/")[2:], body)
        raise ApiError(404, f"not found: {rest}", source="DAYTONA_DAEMON")

    async def _sessions(self, method: str, machine: Machine, parts: list[str], body: Json) -> tuple[int, Any]:
        if not parts:
            if method == "POST":
                await self._ask(machine, "session_create", session=body["sessionId"])
                return 201, None
            return 200, (await self._ask(machine, "sessions"))[0]["sessions"]
        session = parts[0]
        if len(parts) == 1 and method == "DELETE":
            await self._ask(machine, "session_delete", session=session)
            return 204, None
        if len(parts) == 1:
            return 200, (await self._ask(machine, "sessions", session=session))[0]["sessions"][0]
        if parts[1] == "exec":
            given = {"session": session, "command": body["command"], "async": bool(body.get("runAsync"))}
            facts, _ = await self._ask(machine, "session_exec", **given)
            known = {key: facts[key] for key in ("cmdId", "exitCode", "stdout", "stderr") if key in facts}
            return facts["status"], {**known, **({"output": known["stdout"]} if "stdout" in known else {})}
        command = parts[2]
        if parts[3:] == ["logs"]:
            streams = [await self.read_log(machine, session, command, name, 0) for name in MARKS]
            marked = b"".join(mark_lines(name, one[1]) for name, one in zip(MARKS, streams, strict=True))
            out, err = (one[1].decode("utf-8", "replace") for one in streams)
            return 200, {"output": marked.decode("utf-8", "replace"), "stdout": out, "stderr": err}
        facts, _ = await self._ask(machine, "command", session=session, command=command)
        return 200, facts["command"]

    async def _files(self, request: Request, machine: Machine, rest: str) -> tuple[int, Any] | Response:
        query = request.query_params
        if rest == "files/bulk-upload":
            return await self._upload(request, machine)
        if rest == "files/bulk-download":
            return await self._download(machine, (await _json(request))["paths"])
        if rest == "files/permissions":
            await self._ask(machine, "chmod", path=query["path"], mode=query["mode"])
            return 200, None
        if rest == "files/folder":
            await self._ask(machine, "mkdir", path=query["path"], mode=query["mode"])
            return 201, None
        if rest == "files/info":
            return 200, (await self._ask(machine, "info", path=query["path"]))[0]["files"][0]
        if rest == "files" and request.method == "DELETE":
            recursive = query.get("recursive") == "true"
            await self._ask(machine, "remove", path=query["path"], recursive=recursive)
            return 204, None
        if rest == "files":
            return 200, (await self._ask(machine, "info", path=query.get("path", "."), list=True))[0]["files"]
        raise ApiError(404, f"not found: {rest}", source="DAYTONA_DAEMON")

    async def _upload(self, request: Request, machine: Machine) -> tuple[int, Any]:
        async with request.form(max_files=10_000, max_fields=10_000) as form:
            for key, path in form.multi_items():
                if not key.endswith(".path"):
                    continue
                file = form.get(key.removesuffix(".path") + ".file")
                if isinstance(path, str) and file is not None and not isinstance(file, str):
                    await self._ask(machine, "write", await file.read(), path=path)
        return 200, None

    async def _download(self, machine: Machine, paths: list[str]) -> Response:
        boundary = uuid.uuid4().hex
        body = b""
        for path in paths:
            try:
                _, data = await self._ask(machine, "read", path=path)
                name = "file"
            except ApiError as error:
                data, name = json.dumps(error.body()).encode(), "error"
            head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{path}"\r\n'
            kind = "application/octet-stream" if name == "file" else "application/json"
            body += f"{head}Content-Type: {kind}\r\n\r\n".encode() + data + b"\r\n"
        body += f"--{boundary}--\r\n".encode()
        return Response(body, media_type=f"multipart/form-data; boundary={boundary}")

    async def follow(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket that sends a command's output from its first byte until it has ended."""
        number, _, rest = path.strip("/").partition("/")
        parts = rest.split("/")  # process/session/SID/command/CID/logs
        await receive()
        await send({"type": "websocket.accept"})
        machine = self._machine(number)
        offsets = dict.fromkeys(MARKS, 0)
        listening = asyncio.ensure_future(_until_closed(receive))
        ended = False
        while not ended and not listening.done():
            over = []
            for name in MARKS:
                done, data = await self.read_log(machine, parts[2], parts[4], name, offsets[name])
                over.append(done)
                offsets[name] += len(data)
                if data:
                    await send({"type": "websocket.send", "bytes": mark_lines(name, data)})
            # A stream that was read before the end may have got more since.
            ended = all(over)
            machine.last_activity_at = self.world.now()
            await asyncio.sleep(0 if ended else FOLLOW_S)
        listening.cancel()
        await send({"type": "websocket.close", "code": 1000})
        del scope

    async def read_log(
        self, machine: Machine, session: str, command: str, stream: str, offset: int
    ) -> tuple[bool, bytes]:
        """Whether it has ended, and what came after ``offset``."""
        given: Json = {"session": session, "command": command, "stream": stream, "offset": offset}
        facts, data = await self._ask(machine, "logs", **given)
        return bool(facts["ended"]), data

    def _machine(self, number: str) -> Machine:
        machine = self.world.find(number)
        if machine.state != "started":
            raise ApiError(400, "bad request: failed to resolve container IP", source="DAYTONA_PROXY")
        return machine

    async def _ask(self, machine: Machine, op: str, data: bytes = b"", **facts: Any) -> tuple[Json, bytes]:
        try:
            answer, body = await machine.box.ask(op, data, **facts)
        except BoxGone as error:
            raise ApiError(502, "", source="DAYTONA_PROXY") from error
        if answer["status"] >= 400:
            raise ApiError(answer["status"], answer["message"], source="DAYTONA_DAEMON")
        return answer, body


def mark_lines(stream: str, data: bytes) -> bytes:
    """Each line after the bytes that name its stream."""
    return b"".join(MARKS[stream] + line for line in data.splitlines(keepends=True))


async def _until_closed(receive: Receive) -> None:
    while (await receive())["type"] != "websocket.disconnect":
        continue


async def _json(request: Request) -> Json:
    found: Json = json.loads(await request.body() or b"{}")
    return found
