"""Runs inside a sandbox that `issuewright doctor` made for it, and tries to get out. Only the standard library is there.

Arguments: a word to prove that this ran, the path of a file of the host, and the port of a server of the host. Prints one
JSON object: the word, and for each way out whether it was open.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import closing

_ELSEWHERE = ("192.0.2.1", 443)
"""An address that nobody has (RFC 5737): whether there is a route to it is all that is asked."""
_OWN_PROCESSES = 3
"""bubblewrap's own first process, this one, and one to spare."""


def _reads(path: str) -> bool:
    with open(path, "rb") as file:  # noqa: PTH123
        return bool(file.read(1))


def _connects(family: socket.AddressFamily, address: tuple[str, int] | str) -> bool:
    with closing(socket.socket(family, socket.SOCK_STREAM)) as connection:
        connection.settimeout(1.0)
        connection.connect(address)
    return True


def _has_route() -> bool:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        probe.connect(_ELSEWHERE)  # sends nothing
    return True


def _writes_system() -> bool:
    path = f"/usr/issuewright-{os.getpid()}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)  # noqa: PTH108
    return True


def _sees_processes() -> bool:
    return sum(name.isdigit() for name in os.listdir("/proc")) > _OWN_PROCESSES  # noqa: PTH208


def _open(way: Callable[[], bool]) -> bool:
    try:
        return way()
    except OSError:
        return False


def main(word: str, host_file: str, port: str) -> None:
    ways: dict[str, Callable[[], bool]] = {
        "a file of the host": lambda: _reads(host_file),
        "a server on the host's loopback": lambda: _connects(socket.AF_INET, ("127.0.0.1", int(port))),
        "an abstract socket of the host": lambda: _connects(socket.AF_UNIX, f"\0{word}"),
        "a route to the internet": _has_route,
        "the system's files, for writing": _writes_system,
        "the host's processes": _sees_processes,
    }
    print(json.dumps({"word": word, "open": [name for name, way in ways.items() if _open(way)]}))


if __name__ == "__main__":
    main(*sys.argv[1:])
