"""Starts a keeper as a process apart from this one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from app.domain.errors import Unexpected
from app.sandbox.state_dir import StateDir

_START_S = 15.0


def start_keeper(directory: StateDir, maker: socket.socket | None = None) -> None:
    """Returns as soon as it is in the background with the lock of `directory` in its hand. With `maker`, its end of a
    socket, it is a spare one. Raises Unexpected when it does not start.
    """
    with directory.keeper_log.open("ab") as log:
        starter = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "app.sandbox.keeper"),
                *(("--spare",) if maker is not None else ()),
                str(directory.path),
            ],
            stdin=maker.fileno() if maker is not None else subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            start_new_session=True,
        )
    try:
        code = starter.wait(_START_S)
    except subprocess.TimeoutExpired:
        starter.kill()
        code = starter.wait()
    if code != 0:
        raise Unexpected(
            f"the keeper of {directory.name} did not start ({code}): {directory.read_keeper_log()}"
        )


def _environment() -> dict[str, str]:
    """The keeper needs to find Python, git and this package, and nothing that its starter knows beside."""
    package_root = str(Path(__file__).resolve().parents[2])
    return {"PATH": os.environ.get("PATH", os.defpath), "PYTHONPATH": package_root, "LANG": "C.UTF-8"}
