"""Git smart HTTP through ``git http-backend``, with GitHub's access rules."""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from simulators.github.actions.refs import after_ref_update
from simulators.github.auth import Principal, basic_token, check_token
from simulators.github.clock import iso
from simulators.github.errors import ApiError
from simulators.github.faults import Fault, Faults
from simulators.github.gateway import drop_connection
from simulators.github.git import clean_environment
from simulators.github.journal import Entry, Journal
from simulators.github.model import Repository
from simulators.github.platform import Platform

GIT_PATH = re.compile(r"/([^/]+)/([^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)")
CHUNK = 64 * 1024


@dataclass(frozen=True)
class GitCall:
    """One authorized git request."""

    repository: Repository
    service: str
    rest: str
    principal: Principal | None


@dataclass(frozen=True)
class Refusal:
    """An answer in plain text, as git shows it to people."""

    status: int
    text: str


class GitFront:
    """Answers git's requests."""

    def __init__(self, platform: Platform, journal: Journal, faults: Faults) -> None:
        self.platform = platform
        self.journal = journal
        self.faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request whose path matches :data:`GIT_PATH`."""
        headers = Headers(scope=scope)
        path = scope["path"]
        query = scope["query_string"].decode("latin-1")
        entry = self.journal.open("git", scope["method"], path, query, iso(self.platform.world.now()))
        fault = self.faults.pick(scope["method"], path, "git")
        if fault is not None and await self._broken(fault, entry, receive, send):
            return
        call = self._authorize(path, query, headers, entry)
        if isinstance(call, Refusal):
            entry.status = call.status
            await refuse(send, call)
            return
        with tempfile.TemporaryDirectory(dir=self.platform.world.directory) as scratch:
            body = Path(scratch, "body")
            if not await spool_body(receive, body):
                return
            received = Path(scratch, "received")
            env = self._environment(scope, headers, call, body, received)
            entry.status = await self._run(env, body, send, call, received)

    async def _broken(self, fault: Fault, entry: Entry, receive: Receive, send: Send) -> bool:
        """Acts out a fault that comes before the work; True when that was the answer."""
        entry.fault = fault.id
        await asyncio.sleep(fault.delay_s)
        if fault.drop:
            await drop_connection(receive, send)
            return True
        if fault.status is not None:
            entry.status = fault.status
            await refuse(send, Refusal(fault.status, fault.message or "Server Error"))
            return True
        return False

    def _authorize(
        self, path: str, query: str, headers: Mapping[str, str], entry: Entry
    ) -> GitCall | Refusal:
        match = GIT_PATH.fullmatch(path)
        if match is None:
            return Refusal(404, "Not Found")
        owner, name, rest = match.groups()
        world = self.platform.world
        repository = world.find_repository(unquote(owner), unquote(name)) or world.find_moved(owner, name)
        service = re.sub(r"^service=", "", query) if rest == "info/refs" else rest
        if service not in ("git-upload-pack", "git-receive-pack"):
            return Refusal(403, "Please upgrade your git client.")
        token = basic_token(headers)
        if token is None:
            readable = repository is not None and not repository.private and service == "git-upload-pack"
            if repository is not None and readable and "authorization" not in headers:
                return GitCall(repository, service, rest, None)
            return Refusal(401, "Repository not found." if token is None else "Bad credentials")
        try:
            principal = check_token(world, token)
        except ApiError as error:
            return Refusal(401 if error.status == 401 else 403, "Invalid username or token.")
        entry.caller = {**principal.describe(), "kind": "git"}
        if repository is None or not principal.sees(repository, world):
            return Refusal(404, "Repository not found.")
        return self._with_permission(GitCall(repository, service, rest, principal), principal)

    def _with_permission(self, call: GitCall, principal: Principal) -> GitCall | Refusal:
        name = self.platform.world.full_name(call.repository)
        push = call.service == "git-receive-pack"
        if not principal.can("contents:write" if push else "contents:read"):
            bot = principal.bot(self.platform.world).login
            return Refusal(403, f"Permission to {name}.git denied to {bot}.")
        if push and call.repository.archived:
            return Refusal(403, "This repository was archived so it is read-only.")
        if call.repository.disabled:
            return Refusal(403, f"Repository access to {name} is disabled.")
        return call

    def _environment(
        self, scope: Scope, headers: Headers, call: GitCall, body: Path, received: Path
    ) -> dict[str, str]:
        env = clean_environment()
        env.update(
            GIT_PROJECT_ROOT=str(call.repository.git.path.parent),
            GIT_HTTP_EXPORT_ALL="1",
            PATH_INFO=f"/{call.repository.git.path.name}/{call.rest}",
            QUERY_STRING=scope["query_string"].decode("latin-1"),
            REQUEST_METHOD=scope["method"],
            CONTENT_TYPE=headers.get("content-type", ""),
            CONTENT_LENGTH=str(body.stat().st_size),
            GIT_PROTOCOL=headers.get("git-protocol", ""),
            HTTP_CONTENT_ENCODING=headers.get("content-encoding", ""),
            SIM_RECEIVED=str(received),
            SIM_ACTOR="app",
            SIM_PROTECTED=json.dumps(call.repository.protected),
            SIM_SECRETS=json.dumps(self.platform.push_protection),
        )
        if call.principal is not None:
            env["REMOTE_USER"] = "x-access-token"
            env["SIM_WORKFLOWS"] = "1" if call.principal.can("workflows:write") else "0"
        return env

    async def _run(self, env: dict[str, str], body: Path, send: Send, call: GitCall, received: Path) -> int:
        source = os.open(body, os.O_RDONLY)
        try:
            process = await asyncio.create_subprocess_exec(
                "git",
                "http-backend",
                stdin=source,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=env,
            )
        finally:
            os.close(source)
        output = process.stdout
        if output is None:
            raise RuntimeError("no pipe to git http-backend")
        try:
            status, headers = await read_cgi_head(output)
            await send({"type": "http.response.start", "status": status, "headers": headers})
            while chunk := await output.read(CHUNK):
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
            self._announce(call, received)
        await send({"type": "http.response.body", "body": b""})
        return status

    def _announce(self, call: GitCall, received: Path) -> None:
        """Lets pull requests and webhooks follow what the post-receive hook wrote down."""
        if call.principal is None or not received.exists():
            return
        actor = call.principal.bot(self.platform.world)
        for line in received.read_text(encoding="utf-8").splitlines():
            old, new, ref = line.split(" ", 2)
            after_ref_update(self.platform, call.repository, ref, old, new, actor)


async def spool_body(receive: Receive, target: Path) -> bool:
    """Writes the request body, of whatever size, to a file; False when the client went away."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            os.write(descriptor, message.get("body", b""))
            if not message.get("more_body"):
                return True
    finally:
        os.close(descriptor)


async def read_cgi_head(output: asyncio.StreamReader) -> tuple[int, list[tuple[bytes, bytes]]]:
    """Status and headers of a CGI answer."""
    status = 200
    headers = []
    while (line := (await output.readline()).strip()) != b"":
        name, _, value = line.partition(b":")
        if name.lower() == b"status":
            status = int(value.split()[0])
        else:
            headers.append((name.lower(), value.strip()))
    return (status if headers else 500), headers


async def refuse(send: Send, refusal: Refusal) -> None:
    """Writes a refusal; 401 asks for Basic credentials."""
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Basic realm="GitHub"'))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": refusal.text.encode()})
