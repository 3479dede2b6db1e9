"""Which step a spec needs next. Pure: the whole flow of a spec can be read off `decide_step`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.states import SPEC_LIVE, SandboxState, SpecState, TaskState


class StepName(StrEnum):
    """One module of worker.flow each."""

    ADMIT = "admit"
    BRANCH = "branch"
    PULL = "pull"
    PROVISION = "provision"
    WATCH = "watch"
    COLLECT = "collect"
    PUBLISH = "publish"
    REVIEW = "review"
    CANCEL = "cancel"
    CONCLUDE = "conclude"


@dataclass(frozen=True)
class SandboxFacts:
    state: SandboxState
    manifest_round: int
    collected_round: int


@dataclass(frozen=True)
class SpecFacts:
    """What the decision needs to know of a spec, its task and its sandboxes."""

    state: SpecState
    cancel_asked: bool
    concluded: bool
    has_branch: bool
    has_pull: bool
    task: TaskState
    sandbox: SandboxFacts | None
    """The newest one."""
    pull_ready: bool


def decide_step(facts: SpecFacts) -> StepName | None:
    """The next step, or None when there is nothing to do until something happens."""
    if facts.state not in SPEC_LIVE:
        return None if facts.concluded else StepName.CONCLUDE
    if facts.cancel_asked:
        return StepName.CANCEL
    if facts.state is SpecState.QUEUED:
        return StepName.ADMIT
    if facts.state is SpecState.IMPLEMENTING:
        return _decide_implementing(facts)
    if facts.state is SpecState.IN_REVIEW:
        return _decide_in_review(facts)
    return None


def _has_new_result(sandbox: SandboxFacts | None) -> bool:
    return sandbox is not None and sandbox.manifest_round > sandbox.collected_round


def _decide_implementing(facts: SpecFacts) -> StepName:
    if not facts.has_branch:
        return StepName.BRANCH
    if not facts.has_pull:
        # The machine first: it starts up while the pull request is made. Its row exists from the first look on,
        # so a slow one does not hold the pull request up.
        return StepName.PROVISION if facts.sandbox is None else StepName.PULL
    if _has_new_result(facts.sandbox):
        return StepName.COLLECT
    if facts.task is TaskState.COMPLETED:
        return StepName.PUBLISH
    if facts.task is TaskState.PENDING or facts.sandbox is None:
        return StepName.PROVISION
    if facts.sandbox.state in {SandboxState.PENDING, SandboxState.CREATING}:
        return StepName.PROVISION
    return StepName.WATCH


def _decide_in_review(facts: SpecFacts) -> StepName:
    if _has_new_result(facts.sandbox):
        return StepName.COLLECT
    if not facts.pull_ready:
        return StepName.PUBLISH
    return StepName.REVIEW
