"""Installations and repositories that come and go."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db import installations
from app.db.effects import record_effect
from app.db.lifecycle import record_installation_of
from app.db.specs import list_live_of, record_access_back, record_cancel
from app.domain.errors import Denied, Gone, refuses_credentials
from app.domain.ids import InstallationId
from app.domain.ports import Repository
from app.domain.states import DeliveryState
from app.domain.triggers import Forget, Happening
from worker.parts import Parts
from worker.verdict import Verdict


async def welcome(parts: Parts, happening: Happening) -> Verdict:
    """Access was given, or given back: remember the repositories, make missing labels, wake what could not be told."""
    installation_id = InstallationId(happening.installation_id or 0)
    known = await parts.github.fetch_installation_repositories(installation_id)
    asked = {repo.repo_id for repo in happening.repositories}
    chosen = [one for one in known if happening.event == "installation" or one.repo_id in asked]
    verdict = Verdict("welcome")

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        await installations.record_installation(
            session, installation_id, now, state="active", account_id=happening.account_id,
            account_login=happening.account_login,
        )  # fmt: skip
        for repo in chosen:
            await _record_repository(parts, session, installation_id, repo, verdict)
        verdict.spec_ids += await record_access_back(session, installation_id, now)

    verdict.writes.append(write)
    return verdict


async def _record_repository(
    parts: Parts, session: AsyncSession, installation_id: int, repo: Repository, verdict: Verdict
) -> None:
    now = parts.clock()
    values = {
        "id": repo.repo_id,
        "installation_id": installation_id,
        "owner": repo.owner,
        "name": repo.name,
        "default_branch": repo.default_branch,
        "private": repo.private,
    }
    await installations.record_repository(session, values, now)
    # Installed anew, it has another number: what is owed is told, and what is tried again is done, through that one.
    await record_installation_of(session, repo.repo_id, installation_id, now)
    if not repo.archived:
        key = f"labels:{repo.repo_id}:{now.isoformat(timespec='minutes')}"
        effect = await record_effect(
            session, kind="labels", key=key, repo=(installation_id, repo.repo_id), payload={}, now=now
        )
        if effect is not None:
            verdict.effect_ids.append(effect)


async def forget(parts: Parts, happening: Happening, intent: Forget) -> Verdict:
    """Access is gone: every spec there ends. Unless it is back by now: deliveries come late and in any order."""
    installation_id = InstallationId(happening.installation_id or 0)
    # The number of one that was deleted never comes back.
    reached = None if intent.state == "deleted" else await _fetch_reached(parts, installation_id)
    removed = [repo_id for repo_id in happening.repositories_removed if repo_id not in (reached or ())]
    if reached is not None and (intent.state == "suspended" or not removed):
        return Verdict("forget", "the installation's live state says otherwise", DeliveryState.IGNORED)
    verdict = Verdict("forget")

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        # Of this installation only: by now the work may go on, and the repository be reached, through another one.
        taken = removed if intent.state == "removed" else None
        for spec in await list_live_of(session, installation_id=installation_id, repo_ids=taken):
            await record_cancel(session, spec.id, "access_lost", now)
            verdict.spec_ids.append(spec.id)
        if intent.state == "removed":
            await installations.record_removed(session, installation_id, removed, now)
        else:
            await installations.set_installation_state(session, installation_id, intent.state, now)

    verdict.writes.append(write)
    return verdict


async def _fetch_reached(parts: Parts, installation_id: InstallationId) -> frozenset[int] | None:
    """The repositories that it reaches now, by number; None when it is suspended or gone."""
    try:
        listed = await parts.github.fetch_installation_repositories(installation_id)
    except (Gone, Denied) as refused:
        if refuses_credentials(refused):
            raise
        return None
    return frozenset(int(repo.repo_id) for repo in listed)
