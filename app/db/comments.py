"""What was made of comments: all SQL about `heard_comment`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
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
    session: AsyncSession,
    repo_id: int,
    comment_id: int,
    number: int,
    heard: Heard,
    now: datetime,
    *,
    before: Heard | None,
) -> bool:
    """What is made of it now, in place of `before`. False when that is not what is known any more: another worker was
    told of the same comment meanwhile.
    """
    values: dict[str, Any] = {
        "issue_number": number, "edited_at": heard.edited_at, "body_sha": heard.body_sha,
        "commands": list(heard.commands), "deleted": heard.deleted, "heard_at": now,
    }  # fmt: skip
    if before is None:
        new = insert_for(session, HeardComment).values(repo_id=repo_id, comment_id=comment_id, **values)
        statement: Any = new.on_conflict_do_nothing().returning(HeardComment.comment_id)
    else:
        statement = (
            update(HeardComment)
            .where(
                HeardComment.repo_id == repo_id, HeardComment.comment_id == comment_id,
                HeardComment.edited_at.is_not_distinct_from(before.edited_at),
                HeardComment.body_sha == before.body_sha, HeardComment.deleted == before.deleted,
            )
            .values(values)
            .returning(HeardComment.comment_id)
            .execution_options(synchronize_session=False)
        )  # fmt: skip
    return (await session.execute(statement)).scalar_one_or_none() is not None
