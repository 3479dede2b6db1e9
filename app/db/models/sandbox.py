"""Sandboxes and what passes between them and us."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, LargeBinary, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import Json, state_column
from app.domain.states import SANDBOX_LIVE, MessageState, SandboxState

_LIVE_SQL = "state IN ({})".format(", ".join(f"'{state.value}'" for state in sorted(SANDBOX_LIVE)))
_WAITING_SQL = "state IN ('queued', 'sent')"
_KEPT_SQL = "events_removed_at IS NULL AND ended_at IS NOT NULL"


class Sandbox(Base):
    """One isolated machine running one agent for one task, or for planning (then without a task); `attempt` counts tries."""

    __tablename__ = "sandbox"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), index=True)
    task_id: Mapped[str | None] = mapped_column(ForeignKey("task.id", ondelete="CASCADE"))
    phase: Mapped[str | None] = mapped_column(String(32))
    attempt: Mapped[int]
    state: Mapped[SandboxState] = mapped_column(state_column(SandboxState, "state"))
    reason: Mapped[str | None] = mapped_column(Text)
    provider: Mapped[str] = mapped_column(String(16))
    provider_name: Mapped[str] = mapped_column(String(100), unique=True)
    host_id: Mapped[str | None] = mapped_column(String(64))
    """The host whose local provider owns it; None for a remote provider. Only that host touches it."""
    token_hash: Mapped[str] = mapped_column(String(64), index=True)
    """SHA-256 of the sandbox token, hex. The token itself is derived when needed and stored nowhere."""
    start_sha: Mapped[str] = mapped_column(String(64))
    model: Mapped[str | None] = mapped_column(String(200))
    budget_usd: Mapped[float]
    spent_usd: Mapped[float] = mapped_column(default=0.0)
    reserved_usd: Mapped[float] = mapped_column(default=0.0)
    last_spent_at: Mapped[datetime | None]
    """When what it has spent grew last; None: nothing known of it is younger than the row itself."""
    spent_before_usd: Mapped[float] = mapped_column(default=0.0, server_default="0")
    """How much of what it has spent was spent before the day (UTC) of `last_spent_at`."""
    model_key_of: Mapped[str | None] = mapped_column(String(16))
    """Whose key its model calls use: user, installation or operator. None before the first call."""
    model_key_trouble: Mapped[str | None] = mapped_column(Text)
    """Why the newest call did not get past that key, for people; None when it did."""
    account_of: Mapped[str | None] = mapped_column(String(40))
    """Whose account at the provider it was made in, as `user ID` or `installation ID`; None: the operator's."""
    noted_seq: Mapped[int] = mapped_column(BigInteger, default=0, server_default="0")
    """The newest event of a planning sandbox that the worker has dealt with."""
    session_id: Mapped[str | None] = mapped_column(String(64))
    last_seq: Mapped[int] = mapped_column(default=0)
    """Highest contiguous event seq stored."""
    turns: Mapped[int] = mapped_column(default=0)
    tools: Mapped[int] = mapped_column(default=0)
    last_tool: Mapped[str | None] = mapped_column(String(200))
    activity: Mapped[str | None] = mapped_column(String(16))
    """starting, working or waiting, from its events."""
    last_heartbeat_at: Mapped[datetime | None]
    last_work_at: Mapped[datetime | None]
    ordered_at: Mapped[datetime | None]
    """When the provider was asked for it first."""
    running: Mapped[str | None] = mapped_column(String(200))
    """The tool that the newest heartbeat says is running, or `background`; None when nothing is."""
    gap_since_at: Mapped[datetime | None]
    """Since when an event before others that have arrived is missing; None while there is no gap."""
    trouble: Mapped[str | None] = mapped_column(String(32))
    """What supervision found (a Trouble's value), for the next step to deal with."""
    memory_gb: Mapped[int | None]
    """As ordered. None in rows that a release before this column wrote."""
    collected_round: Mapped[int] = mapped_column(default=0)
    """The manifest round the worker has dealt with."""
    manifest_round: Mapped[int] = mapped_column(default=0)
    """The newest manifest round stored."""
    stop_asked_at: Mapped[datetime | None]
    exit_code: Mapped[int | None]
    deadline_at: Mapped[datetime]
    created_at: Mapped[datetime]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    removed_at: Mapped[datetime | None]
    """When the provider no longer had it."""
    updated_at: Mapped[datetime]
    events_passed_over: Mapped[int] = mapped_column(default=0, server_default="0")
    """Events that were acknowledged and not stored, because there had been too many."""
    archived_at: Mapped[datetime | None]
    """When its events and transcript were written to the archive, whole."""
    events_removed_at: Mapped[datetime | None]
    """When, after that, they were removed here."""

    __table_args__ = (
        UniqueConstraint("task_id", "attempt"),
        Index(
            "ix_sandbox_kept_ended_at",
            "ended_at",
            sqlite_where=text(_KEPT_SQL),
            postgresql_where=text(_KEPT_SQL),
        ),
        Index(
            "uq_sandbox_live_task_id",
            "task_id",
            unique=True,
            sqlite_where=text(_LIVE_SQL),
            postgresql_where=text(_LIVE_SQL),
        ),
        Index(
            "uq_sandbox_live_planning",
            "spec_id",
            unique=True,
            sqlite_where=text(f"task_id IS NULL AND {_LIVE_SQL}"),
            postgresql_where=text(f"task_id IS NULL AND {_LIVE_SQL}"),
        ),
        Index("ix_sandbox_created_at_id", "created_at", "id"),
        Index("ix_sandbox_removed_at", "removed_at"),
    )


