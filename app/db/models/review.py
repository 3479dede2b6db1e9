"""What reviewers said: batches on their way to an agent, the words they hold, the threads to be answered."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import Json


class ReviewBatch(Base):
    """One review, or single comments of one person. `id` is also that of the message it becomes."""

    __tablename__ = "review_batch"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), index=True)
    pull_number: Mapped[int]
    author_id: Mapped[int] = mapped_column(BigInteger)
    author_login: Mapped[str] = mapped_column(String(100))
    looks: Mapped[int] = mapped_column(default=1, server_default="1")
    """How many looks at GitHub were asked for: each is an effect of its own."""
    review_nodes: Mapped[list[str]] = mapped_column(Json, default=list)
    """GraphQL ids of reviews whose own words went into the message."""
    opened_at: Mapped[datetime]
    built_at: Mapped[datetime | None]
    """When it became a message, or was found to ask for nothing; more words make another batch from then on."""
    answered_at: Mapped[datetime | None]
    """When its answers were owed, or it was found that none will be: nothing of it is given to an agent."""
    failed_at: Mapped[datetime | None]
    """When they said that it could not be followed; taken up again, its words become another batch and this is None."""


class ReviewWord(Base):
    """A review's body or an inline comment that was heard of, as `HeardComment` is for a conversation."""

    __tablename__ = "review_word"

    repo_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    kind: Mapped[str] = mapped_column(String(8), primary_key=True)
    """review or comment: each has numbers of its own."""
    word_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    review_id: Mapped[int] = mapped_column(BigInteger)
    batch_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("review_batch.id", ondelete="SET NULL"))
    """None where it asked for nothing that a batch could hold."""
    edited_at: Mapped[datetime | None]
    """By GitHub's clock, to the second; None where the event did not tell."""
    body_sha: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the newest text, hex."""
    commands: Mapped[list[str]] = mapped_column(Json, default=list)
    """Those that were acted on, in order."""
    deleted: Mapped[bool] = mapped_column(default=False)
    heard_at: Mapped[datetime]

    __table_args__ = (
        Index("ix_review_word_repo_id_review_id", "repo_id", "review_id"),
        Index("ix_review_word_batch_id", "batch_id"),
    )


class ReviewThread(Base):
    """A thread that a batch speaks in: it gets one answer for it."""

    __tablename__ = "review_thread"

    batch_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("review_batch.id", ondelete="CASCADE"), primary_key=True
    )
    root_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """The first comment of the thread."""
    comment_ids: Mapped[list[int]] = mapped_column(Json)
    """The comments of the batch in it."""
    position: Mapped[int]


class UnresolvedThread(Base):
    """A thread that somebody with write access opened again, newest time only."""

    __tablename__ = "unresolved_thread"

    repo_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    root_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """The first comment of the thread."""
    batch_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("review_batch.id", ondelete="SET NULL"), index=True
    )
    """The batch that takes it up; None when an agent was at it anyway."""
    unresolved_at: Mapped[datetime | None]
    """By GitHub's clock, to the second: answers of ours that are younger deal with it. None: whatever was answered."""
    heard_at: Mapped[datetime]
