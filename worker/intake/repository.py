"""What happens to a whole repository, and issues that are unlocked: who can be told something, and who no longer."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import installations
from app.db.lifecycle import record_access_back_to, record_installation_of
from app.db.specs import list_live_of
from app.domain.errors import Denied, Gone
from app.domain.states import DeliveryState
from app.domain.triggers import Happening, RepositoryChanged
from worker.intake.addressed import repo_of
from worker.parts import Parts
from worker.verdict import Verdict, cancel_specs


async def note_unlocked(parts: Parts, happening: Happening) -> Verdict:
    return _told_again(parts, happening, "unlock", happening.issue_number)


async def note_repository(parts: Parts, happening: Happening, intent: RepositoryChanged) -> Verdict:
    """The live state decides about what can be undone: deliveries come in any order."""
    if intent.change == "deleted":
        return await _deleted(parts, happening)
    try:
        live = await parts.github.fetch_repository(repo_of(happening))
    except (Gone, Denied):
        return Verdict(intent.change, "the repository can't be read", DeliveryState.IGNORED)
    if intent.change == "transferred":
        return _transferred(parts, happening)
    if live.archived is not (intent.change == "archived"):
        return Verdict(intent.change, "the repository's live state says otherwise", DeliveryState.IGNORED)
    if live.archived:
        return await _cancelled(parts, happening, "archived")
    return _told_again(parts, happening, "unarchived", None)


async def _cancelled(parts: Parts, happening: Happening, reason: str) -> Verdict:
    async with parts.db.read() as session:
        live = await list_live_of(session, repo_ids=[repo_of(happening).repo_id])
    return cancel_specs(parts, reason, [spec.id for spec in live], reason)


async def _deleted(parts: Parts, happening: Happening) -> Verdict:
    verdict = await _cancelled(parts, happening, "access_lost")

    async def write(session: AsyncSession) -> None:
        await installations.set_repository_state(
            session, repo_of(happening).repo_id, "removed", parts.clock()
        )

    verdict.writes.append(write)
    return verdict


def _transferred(parts: Parts, happening: Happening) -> Verdict:
    """GitHub tells only the new owner's installation; that it can read the repository has been seen."""
    verdict = Verdict("transferred")

    async def write(session: AsyncSession) -> None:
        await record_installation_of(
            session, repo_of(happening).repo_id, happening.installation_id or 0, parts.clock()
        )

    verdict.writes.append(write)
    return verdict


def _told_again(parts: Parts, happening: Happening, intent: str, issue_number: int | None) -> Verdict:
    verdict = Verdict(intent)

    async def write(session: AsyncSession) -> None:
        verdict.spec_ids += await record_access_back_to(
            session, repo_of(happening).repo_id, parts.clock(), issue_number=issue_number
        )

    verdict.writes.append(write)
    return verdict
