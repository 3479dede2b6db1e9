"""Which step a spec needs next. Pure: the whole flow of a spec can be read off `decide_step`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from app.domain.states import SANDBOX_LIVE, SPEC_LIVE, SandboxState, SpecState, TaskState


class StepName(StrEnum):
    """One module of worker.flow each."""

    ADMIT = "admit"
    PLAN = "plan"
    SHOW = "show"
    APPROVE = "approve"
    BRANCH = "branch"
    PULL = "pull"
    PROVISION = "provision"
    WATCH = "watch"
    COLLECT = "collect"
    PUBLISH = "publish"
    REVIEW = "review"
    FOLLOW = "follow"
    ADOPT = "adopt"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CONCLUDE = "conclude"


@dataclass(frozen=True)
class SandboxFacts:
    state: SandboxState
    manifest_round: int
    collected_round: int

    @property
    def has_result(self) -> bool:
        return self.manifest_round > self.collected_round

    @property
    def live(self) -> bool:
        return self.state in SANDBOX_LIVE

    @property
    def starting(self) -> bool:
        return self.state in {SandboxState.PENDING, SandboxState.CREATING}


@dataclass(frozen=True)
class TaskFacts:
    """One task and its newest sandbox. `ready`: everything it depends on is done."""

    key: str
    state: TaskState
    ready: bool
    sandbox: SandboxFacts | None

    @property
    def under_way(self) -> bool:
        return self.state in {TaskState.ASSIGNED, TaskState.RUNNING}


@dataclass(frozen=True)
class PlanFacts:
    """How far the plan of a spec is. `sandbox` is the newest one that plans."""

    sandbox: SandboxFacts | None
    has_news: bool
    """It reported about a phase since the last look."""
    complete: bool
    """Every phase has an output that passed, sync included: the tasks are stored."""
    shown: bool
    """People see the plan as it stands."""
    approved: bool
    """Nobody has to approve it, or somebody has."""

    @property
    def to_take(self) -> bool:
        """Whether its sandbox reported or handed in something that is to be dealt with first."""
        return self.has_news or (self.sandbox is not None and self.sandbox.has_result)


@dataclass(frozen=True)
class SpecFacts:
    """What the decision needs to know of a spec, its plan, its tasks and their sandboxes."""

    state: SpecState
    cancel_asked: bool
    concluded: bool
    has_branch: bool
    has_pull: bool
    pull_ready: bool
    tasks: tuple[TaskFacts, ...]
    plan: PlanFacts | None
    """None for a quick one."""
    messages_wait: bool = False
    """Somebody said something that no sandbox has."""
    branch_moved: bool = False
    """Somebody else is said to have pushed to the branch or deleted it."""
    pause_asked: bool = False
    """It is to rest until somebody lets it go on."""
    max_parallel: int = 1


@dataclass(frozen=True)
class Next:
    """A step, and the task that it is about where it is about one."""

    step: StepName
    task: str | None = None


_ON_A_BRANCH = frozenset({SpecState.IMPLEMENTING, SpecState.IN_REVIEW, SpecState.PAUSED})


def decide_step(facts: SpecFacts) -> Next | None:
    """The next step, or None when there is nothing to do until something happens."""
    if facts.state not in SPEC_LIVE:
        return None if facts.concluded else Next(StepName.CONCLUDE)
    if facts.cancel_asked:
        return Next(StepName.CANCEL)
    if facts.branch_moved and facts.has_branch and facts.state in _ON_A_BRANCH:
        return Next(StepName.ADOPT)
    if facts.pause_asked:
        return _decide_pausing(facts)
    return _decide_at_work(facts)


def _decide_at_work(facts: SpecFacts) -> Next | None:
    """Of a live spec that nobody wants to end or to rest."""
    if facts.state is SpecState.PAUSED:
        return Next(StepName.RESUME)
    if facts.state is SpecState.QUEUED:
        return Next(StepName.ADMIT)
    if facts.state is SpecState.PLANNING and facts.plan is not None:
        return Next(_decide_planning(facts.plan, messages_wait=facts.messages_wait))
    if facts.state is SpecState.AWAITING_APPROVAL and facts.plan is not None:
        return Next(_decide_awaiting(facts.plan, messages_wait=facts.messages_wait))
    if facts.state is SpecState.IMPLEMENTING:
        return _decide_implementing(facts)
    if facts.state is SpecState.IN_REVIEW:
        return _decide_in_review(facts)
    return None


def _decide_pausing(facts: SpecFacts) -> Next:
    """What has been handed in is taken before the work rests: the sandboxes hand in when they are asked to end."""
    planning = facts.state in {SpecState.PLANNING, SpecState.AWAITING_APPROVAL}
    if planning and facts.plan is not None and facts.plan.to_take:
        return Next(StepName.PLAN)
    if facts.state in {SpecState.IMPLEMENTING, SpecState.IN_REVIEW}:
        handed_in = next((task for task in facts.tasks if task.sandbox and task.sandbox.has_result), None)
        if handed_in is not None:
            return Next(StepName.COLLECT, handed_in.key)
    return Next(StepName.PAUSE)


def _decide_planning(plan: PlanFacts, *, messages_wait: bool) -> StepName:
    if plan.to_take:
        return StepName.PLAN
    if _wants_sandbox(plan, messages_wait=messages_wait):
        return StepName.PROVISION
    return StepName.SHOW if plan.complete else StepName.WATCH


def _decide_awaiting(plan: PlanFacts, *, messages_wait: bool) -> StepName:
    if plan.to_take:
        return StepName.PLAN
    if not plan.shown:
        return StepName.SHOW
    if not plan.approved and _wants_sandbox(plan, messages_wait=messages_wait):
        return StepName.PROVISION
    return StepName.APPROVE


def _wants_sandbox(plan: PlanFacts, *, messages_wait: bool) -> bool:
    """Whether one is to be made, or is being made: for what is unfinished, or for what people have said since."""
    if plan.sandbox is not None and plan.sandbox.live:
        return plan.sandbox.starting
    return messages_wait or not plan.complete


def _decide_implementing(facts: SpecFacts) -> Next | None:
    if not facts.has_branch:
        return Next(StepName.BRANCH)
    handed_in = next((task for task in facts.tasks if task.sandbox and task.sandbox.has_result), None)
    if not facts.has_pull:
        # The machine first: it starts up while the pull request is made. Its row exists from the first look on,
        # so a slow one does not hold the pull request up.
        first = _find_startable(facts)
        if first is not None and first.sandbox is None:
            return Next(StepName.PROVISION, first.key)
        return Next(StepName.PULL)
    if handed_in is not None:
        return Next(StepName.COLLECT, handed_in.key)
    if all(task.state is TaskState.COMPLETED for task in facts.tasks):
        return Next(StepName.PUBLISH)
    startable = _find_startable(facts)
    if startable is not None:
        return Next(StepName.PROVISION, startable.key)
    # A failed one: whoever recorded it died before saying what follows from that.
    left = [task.key for task in facts.tasks if task.under_way]
    left += [task.key for task in facts.tasks if task.state is TaskState.FAILED]
    return Next(StepName.WATCH, left[0] if left else None)


def _find_startable(facts: SpecFacts) -> TaskFacts | None:
    """The task whose sandbox is to be made, or is being made: those under way before new ones."""
    for task in facts.tasks:
        if task.under_way and (task.sandbox is None or task.sandbox.starting):
            return task
    if sum(task.under_way for task in facts.tasks) >= facts.max_parallel:
        return None
    return next((task for task in facts.tasks if task.state is TaskState.PENDING and task.ready), None)


def _decide_in_review(facts: SpecFacts) -> Next:
    handed_in = next((task for task in facts.tasks if task.sandbox and task.sandbox.has_result), None)
    if handed_in is not None:
        return Next(StepName.COLLECT, handed_in.key)
    if any(task.state is TaskState.PENDING for task in facts.tasks):
        return Next(StepName.FOLLOW)  # a round that a pause cut short
    if not facts.pull_ready:
        return Next(StepName.PUBLISH)
    return Next(StepName.FOLLOW if facts.messages_wait else StepName.REVIEW)
