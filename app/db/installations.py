"""All SQL about installations and repositories."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import case, func, literal, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.dialect import insert_for
from app.db.models import Installation, Repository
from app.db.types import UtcTime


async def _upsert(session: AsyncSession, table: Any, values: dict[str, Any]) -> None:
    statement = insert_for(session, table).values(values)
    changed = {key: value for key, value in values.items() if key != "id"}
    await session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changed))


async def record_installation(
    session: AsyncSession, installation_id: int, now: datetime, **values: Any
) -> None:
    await _upsert(session, Installation, {"id": installation_id, "updated_at": now, **values})


async def record_repository(session: AsyncSession, values: dict[str, Any], now: datetime) -> None:
    """`values` has id, installation_id, owner, name, and what else the payload told."""
    now_bound = literal(now, UtcTime())
    statement = insert_for(session, Repository).values(
        {**values, "state": "active", "heard_since_at": now, "updated_at": now}
    )
    changed = {
        **{key: value for key, value in values.items() if key != "id"},
        "state": "active",
        # One that comes back was not heard of while it was away.
        "heard_since_at": case(
            (Repository.state == "active", func.coalesce(Repository.heard_since_at, now_bound)),
            else_=now_bound,
        ),
        "updated_at": now,
    }
    await session.execute(statement.on_conflict_do_update(index_elements=["id"], set_=changed))


async def find_repository(session: AsyncSession, repo_id: int) -> Repository | None:
    return (await session.execute(select(Repository).where(Repository.id == repo_id))).scalar_one_or_none()


async def record_label_names(
    session: AsyncSession, repo_id: int, names: dict[str, str], now: datetime
) -> None:
    """What its settings file calls our labels. A repository that is not known yet stays unknown."""
    await session.execute(
        update(Repository).where(Repository.id == repo_id).values(labels=names, labels_read_at=now)
    )


async def find_installation(session: AsyncSession, installation_id: int) -> Installation | None:
    statement = select(Installation).where(Installation.id == installation_id)
    return (await session.execute(statement)).scalar_one_or_none()


async def set_installation_state(
    session: AsyncSession, installation_id: int, state: str, now: datetime
) -> None:
    await session.execute(
        update(Installation).where(Installation.id == installation_id).values(state=state, updated_at=now)
    )


async def set_repository_state(session: AsyncSession, repo_id: int, state: str, now: datetime) -> None:
    await session.execute(
        update(Repository).where(Repository.id == repo_id).values(state=state, updated_at=now)
    )


async def record_removed(
    session: AsyncSession, installation_id: int, repo_ids: Sequence[int], now: datetime
) -> None:
    """Those repositories were taken out of the installation. One that is known through another by now stays."""
    await session.execute(
        update(Repository)
        .where(Repository.id.in_(repo_ids), Repository.installation_id == installation_id)
        .values(state="removed", updated_at=now)
    )
