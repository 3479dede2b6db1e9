"""The bubblewrap profile: what a sandbox sees of the host, spelled out. Everything not named here is not there.

Namespaces for user, processes, mounts, IPC, host name, network and cgroups; no capabilities; nothing writable but the
work tree, the state, the home and /tmp (all on disk, counted) and a small /dev/shm. The directory of the app's socket
comes in read-only, so that a sandbox can connect but not put a socket of its own in its place.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from app.sandbox.interpreter import Interpreter
from app.sandbox.order import KeeperOrder
from app.sandbox.state_dir import StateDir

USER_ID = 1000
"""Inside, the payload is a plain user whoever runs the app: tools that refuse root work, modes mean something."""

WORKSPACE = Path("/workspace")
STATE = Path("/state")
INPUTS = Path("/inputs")
HOME = Path("/home/agent")
TOKEN = Path("/run/issuewright/token")
SOCKETS = Path("/run/issuewright/app")
PAYLOAD = Path("/opt/issuewright/payload")
PACKAGES = Path("/opt/issuewright/packages")

_SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_MADE_UP = {
    "passwd": f"root:x:0:0:root:/root:/bin/sh\nagent:x:{USER_ID}:{USER_ID}:agent:{HOME}:/bin/bash\n",
    "group": f"root:x:0:\nagent:x:{USER_ID}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def write_made_up_files(etc: Path) -> None:
    for name, text in _MADE_UP.items():
        (etc / name).write_text(text)


def bwrap_command(
    order: KeeperOrder, directory: StateDir, interpreter: Interpreter, command: list[str]
) -> list[str]:
    """The argv that runs `command` in the sandbox of `directory`. The environment is passed on as it is: none of it
    stands on the command line.
    """
    return [
        *order.bwrap,
        "--unshare-user",
        "--unshare-all",
        *("--uid", str(USER_ID), "--gid", str(USER_ID), "--hostname", "sandbox"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_system(),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(order.pace.shm_bytes), "--perms", "1777", "--tmpfs", "/dev/shm"),  # noqa: S108 - inside
        *("--remount-ro", "/dev"),
        *_own(directory),
        *("--ro-bind", order.socket_dir, str(SOCKETS)),
        *_python(interpreter),
        *("--chdir", str(WORKSPACE), "--remount-ro", "/"),
        "--",
        *command,
    ]


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for path in _SYSTEM_LINKS:
        if os.path.islink(path):  # noqa: PTH114 - pure text in, pure text out
            arguments += ["--symlink", os.readlink(path), path]  # noqa: PTH115
        elif Path(path).is_dir():
            arguments += ["--ro-bind", path, path]
    for path in _SYSTEM_FILES:
        arguments += ["--ro-bind-try", path, path]
    return arguments


def _own(directory: StateDir) -> list[str]:
    arguments: list[str] = []
    for name in _MADE_UP:
        arguments += ["--ro-bind", str(directory.etc / name), f"/etc/{name}"]
    for source, inside in (
        (directory.tmp, Path("/tmp")),  # noqa: S108 - inside
        (directory.home, HOME),
        (directory.work, WORKSPACE),
        (directory.state, STATE),
    ):
        arguments += ["--bind", str(source), str(inside)]
    for source, inside in (
        (directory.inputs, INPUTS),
        (directory.token, TOKEN),
        (directory.payload, PAYLOAD),
    ):
        arguments += ["--ro-bind", str(source), str(inside)]
    return arguments


def _python(interpreter: Interpreter) -> list[str]:
    arguments: list[str] = []
    for prefix in interpreter.prefixes:
        if not prefix.is_relative_to("/usr"):
            arguments += ["--ro-bind", str(prefix), str(prefix)]
    if interpreter.packages is not None:
        arguments += ["--ro-bind", str(interpreter.packages), str(PACKAGES)]
    return arguments


def python_environment(payload: Path, packages: Path | None) -> Mapping[str, str]:
    """What makes the base interpreter find the payload and the SDK, and leave nothing behind."""
    entries = [payload, *([packages] if packages is not None else [])]
    return {
        "PYTHONPATH": os.pathsep.join(str(entry) for entry in entries),
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }


def inside_path(interpreter: Interpreter) -> str:
    """PATH inside; the app's own Python comes last, for hosts that bring none."""
    own = str(interpreter.executable.parent)
    return os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin", own))
