"""What GitHub told us and what we owe it: deliveries, installations, repositories, effects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Index, String, Text, false
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import Json, PackedBytes, state_column
from app.domain.states import DeliveryState, EffectState


class Delivery(Base):
    """One HTTP POST from GitHub by its GUID, stored raw once. `state` says what became of it."""

    __tablename__ = "delivery"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    event: Mapped[str] = mapped_column(String(64))
    headers: Mapped[dict[str, str]] = mapped_column(Json)
    body: Mapped[bytes] = mapped_column(PackedBytes)
    received_at: Mapped[datetime]
    state: Mapped[DeliveryState] = mapped_column(state_column(DeliveryState, "state"))
    intent: Mapped[str | None] = mapped_column(String(32))
    reason: Mapped[str | None] = mapped_column(Text)
    action: Mapped[str | None] = mapped_column(String(64))
    installation_id: Mapped[int | None] = mapped_column(BigInteger)
    repo_id: Mapped[int | None] = mapped_column(BigInteger)
    issue_number: Mapped[int | None]
    spec_id: Mapped[str | None] = mapped_column(String(32))
    attempts: Mapped[int] = mapped_column(default=0)
    not_before_at: Mapped[datetime | None]
    claimed_until_at: Mapped[datetime | None]
    handled_at: Mapped[datetime | None]

    __table_args__ = (
        Index("ix_delivery_state_received_at", "state", "received_at"),
        Index("ix_delivery_repo_id_issue_number", "repo_id", "issue_number"),
    )


class Installation(Base):
    """An account that installed the App. Carries the pace of writes to it (one per second on average)."""

    __tablename__ = "installation"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    account_id: Mapped[int | None] = mapped_column(BigInteger)
    account_login: Mapped[str | None] = mapped_column(String(100))
    state: Mapped[str] = mapped_column(String(16), default="active")
    """active, suspended or deleted."""
    not_before_at: Mapped[datetime | None]
    """No call at all before this time: GitHub asked for a pause."""
    next_write_at: Mapped[datetime | None]
    background_turn_at: Mapped[datetime | None]
    work_turn_at: Mapped[datetime | None]
    final_turn_at: Mapped[datetime | None]
    """When the next one of an urgency who is put off may come back, so that they do not all come at once: each urgency
    queues among its own, and never behind a less urgent one.
    """
    updated_at: Mapped[datetime]


class GitHubWrite(Base):
    """One write to an installation, counted before it is sent. Older than an hour it is of no use and goes."""

    __tablename__ = "github_write"

    installation_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    place_at: Mapped[datetime] = mapped_column(primary_key=True)
    """The installation's `next_write_at` from this write on: no two writes share one."""
    written_at: Mapped[datetime]
    background: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether nobody waited for it: those have a share of the hour."""

    __table_args__ = (Index("ix_github_write_installation_id_written_at", "installation_id", "written_at"),)


class Repository(Base):
    """A repository by its numeric id; owner and name are as last seen."""

    __tablename__ = "repository"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    installation_id: Mapped[int] = mapped_column(BigInteger, index=True)
    owner: Mapped[str] = mapped_column(String(100))
    name: Mapped[str] = mapped_column(String(100))
    default_branch: Mapped[str | None] = mapped_column(String(255))
    private: Mapped[bool] = mapped_column(default=False)
    state: Mapped[str] = mapped_column(String(16), default="active")
    """active or removed."""
    heard_since_at: Mapped[datetime | None]
    """Since when its events reach us without a gap. None until an event of it is read by this release."""
    labels: Mapped[dict[str, str] | None] = mapped_column(Json)
    """Its own names of our labels, by what they are for; as of `labels_read_at`."""
    labels_read_at: Mapped[datetime | None]
    updated_at: Mapped[datetime]


class Effect(Base):
    """One write to GitHub that belongs to no spec's step: a repository's labels, a notice, a reaction.

    `key` makes it happen once: the same key recorded again is a no-op.
    """

    __tablename__ = "effect"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    key: Mapped[str] = mapped_column(String(255), unique=True)
    kind: Mapped[str] = mapped_column(String(32))
    installation_id: Mapped[int] = mapped_column(BigInteger)
    repo_id: Mapped[int] = mapped_column(BigInteger)
    payload: Mapped[dict[str, Any]] = mapped_column(Json)
    state: Mapped[EffectState] = mapped_column(state_column(EffectState, "state"))
    reason: Mapped[str | None] = mapped_column(Text)
    remote_id: Mapped[int | None] = mapped_column(BigInteger)
    attempts: Mapped[int] = mapped_column(default=0)
    not_before_at: Mapped[datetime]
    claimed_until_at: Mapped[datetime | None]
    created_at: Mapped[datetime]
    done_at: Mapped[datetime | None]

    __table_args__ = (Index("ix_effect_state_not_before_at", "state", "not_before_at"),)


class HeardComment(Base):
    """What was made of a comment on an issue or pull request under work. GitHub tells of it in any order and twice; this
    tells a late word from a new one, and a command that was added from one that was obeyed.
    """

    __tablename__ = "heard_comment"

    repo_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    comment_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    issue_number: Mapped[int]
    """Of the issue, or of the pull request."""
    edited_at: Mapped[datetime | None]
    """By GitHub's clock, to the second; None where the event did not tell."""
    body_sha: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the newest text, hex."""
    commands: Mapped[list[str]] = mapped_column(Json, default=list)
    """Those that were acted on, in order."""
    deleted: Mapped[bool] = mapped_column(default=False)
    heard_at: Mapped[datetime]
