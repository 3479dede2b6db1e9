"""What other people do to a spec's branch and pull request. It is only recorded here; a step reads the live state."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.lifecycle import list_live_on_branch, record_base, record_branch_told
from app.db.models import Spec
from app.db.specs import find_spec_of_pull
from app.domain.states import SPEC_LIVE, DeliveryState
from app.domain.triggers import Happening
from worker.intake.addressed import repo_of
from worker.parts import Parts
from worker.verdict import Verdict


async def note_branch(parts: Parts, happening: Happening) -> Verdict:
    """Pushed to, or deleted."""
    told = [spec for spec in await _specs_of(parts, happening) if not _is_known(spec, happening)]
    if not told:
        return Verdict("branch", "not a branch under work, or known already", DeliveryState.IGNORED)
    verdict = Verdict("branch", spec_ids=[spec.id for spec in told])

    async def write(session: AsyncSession) -> None:
        for spec in told:
            await record_branch_told(session, spec.id, parts.clock())

    verdict.writes.append(write)
    return verdict


async def _specs_of(parts: Parts, happening: Happening) -> list[Spec]:
    repo_id = repo_of(happening).repo_id
    async with parts.db.read() as session:
        if happening.pull_number is None:
            return list(await list_live_on_branch(session, repo_id, happening.branch))
        spec = await find_spec_of_pull(session, repo_id, happening.pull_number)
    return [spec] if spec is not None and spec.state in SPEC_LIVE else []


def _is_known(spec: Spec, happening: Happening) -> bool:
    sha = happening.pull_head_sha or happening.branch_sha
    return bool(sha) and sha in {spec.head_sha, spec.push_sha}


async def note_base(parts: Parts, happening: Happening) -> Verdict:
    """The pull request may lead to another branch now; which one, the live state says."""
    number = happening.pull_number or 0
    async with parts.db.read() as session:
        spec = await find_spec_of_pull(session, repo_of(happening).repo_id, number)
    if spec is None or spec.state not in SPEC_LIVE or spec.base_branch == happening.pull_base:
        return Verdict("retarget", "no other base of a pull request under work", DeliveryState.IGNORED)
    base = (await parts.github.fetch_pull(repo_of(happening), number)).base_ref
    verdict = Verdict("retarget", spec_ids=[spec.id])

    async def write(session: AsyncSession) -> None:
        await record_base(session, spec.id, base, parts.clock())

    verdict.writes.append(write)
    return verdict
