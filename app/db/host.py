"""Which machine this is: local sandboxes belong to the host that made them, and only that host touches them."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

HOST_FILE = "host-id"


def host_id(home: Path) -> str:
    """A name made once per ISSUEWRIGHT_HOME: 16 hexadecimal characters. Host names change and repeat, this does not.

    Two processes that ask at the same time for the first time get the same answer.
    """
    path = home / HOST_FILE
    if not path.exists():
        fresh = home / f".{HOST_FILE}-{os.getpid()}-{secrets.token_hex(4)}"
        fresh.write_text(secrets.token_hex(8) + "\n")
        # A link fails when the name exists: the first one wins, whole or not at all.
        with suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text().strip()
