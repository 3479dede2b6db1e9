"""A check of another App has ended. Which checks there are and how they stand, a step reads live."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.ci import list_specs_checked, record_checks_heard
from app.db.specs import record_fact
from app.domain.ci import SETTLE
from app.domain.states import DeliveryState
from app.domain.triggers import Happening
from worker.intake.addressed import repo_of
from worker.parts import Parts
from worker.verdict import Verdict


async def note_checks(parts: Parts, happening: Happening) -> Verdict:
    """Only the head of a pull request in review counts: what came before it was ready is looked at when it is."""
    head_sha = happening.checked_sha
    async with parts.db.read() as session:
        spec_ids = await list_specs_checked(session, repo_of(happening).repo_id, head_sha)
    if not spec_ids:
        return Verdict("checks", "not a head that is in review", DeliveryState.IGNORED)
    verdict = Verdict("checks", spec_ids=list(spec_ids))

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        for spec_id in spec_ids:
            await record_checks_heard(session, spec_id, head_sha, now + SETTLE)
            await record_fact(session, spec_id, now)

    verdict.writes.append(write)
    return verdict