class Event(Base):
    """One numbered thing a sandbox reports. Stored even with gaps before it; acknowledged up to the first gap."""

    __tablename__ = "event"

    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    event_type: Mapped[str] = mapped_column(String(100))
    event_data: Mapped[dict[str, Any]] = mapped_column(Json)
    source: Mapped[str] = mapped_column(String(16))
    timestamp: Mapped[datetime]
    received_at: Mapped[datetime]

    __table_args__ = (Index("ix_event_sandbox_id_event_type_seq", "sandbox_id", "event_type", "seq"),)


class EventText(Base):
    """The whole text of an event's field whose own copy was cut."""

    __tablename__ = "event_text"

    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    """UTF-8, compressed by zlib."""


class Message(Base):
    """One text for the agent; `id` is the uuid the agent's session knows it by, so it is applied once."""

    __tablename__ = "message"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    spec_id: Mapped[str | None] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"))
    """None only in rows that a release before this column wrote: then it is the sandbox's."""
    sandbox_id: Mapped[str | None] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"))
    """None while it waits for the spec's next sandbox."""
    seq: Mapped[int]
    """From 1, without gaps, per sandbox; 0 while it waits for one."""
    message_type: Mapped[str] = mapped_column(String(32))
    content: Mapped[str] = mapped_column(Text)
    author_id: Mapped[int | None] = mapped_column(BigInteger)
    author_login: Mapped[str | None] = mapped_column(String(100))
    """As it was called when it wrote; None for the operator's and our own."""
    comment_id: Mapped[int | None] = mapped_column(BigInteger)
    """The comment on GitHub that it came from; None for the operator's and our own."""
    place: Mapped[str | None] = mapped_column(String(100))
    """Where the words stand, as the end of an address in the repository; None for the operator's and our own."""
    state: Mapped[MessageState] = mapped_column(state_column(MessageState, "state"))
    created_at: Mapped[datetime]
    sent_at: Mapped[datetime | None]
    acknowledged_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("sandbox_id", "seq"),
        Index(
            "ix_message_waiting_spec_id",
            "spec_id",
            sqlite_where=text(_WAITING_SQL),
            postgresql_where=text(_WAITING_SQL),
        ),
        Index("ix_message_comment_id", "comment_id"),
        Index("ix_message_author_id_created_at", "author_id", "created_at"),
    )


class Artifact(Base):
    """A file a sandbox handed over. Written chunk by chunk; `current` flips to it in one commit at the end."""

    __tablename__ = "artifact"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(String(64))
    sha256: Mapped[str] = mapped_column(String(64))
    size: Mapped[int] = mapped_column(default=0)
    current: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime]

    __table_args__ = (
        Index(
            "uq_artifact_current_sandbox_id_name",
            "sandbox_id",
            "name",
            unique=True,
            sqlite_where=text("current"),
            postgresql_where=text("current"),
        ),
    )


class ArtifactChunk(Base):
    __tablename__ = "artifact_chunk"

    artifact_id: Mapped[str] = mapped_column(ForeignKey("artifact.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    data: Mapped[bytes] = mapped_column(LargeBinary)


class ModelCall(Base):
    """One request to the model, of an agent or of the guardian: what was reserved before and what it cost after."""

    __tablename__ = "model_call"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), index=True)
    model: Mapped[str] = mapped_column(String(200))
    reserved_usd: Mapped[float]
    cost_usd: Mapped[float | None]
    """None until settled; a reservation left by a killed process is settled as spent by the sweep."""
    input_tokens: Mapped[int] = mapped_column(default=0)
    output_tokens: Mapped[int] = mapped_column(default=0)
    cache_tokens: Mapped[int] = mapped_column(default=0)
    status: Mapped[int | None]
    asked_by: Mapped[str] = mapped_column(String(16), default="agent", server_default="agent")
    """`agent`, through the gateway; or `guardian`, about that agent."""
    started_at: Mapped[datetime]
    settled_at: Mapped[datetime | None] = mapped_column(index=True)
