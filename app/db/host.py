"""Which machine this is: local sandboxes belong to the host that made them, and only that host touches them."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from app.domain.errors import SettingsError

HOST_FILE = "host-id"
_NAME = re.compile(r"[0-9a-f]{16}")


def host_id(home: Path) -> str:
    """A name made once per ISSUEWRIGHT_HOME: 16 hexadecimal characters. Host names change and repeat, this does not.

    Two processes that ask at the same time for the first time get the same answer. Raises SettingsError when something
    else stands in its file: with no name of its own this machine would take others' sandboxes for its own.
    """
    path = home / HOST_FILE
    if not path.exists():
        _make(path)
    try:
        name = path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        name = ""
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {path} does not hold this machine's name (16 hexadecimal characters); remove it, and a "
            "new one is made"
        )
    return name


def _make(path: Path) -> None:
    fresh = path.with_name(f".{HOST_FILE}-{os.getpid()}-{secrets.token_hex(4)}")
    with fresh.open("w") as file:
        file.write(secrets.token_hex(8) + "\n")
        file.flush()
        os.fsync(file.fileno())  # else a power cut may leave the name without what it names
    # A link fails when the name exists: the first one wins, whole or not at all.
    with suppress(FileExistsError):
        os.link(fresh, path)
    fresh.unlink()
