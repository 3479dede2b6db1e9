"""The branch with its start commit: an empty commit made through the API, then a ref with a free name."""

from __future__ import annotations

from datetime import datetime

from app.db.specs import find_spec
from app.domain.errors import Refused
from app.domain.gitflow import MAX_SUFFIX, branch_kind, branch_name
from app.domain.notices import BLOCKED_NAME, NAMES_TAKEN, NO_BASE
from app.domain.render_pull import render_start_message
from app.domain.states import SpecState
from app.domain.view import Outcome
from app.observability.crashpoints import crashpoint
from worker.step import Step


async def run(step: Step) -> datetime:
    spec, github = step.spec, step.parts.github
    if spec.base_sha is None:
        raise Refused("no base was found for the branch")
    if spec.base_asked not in {None, spec.base_branch}:
        return await _take_base(step, spec.base_asked or "")
    kind = branch_kind(spec.issue_labels)
    prefix = branch_name(kind, spec.issue_number, spec.title)
    taken = {name.casefold() for name in await github.fetch_refs(step.repo, f"{kind}/{spec.issue_number}-")}
    if spec.start_sha is None and await _begin(step, kind, taken):
        return step.again()
    first = spec.branch_attempts
    for attempt in range(first, MAX_SUFFIX):
        name = branch_name(kind, spec.issue_number, spec.title, attempt)
        # A name taken before the first try is not ours; one tried before a crash may be, so it is asked for again.
        if name.casefold() in taken and not (attempt == first and spec.branch == name):
            continue
        if spec.branch != name:
            await step.save(branch=name, branch_attempts=attempt)
        try:
            crashpoint("ref.before")
            made = await github.ensure_branch(step.repo, name, spec.start_sha or "")
            crashpoint("ref.after")
        except Refused as refused:
            text = BLOCKED_NAME.format(name=name, reason=refused, prefix=kind)
            await step.save(branch=None)
            return await step.end(SpecState.FAILED, Outcome.FAILED, text)
        if made:
            await step.save(head_sha=spec.start_sha)
            return step.again()
    await step.save(branch=None)
    return await step.end(SpecState.FAILED, Outcome.FAILED, NAMES_TAKEN.format(name=prefix))


async def _begin(step: Step, kind: str, taken: set[str]) -> bool:
    """The start commit, or the one that is there. True when the step has to begin anew."""
    if not step.sandboxes and taken and await _adopt(step, kind, taken):
        return True
    base_sha, message = step.spec.base_sha or "", render_start_message(step.view)
    crashpoint("start_commit.before")
    sha = await step.parts.github.ensure_start_commit(step.repo, base_sha, message)
    crashpoint("start_commit.after")
    # Recorded before the ref: after a crash the same commit is looked for, so our own branch is recognised.
    await step.save(start_sha=sha)
    return await _asked_meanwhile(step)


async def _take_base(step: Step, name: str) -> datetime:
    """Another base was asked for after the plan was begun; it may be gone since. No ref is made yet."""
    found = await step.parts.github.fetch_branch(step.repo, name)
    if found is None:
        return await step.end(SpecState.FAILED, Outcome.FAILED, NO_BASE.format(names=f"`{name}`"))
    await step.save(base_branch=found.name, base_sha=found.sha, start_sha=None)
    return step.again()


async def _asked_meanwhile(step: Step) -> bool:
    """Asked for while the start commit was made; afterwards nobody can."""
    async with step.parts.db.read() as session:
        row = await find_spec(session, step.spec.id)
    step.spec.base_asked = row.base_asked if row is not None else None
    return step.spec.base_asked not in {None, step.spec.base_branch}


async def _adopt(step: Step, kind: str, taken: set[str]) -> bool:
    """A database restored from an earlier moment does not know the branch that this spec already has."""
    spec, github = step.spec, step.parts.github
    identity = await step.parts.identity()
    for attempt in range(MAX_SUFFIX):
        name = branch_name(kind, spec.issue_number, spec.title, attempt)
        if name.casefold() not in taken:
            continue
        start = await github.find_start_commit(
            step.repo, name, render_start_message(step.view), identity.bot_user_id
        )
        branch = await github.fetch_branch(step.repo, name) if start is not None else None
        if branch is not None:
            await step.save(branch=name, branch_attempts=attempt, start_sha=start, head_sha=branch.sha)
            return True
    return False
