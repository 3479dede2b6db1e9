"""Queued → planning or implementing: the live issue, the labeler's access, the repository's settings and
the base branch are read; nothing is made yet."""

from __future__ import annotations

import asyncio
from datetime import datetime

from app.db.ci import forget_heads
from app.db.specs import record_earlier_pull
from app.db.tasks import record_anew
from app.domain.errors import Denied, Gone, Refused
from app.domain.gitflow import base_candidates, branch_kind
from app.domain.ids import IssueNumber, UserId
from app.domain.labels import carries_label
from app.domain.notices import ARCHIVED, CANCEL_TEXTS, EMPTY_REPOSITORY, LABELER_LOST, NO_BASE
from app.domain.ports import Branch, Repository, User
from app.domain.states import SpecState
from app.domain.view import Outcome
from worker.flow.adopt import take_up_head
from worker.flow.model_key import has_model_key, no_model_key
from worker.flow.repo_settings import take_settings
from worker.flow.rounds import count_later_rounds
from worker.step import Step

_OF_A_BRANCH = (
    "branch", "start_sha", "head_sha", "push_sha", "pull_number", "pull_node_id", "pull_url", "pull_state",
    "pull_ready_at", "review_asked_at",
)  # fmt: skip


async def run(step: Step) -> datetime:
    spec = step.spec
    stop, repository, labeler_may_write = await asyncio.gather(
        _reason_to_cancel(step), step.parts.github.fetch_repository(step.repo), _labeler_may_write(step)
    )
    if stop is not None:
        return await step.end(SpecState.CANCELLED, Outcome.CANCELLED, CANCEL_TEXTS[stop])
    problem = await _reason_to_refuse(step, repository, labeler_may_write=labeler_may_write)
    if problem is not None:
        return await step.end(SpecState.FAILED, Outcome.FAILED, problem)
    try:
        if spec.settings is None:
            taken = await take_settings(step, repository.default_branch)
            if isinstance(taken, str):
                return await step.end(SpecState.FAILED, Outcome.FAILED, taken)
            notes = [*spec.notes, *taken.notes]
            await step.save(settings=taken.settings, settings_sha=taken.sha, notes=notes)
        base = await _find_base(step, repository)
    except Refused as refused:
        if refused.code != "empty_repository":
            raise
        return await step.end(SpecState.FAILED, Outcome.FAILED, EMPTY_REPOSITORY)
    if base is None:
        names = ", ".join(f"`{name}`" for name in _candidates(step, repository))
        return await step.end(SpecState.FAILED, Outcome.FAILED, NO_BASE.format(names=names))
    return await _let_begin(step, repository, base)


async def _let_begin(step: Step, repository: Repository, base: Branch) -> datetime:
    """On the branch that there is, or anew on one that is to be made."""
    spec = step.spec
    kept = await _branch_still_there(step)
    anew = not kept and spec.branch is not None
    values: dict[str, object] = {"rounds_before": count_later_rounds(step)} if anew else {}
    if not kept:
        # A branch of its own, and so a pull request of its own: the old one belongs to the old branch.
        values |= dict.fromkeys(_OF_A_BRANCH) | {"branch_attempts": 0}
    if spec.base_branch is None or not kept:
        values |= {"base_branch": base.name, "base_sha": base.sha}
    state = _next_state(step)
    async with step.saving(state=state, default_branch=repository.default_branch, **values) as session:
        if anew:
            await record_anew(session, spec.id, step.now())
            await forget_heads(session, spec.id)
            await record_earlier_pull(session, spec)
    return step.again()


def _next_state(step: Step) -> SpecState:
    """A plan that stands needs no new one: work that is tried again goes on with its tasks."""
    plan = step.facts.plan
    if plan is None or (plan.complete and plan.approved):
        return SpecState.IMPLEMENTING
    return SpecState.PLANNING


async def _reason_to_cancel(step: Step) -> str | None:
    try:
        issue = await step.parts.github.fetch_issue(step.repo, IssueNumber(step.spec.issue_number))
    except Gone:
        return "issue_deleted"
    if issue.state == "closed":
        return "issue_closed"
    spec = step.spec
    there = carries_label(issue.labels, issue.label_ids, spec.trigger_label_id, spec.trigger_label)
    return None if there else "label_removed"


async def _labeler_may_write(step: Step) -> bool:
    labeler = User(UserId(step.spec.labeler_id), step.spec.labeler_login)
    return (await step.parts.github.fetch_permission(step.repo, labeler)).may_write


async def _reason_to_refuse(step: Step, repository: Repository, *, labeler_may_write: bool) -> str | None:
    if repository.archived or repository.disabled:
        return ARCHIVED
    if not labeler_may_write:
        return LABELER_LOST.format(login=step.spec.labeler_login)
    return None if await has_model_key(step) else no_model_key(step)


def _candidates(step: Step, repository: Repository) -> list[str]:
    kind = branch_kind(step.spec.issue_labels)
    return base_candidates(
        kind, repository.default_branch, asked=step.spec.base_asked, configured=step.settings.base
    )


async def _find_base(step: Step, repository: Repository) -> Branch | None:
    for name in _candidates(step, repository):
        found = await step.parts.github.fetch_branch(step.repo, name)
        if found is not None:
            return found
    if not await step.parts.github.fetch_refs(step.repo, ""):
        raise Refused("the repository has no branch", "empty_repository")
    return None


async def _branch_still_there(step: Step) -> bool:
    """Of a spec that is tried again: its branch, if nobody closed its pull request, with what people pushed since;
    before there was one, if it stands where we left it.
    """
    spec, github = step.spec, step.parts.github
    if spec.branch is None or spec.head_sha is None:
        return False
    try:
        found = await github.fetch_branch(step.repo, spec.branch)
        if found is None:
            return False
        if spec.pull_number is None:
            return found.sha == spec.head_sha
        if (await github.fetch_pull(step.repo, spec.pull_number)).state != "open":
            return False
        await take_up_head(step)
        return True
    except (Gone, Denied):
        return False
