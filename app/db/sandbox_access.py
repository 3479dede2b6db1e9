"""From a sandbox token to the sandbox it belongs to. Only the token's SHA-256 is stored."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from app.db.models import Sandbox
from app.domain.ids import SandboxId, SpecId
from app.domain.states import SANDBOX_LIVE


@dataclass(frozen=True)
class SandboxIdentity:
    """What a request with a sandbox token may act for."""

    id: SandboxId
    spec_id: SpecId
    model: str | None
    budget_usd: float
    live: bool


def hash_token(token: bytes) -> str:
    """SHA-256 in hex, as `sandbox.token_hash` holds it."""
    return hashlib.sha256(token).hexdigest()


async def find_by_token(session: AsyncSession, sandbox_id: str, token: bytes) -> SandboxIdentity | None:
    """The sandbox `sandbox_id` if this is its token; None otherwise (also when there is no such sandbox)."""
    row = await session.get(Sandbox, sandbox_id)
    if row is None or not hmac.compare_digest(row.token_hash.encode(), hash_token(token).encode()):
        return None
    return _identity(row)


async def is_known_token(session: AsyncSession, token: bytes) -> bool:
    """Whether any sandbox, of whatever state, has this token. Looked up by hash, so timing tells nothing of a token."""
    found = await session.scalar(select(Sandbox.id).where(Sandbox.token_hash == hash_token(token)).limit(1))
    return found is not None


async def lock_live(session: AsyncSession, sandbox_id: str) -> Sandbox | None:
    """The row of a live sandbox, held until the transaction ends; None when it has ended or does not exist."""
    row: Sandbox | None = await session.scalar(
        select(Sandbox)
        .where(Sandbox.id == sandbox_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return row if row is not None and row.state in SANDBOX_LIVE else None


async def lock_newest_live(session: AsyncSession, spec_id: str) -> Sandbox | None:
    """As `lock_live`, of all the spec's live sandboxes the newest; None when none lives."""
    rows = await session.scalars(
        select(Sandbox)
        .where(Sandbox.spec_id == spec_id, Sandbox.state.in_(SANDBOX_LIVE))
        .order_by(Sandbox.id)  # as all who lock several
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return max(rows, key=lambda row: (row.created_at, row.id), default=None)


def lock_all_live(session: Session, sandbox_ids: Collection[str]) -> dict[str, Sandbox]:
    """As `lock_live`, of several by their ids; those that have ended or do not exist are left out. In one order, so that
    two who lock the same ones don't wait for each other.
    """
    rows = session.scalars(
        select(Sandbox)
        .where(Sandbox.id.in_(sandbox_ids))
        .order_by(Sandbox.id)
        .with_for_update()
        .execution_options(populate_existing=True)
    )
    return {row.id: row for row in rows if row.state in SANDBOX_LIVE}


def _identity(row: Sandbox) -> SandboxIdentity:
    return SandboxIdentity(
        id=SandboxId(row.id),
        spec_id=SpecId(row.spec_id),
        model=row.model,
        budget_usd=row.budget_usd,
        live=row.state in SANDBOX_LIVE,
    )
