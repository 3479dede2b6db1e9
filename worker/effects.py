"""Performs effects: the writes to GitHub that belong to no spec's step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import structlog

from app.db.effects import CLAIM, claim_effect, defer_effect, settle_effect
from app.db.installations import find_repository
from app.db.models import Effect
from app.db.pace import writing
from app.db.sub_issues import is_sub_issue_owed
from app.domain.errors import Denied, Gone, Refused, RetryAt, refuses_credentials
from app.domain.ids import InstallationId, IssueNumber, RepoId
from app.domain.pace import Urgency
from app.domain.ports import RepoRef
from app.domain.states import EffectState
from app.observability.crashpoints import crashpoint
from worker.label_names import label_names
from worker.parts import Parts
from worker.pauses import come_back_at
from worker.review_batch import KINDS, perform_review_effect

log = structlog.get_logger("worker.effects")

MAX_ATTEMPTS = 20
URGENCIES = {
    "labels": Urgency.BACKGROUND,
    "notice": Urgency.FINAL,
    "reaction": Urgency.FINAL,
    "review_batch": Urgency.WORK,
    "review_reaction": Urgency.WORK,
    "remark_reaction": Urgency.WORK,
    "thread_answer": Urgency.FINAL,
    "review_again": Urgency.WORK,
    "sub_issue": Urgency.BACKGROUND,
    "sub_issue_end": Urgency.BACKGROUND,
}
"""By the effect's kind: a notice or a reaction is the answer to a person."""
LIMIT_S = CLAIM.total_seconds() * 3 / 4
"""Ends before the claim lapses, so that no two workers look for the same comment and both make it."""


def _is_still_owed(effect: Effect, error: Exception) -> bool:
    """Credentials are the operator's to mend. A batch of review words is all that there is of them here, so one refusal
    does not lose them.
    """
    if refuses_credentials(error):
        return True
    return (
        effect.kind == "review_batch" and isinstance(error, Denied | Gone) and effect.attempts < MAX_ATTEMPTS
    )


class Effects:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def perform(self, effect_id: str) -> bool:
        """Do one effect, once. True when it is settled now; False when it waits, or someone else has it."""
        async with self._parts.db.write() as session:
            effect = await claim_effect(session, effect_id, self._parts.clock())
        if effect is None:
            return False
        with structlog.contextvars.bound_contextvars(repo_id=effect.repo_id):
            state, reason = EffectState.DONE, None
            try:
                crashpoint(f"effect.{effect.kind}.before")
                async with asyncio.timeout(LIMIT_S):
                    with writing(URGENCIES.get(effect.kind, Urgency.BACKGROUND)):
                        await self._do(effect)
                crashpoint(f"effect.{effect.kind}.after")
            except RetryAt as later:
                at = come_back_at(later, effect.attempts, self._parts.clock())
                async with self._parts.db.write() as session:
                    await defer_effect(session, effect_id, at, reason=str(later)[:500])
                return False
            except (Gone, Denied, Refused) as error:
                if _is_still_owed(effect, error):
                    await self._put_off(effect, error)
                    return False
                state, reason = EffectState.FAILED, f"{type(error).__name__}: {error}"[:500]
            except Exception as error:
                log.exception("effect.failed", kind=effect.kind)
                if effect.attempts < MAX_ATTEMPTS:
                    await self._put_off(effect, error)
                    return False
                state, reason = EffectState.FAILED, type(error).__name__
            async with self._parts.db.write() as session:
                await settle_effect(session, effect_id, state, self._parts.clock(), reason=reason)
            log.info("effect.settled", kind=effect.kind, state=state.value, reason=reason)
        return True

    async def _put_off(self, effect: Effect, error: Exception) -> None:
        at = self._parts.clock() + timedelta(seconds=min(2**effect.attempts, 120))
        async with self._parts.db.write() as session:
            await defer_effect(session, effect.id, at, reason=type(error).__name__)

    async def _do(self, effect: Effect) -> None:
        async with self._parts.db.read() as session:
            repository = await find_repository(session, effect.repo_id)
        if repository is None:
            raise Gone("the repository is not known any more")
        # Through the installation that has it now: between owing and doing it may have got another owner.
        repo = RepoRef(
            InstallationId(repository.installation_id),
            RepoId(repository.id),
            repository.owner,
            repository.name,
        )
        payload = effect.payload
        if effect.kind == "labels":
            names = await label_names(self._parts, repo, repository.default_branch)
            await self._parts.github.ensure_labels(repo, names.definitions)
        elif effect.kind == "notice":
            await self._parts.github.ensure_comment(
                repo,
                int(payload["issue"]),
                str(payload["marker"]),
                str(payload["body"]),
                known_id=effect.remote_id,
            )
        elif effect.kind == "reaction":
            await self._parts.github.ensure_reaction(
                repo, int(payload["comment_id"]), str(payload["content"])
            )
        elif effect.kind == "sub_issue":
            parent, marker = IssueNumber(payload["issue"]), str(payload["marker"])
            await self._parts.github.ensure_sub_issue(repo, parent, marker, payload["title"], payload["body"])
        elif effect.kind == "sub_issue_end":
            await self._end_sub_issue(repo, payload)
        elif effect.kind in KINDS:
            await perform_review_effect(self._parts, repo, effect)
        else:
            raise Refused(f"no such effect: {effect.kind}")

    async def _end_sub_issue(self, repo: RepoRef, payload: Mapping[str, Any]) -> None:
        async with self._parts.db.read() as session:
            owed = await is_sub_issue_owed(session, str(payload["after"]))
        if owed:
            raise RetryAt("the issue is still to be made", self._parts.clock() + timedelta(seconds=10))
        parent = IssueNumber(payload["issue"])
        await self._parts.github.ensure_sub_issue_closed(repo, parent, str(payload["marker"]))
