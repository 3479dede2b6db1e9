"""What a model said about running agents, as long as it is of use."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class GuardianVerdict(Base):
    """The newest time that a model was asked about a sandbox's agent. At most one call is under way."""

    __tablename__ = "guardian_verdict"

    sandbox_id: Mapped[str] = mapped_column(ForeignKey("sandbox.id", ondelete="CASCADE"), primary_key=True)
    asked_tools: Mapped[int]
    """How many tools the agent had called by then."""
    asked_seq: Mapped[int] = mapped_column(BigInteger)
    """The newest event that was shown."""
    asked_at: Mapped[datetime]
    call_id: Mapped[str | None] = mapped_column(String(32))
    """The call in the books (`model_call`); None when there was no money for one."""
    asking_until: Mapped[datetime | None]
    """Until then its answer is waited for; None when none is."""
    advice: Mapped[str] = mapped_column(Text, default="")
    """What the guardian is to say to the agent at its next look; empty when there is nothing."""
    advised_at: Mapped[datetime | None]
