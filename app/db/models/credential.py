"""Stored credentials, encrypted."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base


class StoredCredential(Base):
    """A key of a person or of an installation. Nothing here tells it to whoever has no CREDENTIALS_KEY."""

    __tablename__ = "credential"

    scope: Mapped[str] = mapped_column(String(16), primary_key=True)
    """user or installation."""
    owner_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """Of the person or the installation, GitHub's number."""
    kind: Mapped[str] = mapped_column(String(16), primary_key=True)
    """model or daytona."""
    sealed: Mapped[str] = mapped_column(Text)
    """The secret, encrypted together with the three columns above, so that it is good for this row only."""
    base_url: Mapped[str | None] = mapped_column(Text)
    """Of the API that it is good for; None: as the settings say. Sealed too: a changed one is not used."""
    hint: Mapped[str] = mapped_column(String(16))
    """What may be shown of the secret."""
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
