"""What watches over agents keeps, and what it did."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import Json


class GuardianTrail(Base):
    """How far the events of a sandbox were read, and what is kept of them."""

    __tablename__ = "guardian_trail"

    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), primary_key=True)
    seen_seq: Mapped[int] = mapped_column(BigInteger)
    trail: Mapped[dict[str, Any]] = mapped_column(Json)
    nudged_at: Mapped[datetime | None]
    """When the agent was reminded last."""
    updated_at: Mapped[datetime]


class Intervention(Base):
    """One thing that was done about a running agent. Shown among its events, before the one numbered `at_seq`."""

    __tablename__ = "intervention"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """Of a reminder: also the message's."""
    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"))
    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"))
    task_id: Mapped[str | None] = mapped_column(String(32))
    """None for the planning of a spec."""
    at_seq: Mapped[int] = mapped_column(BigInteger)
    event_type: Mapped[str] = mapped_column(String(100))
    rule: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)
    """What was said."""
    created_at: Mapped[datetime]
    settled_at: Mapped[datetime | None]
    """When a person let the work go on: from then on it no longer counts."""

    __table_args__ = (
        Index("ix_intervention_sandbox_id_at_seq", "sandbox_id", "at_seq"),
        Index("ix_intervention_spec_id_created_at", "spec_id", "created_at"),
    )

    @property
    def event_data(self) -> dict[str, str]:
        """What it tells where it stands among events."""
        return {"rule": self.rule, "message": self.text, "id": str(self.id)}
