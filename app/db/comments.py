"""What was made of comments: all SQL about `heard_comment`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.models import HeardComment


@dataclass(frozen=True)
class Heard:
    """The newest text of a comment that was acted on. `edited_at` is GitHub's time, to the second; `commands` are those
    that were obeyed or answered.
    """

    edited_at: datetime | None
    body_sha: str
    commands: tuple[str, ...] = ()
    deleted: bool = False


def digest_of(body: str) -> str:
    """Tells whether a text is the one that was heard; of any text, lone surrogates too."""
    return hashlib.sha256(body.encode("utf-8", "surrogatepass")).hexdigest()


async def find_heard(session: AsyncSession, repo_id: int, comment_id: int) -> Heard | None:
    row = await session.get(HeardComment, (repo_id, comment_id))
    return Heard(row.edited_at, row.body_sha, tuple(row.commands), row.deleted) if row else None


async def record_heard(
    session: AsyncSession, repo_id: int, comment_id: int, number: int, heard: Heard, now: datetime
) -> None:
    """Raises IntegrityError at the commit when another worker recorded the same comment first."""
    await session.merge(
        HeardComment(
            repo_id=repo_id, comment_id=comment_id, issue_number=number, edited_at=heard.edited_at,
            body_sha=heard.body_sha, commands=list(heard.commands), deleted=heard.deleted, heard_at=now,
        )
    )  # fmt: skip
    await session.flush()
