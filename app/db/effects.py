"""All SQL about effects: writes to GitHub that belong to no spec's step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Effect
from app.domain.ids import EffectId, new_effect_id
from app.domain.markers import notice_marker
from app.domain.states import EffectState

CLAIM = timedelta(seconds=20)
"""Performed twice finds what the first one made; so what a killed worker held comes back soon."""


async def record_effect(
    session: AsyncSession,
    *,
    kind: str,
    key: str,
    repo: tuple[int, int],
    payload: Mapping[str, Any],
    now: datetime,
) -> EffectId | None:
    """Owe one write; `repo` is (installation id, repository id). None when that key was recorded before."""
    statement = (
        insert_for(session, Effect)
        .values(
            id=new_effect_id(), key=key[:255], kind=kind, installation_id=repo[0], repo_id=repo[1],
            payload=dict(payload), state=EffectState.PENDING, attempts=0, not_before_at=now, created_at=now,
        )
        .on_conflict_do_nothing(index_elements=["key"])
        .returning(Effect.id)
    )  # fmt: skip
    found = (await session.execute(statement)).scalar_one_or_none()
    return EffectId(found) if found else None


async def record_reaction(
    session: AsyncSession,
    repo: tuple[int, int],
    target: int | str,
    content: str,
    now: datetime,
    *,
    kind: str = "reaction",
    key: str | None = None,
) -> EffectId | None:
    """Owe a reaction (GitHub's name of it); None when it was owed before. `target` is the number of a comment, in a
    conversation or with `kind` "remark_reaction" beside a line, or with "review_reaction" a review's GraphQL id.
    """
    key = key or f"{repo[1]}:{kind}:{target}:{content}"
    payload = {"comment_id" if isinstance(target, int) else "node_id": target, "content": content}
    return await record_effect(session, kind=kind, key=key, repo=repo, payload=payload, now=now)


async def record_notice(
    session: AsyncSession, repo: tuple[int, int], number: int | None, key: str, text: str, now: datetime
) -> EffectId | None:
    """Owe a comment of ours that belongs to no step, on an issue or pull request; once for that key in the repository."""
    marker = notice_marker(key)
    payload = {"issue": number, "marker": marker, "body": f"{marker}\n{text}"}
    return await record_effect(
        session, kind="notice", key=f"{repo[1]}:notice:{key}", repo=repo, payload=payload, now=now
    )


async def count_effects_since(session: AsyncSession, prefix: str, since: datetime) -> int:
    """How many effects whose key begins with `prefix` (letters, digits and colons) were recorded since then."""
    statement = (
        select(func.count())
        .select_from(Effect)
        .where(Effect.key.startswith(prefix, autoescape=True), Effect.created_at >= since)
    )
    return int((await session.execute(statement)).scalar_one())


def _due(now: datetime) -> tuple[Any, ...]:
    return (
        Effect.state == EffectState.PENDING,
        Effect.not_before_at <= now,
        or_(Effect.claimed_until_at.is_(None), Effect.claimed_until_at <= now),
    )


async def list_due_effects(session: AsyncSession, now: datetime, limit: int = 50) -> list[str]:
    statement = select(Effect.id).where(*_due(now)).order_by(Effect.not_before_at).limit(limit)
    return list((await session.execute(statement)).scalars())


async def claim_effect(session: AsyncSession, effect_id: str, now: datetime) -> Effect | None:
    statement = (
        update(Effect)
        .where(Effect.id == effect_id, *_due(now))
        .values(claimed_until_at=now + CLAIM, attempts=Effect.attempts + 1)
        .returning(Effect)
    )
    return (await session.execute(statement)).scalar_one_or_none()


async def settle_effect(
    session: AsyncSession, effect_id: str, state: EffectState, now: datetime, *, reason: str | None = None
) -> None:
    await session.execute(
        update(Effect)
        .where(Effect.id == effect_id, Effect.state == EffectState.PENDING)
        .values(state=state, reason=reason, done_at=now, claimed_until_at=None)
    )


async def defer_effect(session: AsyncSession, effect_id: str, at: datetime, *, reason: str) -> None:
    await session.execute(
        update(Effect)
        .where(Effect.id == effect_id, Effect.state == EffectState.PENDING)
        .values(not_before_at=at, reason=reason, claimed_until_at=None)
    )
