"""Calls of the sandbox API as files, for a sandbox that can't reach the app: a worker carries them.

Below the payload's state directory, `relay/out/index.json` holds the calls that wait (`RelayIndex`), at most one a lane;
the body of one stands in `relay/out/CALL.body`. The answer to a lane's newest call is put into `relay/in/LANE.json`
(`RelayedAnswer`), which may be seen half-written: what is no whole JSON is not there yet. A call that is made again gets
a new number, and an answer that names another call is not for it, so files may be lost, doubled or late.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from sandbox_payload.wire.base import Wire

RELAY_DIR = "relay"
OUT_DIR = "out"
IN_DIR = "in"
INDEX_FILE = "index.json"
MAX_INDEX_BYTES = 16_000


class Lane(StrEnum):
    """Calls of one lane wait for one another, those of different lanes do not."""

    EVENTS = "events"
    MESSAGES = "messages"
    ACKS = "acks"
    ARTIFACTS = "artifacts"


class RelayedCall(Wire):
    """One request. `path` begins after `/api/v1/sandboxes/ID`; `size` is the body's in bytes, None without a body."""

    call: str = Field(pattern=r"^[0-9a-f]{16}$")
    method: str = Field(max_length=10)
    path: str = Field(max_length=200)
    size: int | None = Field(default=None, ge=0)
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")


class RelayIndex(Wire):
    calls: dict[Lane, RelayedCall] = Field(default_factory=dict)


class RelayedAnswer(Wire):
    """What the app answered to `call`."""

    call: str
    status: int = Field(ge=100, le=599)
    body: str = ""
    retry_after: str | None = None
