"""The product's own bookkeeping: processes, locks, long operations."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class Process(Base):
    """A heartbeat of one web or worker process, so that health can be told from the database alone."""

    __tablename__ = "process"

    id: Mapped[str] = mapped_column(String(64), primary_key=True)
    kind: Mapped[str] = mapped_column(String(16))
    host_id: Mapped[str] = mapped_column(String(64))
    pid: Mapped[int]
    version: Mapped[str] = mapped_column(String(32))
    started_at: Mapped[datetime]
    beat_at: Mapped[datetime]


class Lock(Base):
    """A named lease for work that only one process should do at a time (sweep, missed deliveries)."""

    __tablename__ = "lock"

    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    until_at: Mapped[datetime]
    since_at: Mapped[datetime | None]
    """Of work in rounds: since when it has been done again and again without a pause."""


class Operation(Base):
    """Something that may take longer than a step: started under a deterministic name, looked at by later steps."""

    __tablename__ = "operation"

    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    state: Mapped[str] = mapped_column(String(16))
    """started, done or failed; waiting: nothing runs, and `started_at` is since when."""
    owner: Mapped[str] = mapped_column(String(64))
    detail: Mapped[str | None] = mapped_column(Text)
    attempts: Mapped[int] = mapped_column(default=1)
    started_at: Mapped[datetime]
    until_at: Mapped[datetime]
    """Renewed while it runs; when it lapses, the operation's process is dead and it may be started again."""
