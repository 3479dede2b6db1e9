"""A short private directory for unix sockets (their paths may not exceed about 107 bytes)."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from pathlib import Path

from app.domain.errors import SettingsError

MAX_SOCKET_PATH = 100


def runtime_path(home: Path, socket_name: str = "redis.sock") -> Path:
    """HOME/run when a socket in it has a path short enough, else a directory under the system's temporary one that is
    named by the user and a hash of HOME. Nothing is created, and nothing else may use it: a directory with the web
    process's sockets is bound into sandboxes, and these must never reach Redis.
    """
    near = home / "run"
    if len(os.fsencode(near / socket_name)) <= MAX_SOCKET_PATH:
        return near
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"issuewright-redis-{os.getuid()}-{digest}"


def ensure_runtime_dir(path: Path) -> Path:
    """Make it, 0700 and ours. Raises SettingsError when someone else got there first (a temporary directory is open
    to all) or it can't be made.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        seen = path.lstat()
    except OSError as error:
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {path} can't be made ({error.strerror}); name a directory of your own"
        ) from None
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {path} belongs to someone else; name a shorter directory of your own"
        )
    if stat.S_IMODE(seen.st_mode) != 0o700:
        path.chmod(0o700)
    return path


def remove_left(path: Path) -> None:
    """Removes what a process that was killed left there, if anything. Raises SettingsError when that is no file, or is
    not to be removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {path} can't be replaced ({error.strerror}); remove it, or name a directory of your own"
        ) from None
