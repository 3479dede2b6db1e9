"""Sandboxes that can't reach the app, and who carries for them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class Relay(Base):
    """One sandbox whose calls a worker carries. What has been carried stands where it always does: in its events, messages
    and artifacts.
    """

    __tablename__ = "relay"

    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), primary_key=True)
    owner: Mapped[str | None] = mapped_column(String(64))
    """The worker that carries for it now."""
    until_at: Mapped[datetime]
    """Renewed while it carries; when it lapses, another one may."""
    created_at: Mapped[datetime]

    __table_args__ = (Index("ix_relay_until_at", "until_at"),)
