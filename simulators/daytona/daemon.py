"""``python daemon.py SOCKET [PORT...]``: the program inside a simulated machine that runs commands and keeps sessions.

One request per connection on a unix socket: a JSON line, then ``length`` raw bytes; the answer has the same form.
What connects to one of the ports inside is passed on to the socket ``route-PORT.sock`` beside the first one.
Standard library only, since a machine brings nothing else. Ends with the connection that started it (its stdin).
"""

import asyncio
import contextlib
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]
LOOK_S = 0.02
KILL_S = 5.0
LIMIT = 2**26


class Refused(Exception):
    """A request that can't be done: ``status`` and text as the toolbox answers them."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


@dataclass
class Command:
    """``folder`` holds its script, ``out``, ``err`` and, once it has ended by itself, ``exit``."""

    id: str
    text: str
    folder: Path

    def exit_code(self) -> int | None:
        try:
            return int((self.folder / "exit").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def shown(self) -> Json:
        code = self.exit_code()
        return {"id": self.id, "command": self.text, **({} if code is None else {"exitCode": code})}


@dataclass
class Session:
    """A shell that is fed one command after another; ``exit`` in a command ends it for good."""

    id: str
    shell: asyncio.subprocess.Process
    commands: list[Command] = field(default_factory=list)


class Daemon:
    """The state of one machine's toolbox: in memory, so lost when the machine stops."""

    def __init__(self) -> None:
        self.home = Path(os.environ["HOME"])
        self.folder = Path(tempfile.mkdtemp(prefix="daemon-"))
        self.sessions: dict[str, Session] = {}
        self.environment: dict[str, str] = {}
        self.operations: dict[str, Callable[[Json], Awaitable[tuple[Json, bytes]]]] = {
            "ping": self._ping,
            "env": self._env,
            "exec": self._exec,
            "session_create": self._session_create,
            "session_delete": self._session_delete,
            "session_exec": self._session_exec,
            "sessions": self._sessions,
            "command": self._command,
            "logs": self._logs,
            "write": self._write,
            "read": self._read,
            "chmod": self._chmod,
            "info": self._info,
            "remove": self._remove,
            "mkdir": self._mkdir,
        }

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        try:
            request = json.loads(await reader.readline())
            data = await reader.readexactly(int(request.get("length", 0)))
            try:
                facts, body = await self.operations[request["op"]]({**request, "data": data})
            except Refused as problem:
                facts, body = {"status": problem.status, "message": str(problem)}, b""
            except OSError as problem:
                status = 404 if isinstance(problem, FileNotFoundError) else 400
                facts, body = {"status": status, "message": str(problem)}, b""
            writer.write(json.dumps({"status": 200, **facts, "length": len(body)}).encode() + b"\n" + body)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()

    # ------------------------------------------------------------ commands

    async def _ping(self, request: Json) -> tuple[Json, bytes]:
        return {"home": str(self.home), "op": request["op"]}, b""

    async def _env(self, request: Json) -> tuple[Json, bytes]:
        self.environment.update(request.get("set") or {})
        for name in request.get("unset") or []:
            self.environment.pop(name, None)
        return {}, b""

    async def _exec(self, request: Json) -> tuple[Json, bytes]:
        """Like the real one it waits until everybody who holds the output has closed it."""
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", request["command"],
            cwd=self._path(request.get("cwd") or "."),
            env={**os.environ, **self.environment, **(request.get("envs") or {})},
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            async with asyncio.timeout(request.get("timeout") or None):
                output, _ = await process.communicate()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise Refused(408, "command execution timeout") from None
        code = process.returncode or 0
        return {"exitCode": 128 - code if code < 0 else code}, output

    async def _session_create(self, request: Json) -> tuple[Json, bytes]:
        if request["session"] in self.sessions:
            raise Refused(409, "session already exists")
        shell = await asyncio.create_subprocess_exec(
            "bash", cwd=self.home, env={**os.environ, **self.environment}, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.sessions[request["session"]] = Session(request["session"], shell)
        return {}, b""

    async def _session_exec(self, request: Json) -> tuple[Json, bytes]:
        session = self._session(request)
        command = Command(uuid.uuid4().hex, request["command"], self.folder / uuid.uuid4().hex)
        command.folder.mkdir()
        (command.folder / "script").write_text(f"{command.text}\n")
        session.commands.append(command)
        at = command.folder
        line = f". {at}/script >{at}/out 2>{at}/err </dev/null; echo $? >{at}/code; mv {at}/code {at}/exit\n"
        shell = session.shell
        if shell.stdin is None or shell.returncode is not None:
            raise Refused(410, "session has ended")
        shell.stdin.write(line.encode())
        await shell.stdin.drain()
        if request.get("async"):
            return {"cmdId": command.id, "status": 202}, b""
        while (code := command.exit_code()) is None:  # noqa: ASYNC110 - the shell says it by a file
            await asyncio.sleep(LOOK_S)
        output, errors = _bytes(at / "out"), _bytes(at / "err")
        facts = {"stdout": output.decode("utf-8", "replace"), "stderr": errors.decode("utf-8", "replace")}
        return {"cmdId": command.id, "exitCode": code, **facts}, b""

    async def _session_delete(self, request: Json) -> tuple[Json, bytes]:
        """Ends everything that the session started and that did not leave its group."""
        session = self._session(request)
        del self.sessions[session.id]
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session.shell.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_S):
                    await session.shell.wait()
                    break
        return {}, b""

    async def _sessions(self, request: Json) -> tuple[Json, bytes]:
        wanted = [self._session(request)] if request.get("session") else list(self.sessions.values())
        shown = [{"sessionId": one.id, "commands": [each.shown() for each in one.commands]} for one in wanted]
        return {"sessions": shown}, b""

    async def _command(self, request: Json) -> tuple[Json, bytes]:
        return {"command": self._of_session(request).shown()}, b""

    async def _logs(self, request: Json) -> tuple[Json, bytes]:
        """``stream`` is ``out`` or ``err``, from ``offset``; ``ended`` says that no more will come."""
        command = self._of_session(request)
        ended = command.exit_code() is not None
        return {"ended": ended}, _bytes(command.folder / request["stream"])[int(request.get("offset", 0)) :]

    def _session(self, request: Json) -> Session:
        found = self.sessions.get(request["session"])
        if found is None:
            raise Refused(404, "session not found")
        return found

    def _of_session(self, request: Json) -> Command:
        for command in self._session(request).commands:
            if command.id == request["command"]:
                return command
        raise Refused(404, "command not found")

    # ------------------------------------------------------------ files

    def _path(self, text: str) -> Path:
        return self.home / text

    async def _write(self, request: Json) -> tuple[Json, bytes]:
        path = self._path(request["path"])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(request["data"])
        return {}, b""

    async def _read(self, request: Json) -> tuple[Json, bytes]:
        return {}, self._path(request["path"]).read_bytes()

    async def _chmod(self, request: Json) -> tuple[Json, bytes]:
        self._path(request["path"]).chmod(int(request["mode"], 8))
        return {}, b""

    async def _info(self, request: Json) -> tuple[Json, bytes]:
        path = self._path(request["path"])
        listed = sorted(path.iterdir()) if request.get("list") else [path]
        return {"files": [_file_info(one) for one in listed]}, b""

    async def _remove(self, request: Json) -> tuple[Json, bytes]:
        path = self._path(request["path"])
        shutil.rmtree(path) if path.is_dir() and request.get("recursive") else path.unlink()
        return {}, b""

    async def _mkdir(self, request: Json) -> tuple[Json, bytes]:
        self._path(request["path"]).mkdir(parents=True, exist_ok=True, mode=int(request["mode"], 8))
        return {}, b""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _file_info(path: Path) -> Json:
    seen = path.lstat()
    return {
        "name": path.name, "isDir": path.is_dir(), "size": seen.st_size, "mode": oct(seen.st_mode),
        "permissions": f"{seen.st_mode & 0o7777:04o}", "modTime": str(int(seen.st_mtime)),
        "owner": str(seen.st_uid), "group": str(seen.st_gid),
    }  # fmt: skip


async def _pass_on(path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        there, back = await asyncio.open_unix_connection(path)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, back), _copy(there, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(socket_path: str, ports: Sequence[str]) -> None:
    """Until stdin ends."""
    daemon = Daemon()
    for port in ports:
        route = str(Path(socket_path).with_name(f"route-{port}.sock"))
        await asyncio.start_server(functools.partial(_pass_on, route), "127.0.0.1", int(port))
    server = await asyncio.start_unix_server(daemon.answer, socket_path, limit=LIMIT)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    await reader.read()
    server.close()
    for session in daemon.sessions.values():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(session.shell.pid, signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2:]))
