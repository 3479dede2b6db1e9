"""Where a simulated machine's commands run: bubblewrap, or plainly as processes where it does not work."""

import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulators.daytona.routes import Routes

Json = dict[str, Any]
START_S = 20.0
HOME = "/home/daytona"
SOCKET = "daemon.sock"
_DAEMON = Path(__file__).with_name("daemon.py")
_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_ETC = (
    "alternatives",
    "ca-certificates",
    "ld.so.cache",
    "localtime",
    "mime.types",
    "os-release",
    "ssl",
    "hosts",
)


class BoxGone(Exception):
    """The daemon in the machine can't be reached: the real proxy answers 502 then."""


def isolation() -> str:
    """``bubblewrap`` or, where it is missing, ``process``: then nothing is isolated, which every machine shows."""
    return "bubblewrap" if shutil.which("bwrap") else "process"


class Box:
    """One machine's processes and files, below ``directory``; ``network`` False leaves it only loopback, and in it
    ``routes``: ports that lead to the same port of this host.
    """

    def __init__(
        self, directory: Path, *, network: bool, isolated: bool, image: Path, routes: Sequence[int] = ()
    ) -> None:
        self._directory = directory
        self._network = network
        self._isolated = isolated
        self._image = image
        self._process: asyncio.subprocess.Process | None = None
        # Short: a socket's path may have about 107 bytes.
        self._run = Path(tempfile.mkdtemp(prefix="iwd-"))
        self._ports = [] if network or not isolated else list(routes)
        self._routes = Routes(self._run, self._ports)
        self.home = directory / "home"
        self.home.mkdir(parents=True, exist_ok=True)

    async def start(self, environment: dict[str, str]) -> None:
        """Returns when the daemon answers. What a stop left in the home is there again. Raises BoxGone."""
        (self._run / SOCKET).unlink(missing_ok=True)
        await self._routes.open()
        python = str(_python())
        if self._isolated:
            command = [*self._bwrap(), python, "-I", "-S", "/opt/daemon.py", f"/run/daytona/{SOCKET}"]
            command += [str(port) for port in self._ports]
            own = {"HOME": HOME, "PATH": "/opt/image/bin:/usr/local/bin:/usr/bin:/bin"}
        else:
            command = [python, "-I", "-S", str(_DAEMON), str(self._run / SOCKET)]
            path = f"{self._image / 'bin'}:{os.environ.get('PATH', os.defpath)}"
            own = {"HOME": str(self.home), "PATH": path, "TMPDIR": str(self._run)}
        log = (self._directory / "daemon.log").open("ab")
        self._process = await asyncio.create_subprocess_exec(
            *command, env={"LANG": "C.UTF-8", **environment, **own}, stdin=asyncio.subprocess.PIPE,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        try:
            async with asyncio.timeout(START_S):
                while not await self._listens():
                    if self._process.returncode is not None:
                        raise BoxGone((self._directory / "daemon.log").read_text()[-500:])
                    await asyncio.sleep(0.01)
        except TimeoutError as error:
            raise BoxGone("the daemon did not start") from error

    async def _listens(self) -> bool:
        """A socket's file is there a moment before anybody listens at it."""
        try:
            _, writer = await asyncio.open_unix_connection(str(self._run / SOCKET))
        except OSError:
            return False
        writer.close()
        return True

    async def ask(self, op: str, data: bytes = b"", **facts: Any) -> tuple[Json, bytes]:
        """One request to the daemon; its facts (with ``status``) and bytes. Raises BoxGone."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self._run / SOCKET), limit=2**26)
        except OSError as error:
            raise BoxGone(str(error)) from error
        try:
            writer.write(json.dumps({"op": op, "length": len(data), **facts}).encode() + b"\n" + data)
            await writer.drain()
            line = await reader.readline()
            if not line:
                raise BoxGone("no answer")
            answer: Json = json.loads(line)
            return answer, await reader.readexactly(int(answer["length"]))
        except (OSError, asyncio.IncompleteReadError) as error:
            raise BoxGone(str(error)) from error
        finally:
            writer.close()

    async def kill(self) -> None:
        """Everything inside ends at once, as on a kill -9 or a power cut."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            if process.stdin is not None:
                process.stdin.close()
            if self._isolated:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            try:
                async with asyncio.timeout(2):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        (self._run / SOCKET).unlink(missing_ok=True)
        self._routes.close()

    async def remove(self) -> None:
        """Also its files."""
        await self.kill()
        for path in (self._run, self._directory):
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)

    def _bwrap(self) -> list[str]:
        arguments = ["bwrap", "--unshare-user", "--unshare-all", *(["--share-net"] if self._network else [])]
        arguments += ["--uid", "1000", "--gid", "1000", "--hostname", "daytona", "--die-with-parent"]
        arguments += ["--cap-drop", "ALL", "--ro-bind", "/usr", "/usr"]
        for link in _LINKS:
            if Path(link).is_symlink():
                arguments += ["--symlink", str(Path(link).readlink()), link]
            elif Path(link).is_dir():
                arguments += ["--ro-bind", link, link]
        for name in _ETC:
            arguments += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        for name in ("passwd", "group", "nsswitch.conf", "issuewright-image"):
            arguments += ["--ro-bind-try", str(self._image / "etc" / name), f"/etc/{name}"]
        prefix = Path(sys.base_prefix)
        if not prefix.is_relative_to("/usr"):
            arguments += ["--ro-bind", str(prefix), str(prefix)]
        packages = find_packages()
        arguments += ["--ro-bind", str(packages), "/opt/packages"] if packages else []
        arguments += ["--ro-bind", str(self._image / "bin"), "/opt/image/bin"]
        arguments += ["--ro-bind", str(_DAEMON), "/opt/daemon.py", "--bind", str(self._run), "/run/daytona"]
        arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
        return [*arguments, "--bind", str(self.home), HOME, "--chdir", HOME, "--remount-ro", "/", "--"]


def make_image(directory: Path, version: str, *, isolated: bool) -> Path:
    """What every machine shares: a ``python3`` with the agent's SDK, and files of /etc."""
    packages = "/opt/packages" if isolated else str(find_packages() or "")
    for name in ("bin", "etc"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    wrapper = directory / "bin" / "python3"
    wrapper.write_text(
        f'#!/bin/sh\nexport PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}{packages}"\nexec {_python()} "$@"\n'
    )
    wrapper.chmod(0o755)
    (directory / "bin" / "python").unlink(missing_ok=True)
    (directory / "bin" / "python").symlink_to("python3")
    (directory / "etc" / "passwd").write_text(f"daytona:x:1000:1000::{HOME}:/bin/bash\n")
    (directory / "etc" / "group").write_text("daytona:x:1000:\n")
    (directory / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")
    (directory / "etc" / "issuewright-image").write_text(f"{version}\n")
    return directory


def find_packages() -> Path | None:
    """Where the agent's SDK is installed."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    return Path(spec.origin).parent.parent if spec is not None and spec.origin else None


def _python() -> Path:
    named = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    return named if named.exists() else Path(sys.executable).resolve()
