"""Where the sockets for local sandboxes are, and how they are bound."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
import tempfile
from pathlib import Path

from app.domain.errors import SettingsError
from app.queue.runtime_dir import MAX_SOCKET_PATH, ensure_runtime_dir, remove_left

GATEWAY_SOCKET = "gateway.sock"
PROXY_SOCKET = "proxy.sock"


def gateway_dir(home: Path) -> Path:
    """The directory that is bound into local sandboxes: `HOME/run/gw`, or a short one of this user when that is too
    long. Made when missing, 0700. Raises SettingsError when it can't be made or is someone else's.
    """
    path = home / "run" / "gw"
    if len(os.fsencode(path / GATEWAY_SOCKET)) > MAX_SOCKET_PATH:
        digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
        path = Path(tempfile.gettempdir()) / f"issuewright-{os.getuid()}-{digest}-gw"
    else:
        ensure_runtime_dir(path.parent)
    return ensure_runtime_dir(path)


def bind_tcp(host: str, port: int) -> socket.socket:
    """Raises SettingsError when the address is taken or not this machine's."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError:
        raise SettingsError(f"HOST: {host} is no address of this machine; use 127.0.0.1 or 0.0.0.0") from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SettingsError(
                f"PORT: {port} on {host} is taken; stop what uses it or set another PORT"
            ) from None
        raise SettingsError(f"HOST: can't listen on {host}:{port} ({error.strerror})") from None
    listener.setblocking(False)
    return listener


def clear_stale(path: Path) -> None:
    """Removes a socket that nobody answers on. Raises SettingsError when somebody does (another web process), or
    it can't be removed.
    """
    if not path.is_socket():
        remove_left(path)
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            remove_left(path)
            return
    raise SettingsError(
        f"ISSUEWRIGHT_HOME: another web process serves {path}; stop it, or give this one its own ISSUEWRIGHT_HOME"
    )


def bind_unix(path: Path) -> socket.socket:
    """A fresh listening socket at `path`, 0600. Raises SettingsError."""
    clear_stale(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise SettingsError(f"ISSUEWRIGHT_HOME: {path} can't be made ({error.strerror})") from None
    listener.setblocking(False)
    return listener
