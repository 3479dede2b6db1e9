"""Heads of pull requests and what the checks of others on them led to."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class CheckedHead(Base):
    """One head of ours that was ready for review."""

    __tablename__ = "checked_head"

    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), primary_key=True)
    head_sha: Mapped[str] = mapped_column(String(64), primary_key=True)
    ready_at: Mapped[datetime]
    """When it became ready for review the last time."""
    due_at: Mapped[datetime | None]
    """When to look at its checks; None: when a delivery tells something of them."""
    heard: Mapped[int] = mapped_column(default=0, server_default="0")
    """How often a delivery has told something: what was told while a look went on is not forgotten with it."""
    told_at: Mapped[datetime | None]
    """When its failure was dealt with, by a follow-up or by giving up: once for each head."""
    asked_at: Mapped[datetime | None]
    """When the follow-up was asked for; None where there is none."""
