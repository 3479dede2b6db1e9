"""One step under way: the claim, what was read, and the only ways to write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.guardian import list_interventions
from app.db.installations import find_repository
from app.db.messages import has_waiting_messages, list_said, refuse_waiting
from app.db.models import Message, Phase, Sandbox, Spec, Task
from app.db.phases import has_phase_events, list_phases
from app.db.processes import find_worker_on
from app.db.sandboxes import list_of_spec
from app.db.specs import Claim, save_spec
from app.db.tasks import close_tasks, list_tasks
from app.domain.credentials import key_owner
from app.domain.errors import Gone
from app.domain.guardian import NUDGED, Rule
from app.domain.ids import InstallationId, RepoId
from app.domain.labels import LabelNames
from app.domain.plan import CLOSING, FOLLOW_UP, short_hash
from app.domain.ports import RepoRef
from app.domain.repo_settings import EffectiveSettings, RepoSettings, limit_settings
from app.domain.secrets_scan import redact
from app.domain.states import SPEC_LIVE, Flow, PhaseState, SpecState, TaskState
from app.domain.steps import PlanFacts, SandboxFacts, SpecFacts, TaskFacts
from app.domain.supervision import REACHABLE, Trouble
from app.domain.view import (
    AgentView,
    CriterionView,
    MessageView,
    Outcome,
    PhaseView,
    RunOfTests,
    SpecView,
    TaskView,
)
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire.plan import AGENT_PHASES, PhaseName
from worker.own_secrets import list_own_secrets
from worker.parts import Parts

SAID_SHOWN = 10
REMINDERS_SHOWN = 20
SLOW = timedelta(minutes=10)
"""When a spec that waits for people is looked at even if no delivery came."""


@dataclass
class Step:
    """Passed to the one module of worker.flow that runs now. `spec`, `tasks`, `phases` and `sandboxes` are as read at the
    start and follow what `saving` writes. `focus` is the key of the task that the step is about.
    """

    parts: Parts
    claim: Claim
    spec: Spec
    repo: RepoRef
    tasks: list[Task] = field(default_factory=list)
    sandboxes: list[Sandbox] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    has_news: bool = False
    """The planning sandbox reported something that has not been dealt with."""
    messages_wait: bool = False
    """People said something that no sandbox has."""
    said: Sequence[Message] = ()
    """What people said last, for the status comment."""
    reminders: Sequence[Rule] = ()
    """What agents were reminded of."""
    focus: str | None = None

    @classmethod
    async def load(cls, parts: Parts, claim: Claim) -> Step:
        """Raises Gone when the repository is not known any more."""
        async with parts.db.read() as session:
            repository = await find_repository(session, claim.spec.repo_id)
            tasks = await list_tasks(session, claim.spec.id)
            sandboxes = await list_of_spec(session, claim.spec.id)
            phases = await list_phases(session, claim.spec.id)
            planning = _newest(sandboxes, None)
            has_news = planning is not None and await has_phase_events(session, planning)
            messages_wait = await has_waiting_messages(session, claim.spec.id)
            said = await list_said(session, claim.spec.id, SAID_SHOWN)
            done = await list_interventions(session, claim.spec.id, REMINDERS_SHOWN)
            parts = replace(parts, secrets=await list_own_secrets(session, parts, claim.spec.id))
        if repository is None:
            raise Gone(f"repository {claim.spec.repo_id} is not known")
        repo = RepoRef(
            InstallationId(claim.spec.installation_id),
            RepoId(repository.id),
            repository.owner,
            repository.name,
        )
        return cls(
            parts, claim, claim.spec, repo, tasks, sandboxes, phases, has_news, messages_wait, said,
            tuple(Rule(one.rule) for one in done if one.event_type == NUDGED),
        )  # fmt: skip

    # ------------------------------------------------------------ reading

    def now(self) -> datetime:
        return self.parts.clock()

    @property
    def task(self) -> Task:
        """The one that the step is about."""
        return next((one for one in self.tasks if one.key == self.focus), self.tasks[0])

    @property
    def sandbox(self) -> Sandbox | None:
        """The newest one of that task."""
        return _newest(self.sandboxes, self.task.id) if self.tasks else None

    @property
    def planning_sandbox(self) -> Sandbox | None:
        return _newest(self.sandboxes, None)

    @property
    def settings(self) -> EffectiveSettings:
        """The repository's, within the operator's limits; the operator's alone before they were read."""
        if self.spec.settings:
            return EffectiveSettings.model_validate(self.spec.settings)
        return limit_settings(RepoSettings(), self.parts.limits.operator, self.parts.limits.models)[0]

    @property
    def labels(self) -> LabelNames:
        """As they are called in this repository."""
        return self.parts.labels.renamed(self.settings.labels.model_dump(exclude_none=True))

    @property
    def outputs(self) -> dict[str, dict[str, Any]]:
        """What the agent's phases came to that are done, by phase."""
        return {
            row.name: row.output
            for row in self.phases
            if row.name in AGENT_PHASES and row.state is PhaseState.COMPLETED and row.output is not None
        }

    @property
    def approval_required(self) -> bool:
        return self.spec.flow is Flow.PLAN or self.settings.approval == "required"

    @property
    def facts(self) -> SpecFacts:
        spec = self.spec
        return SpecFacts(
            state=spec.state,
            cancel_asked=spec.cancel_asked_at is not None,
            concluded=spec.concluded_at is not None,
            has_branch=spec.branch is not None and spec.head_sha is not None,
            has_pull=spec.pull_number is not None,
            pull_ready=spec.pull_ready_at is not None,
            tasks=self._task_facts(),
            plan=None if spec.flow is Flow.QUICK else self._plan_facts(),
            messages_wait=self.messages_wait,
            branch_moved=spec.branch_told > spec.branch_seen,
            pause_asked=spec.pause_asked_at is not None,
            max_parallel=self.settings.max_parallel_tasks,
        )

    def _task_facts(self) -> tuple[TaskFacts, ...]:
        given_up = {TaskState.FAILED, TaskState.CANCELLED}
        wanted = [
            task
            for task in self.tasks
            if task.state is not TaskState.CANCELLED
            and not (task.detail.get("kind") == FOLLOW_UP and task.state in given_up)
        ]
        done = {task.key for task in wanted if task.state is TaskState.COMPLETED}
        return tuple(
            TaskFacts(
                task.key,
                task.state,
                done.issuperset(task.detail.get("depends_on", ())),
                _sandbox_facts(_newest(self.sandboxes, task.id)),
            )
            for task in wanted
        )

    def _plan_facts(self) -> PlanFacts:
        spec = self.spec
        complete = bool(self.phases) and all(one.state is PhaseState.COMPLETED for one in self.phases)
        shown = spec.plan_shown_hash is not None and spec.plan_shown_hash == spec.plan_hash
        return PlanFacts(
            sandbox=_sandbox_facts(self.planning_sandbox),
            has_news=self.has_news,
            complete=complete and spec.plan_hash is not None,
            shown=shown,
            approved=shown and (not self.approval_required or spec.approved_hash == spec.plan_hash),
        )

    @property
    def view(self) -> SpecView:
        spec, sandbox = self.spec, self.sandboxes[-1] if self.sandboxes else None
        tree = f"{self.parts.web_url}/{self.repo.full_name}/tree/{spec.branch}" if spec.branch else ""
        return SpecView(
            spec_id=spec.id,
            issue_number=spec.issue_number,
            state=spec.state,
            title=spec.title,
            body=spec.body,
            labeler_login=spec.labeler_login,
            trigger_label=spec.trigger_label,
            base_branch=spec.base_branch,
            default_branch=spec.default_branch,
            branch=spec.branch,
            branch_url=tree,
            head_sha=spec.head_sha,
            start_sha=spec.start_sha,
            pull_number=spec.pull_number,
            pull_url=spec.pull_url or "",
            outcome=Outcome(spec.outcome) if spec.outcome else None,
            outcome_detail=spec.outcome_detail or "",
            timed_out=any(
                one.state is TaskState.FAILED and one.reason == Trouble.TIME_LIMIT for one in self.tasks
            ),
            cancel_asked=spec.cancel_asked_at is not None,
            pause_asked=spec.pause_asked_at is not None,
            paused_by=spec.pause_asked_by or "",
            waits_for=spec.waits_for,
            notes=tuple(spec.notes),
            status_untold=spec.status_untold or "",
            check_untold=spec.check_untold or "",
            tasks=tuple(_task_view(task) for task in self.tasks),
            flow=spec.flow.value,
            phases=tuple(_phase_view(phase) for phase in self.phases),
            plan_hash=short_hash(spec.plan_hash or ""),
            plan_url=spec.plan_comment_url or "",
            approval_awaited=spec.state is SpecState.AWAITING_APPROVAL,
            approved_by=spec.approved_by or "",
            questions_url=spec.questions_comment_url or "",
            approved_label=self.labels.approved,
            criteria=self._criteria(),
            test=_test_view(self.tasks),
            agent=_agent_view(sandbox, spec, self.parts.secrets) if sandbox else None,
            messages=tuple(self._message_view(row) for row in self.said),
            reminders=tuple(self.reminders),
            cost_usd=sum(one.spent_usd for one in self.sandboxes),
        )

    def _message_view(self, row: Message) -> MessageView:
        place = row.place or ""
        if row.comment_id and not place:  # of a release that noted it for reviews only
            place = f"issues/{self.spec.issue_number}#issuecomment-{row.comment_id}"
        url = f"{self.parts.web_url}/{self.repo.full_name}/{place}" if place else ""
        return MessageView(row.author_login or "", row.created_at, row.state.value, url)

    def _criteria(self) -> tuple[CriterionView, ...]:
        """Of a plan whose closing task is done, in their order."""
        closing = next((task for task in self.tasks if task.key == CLOSING), None)
        if closing is None or closing.state is not TaskState.COMPLETED:
            return ()
        rows = {row["criterion"]: row for row in closing.detail.get("evidence", ())}
        outputs = self.outputs.get(PhaseName.REQUIREMENTS.value, {})
        return tuple(
            CriterionView(
                one["id"],
                redact(one["text"], self.parts.secrets),
                rows.get(one["id"], {}).get("met"),
                rows.get(one["id"], {}).get("evidence", ""),
            )
            for requirement in outputs.get("requirements", ())
            for one in requirement["criteria"]
        )

    async def is_elsewhere(self) -> bool:
        """Whether its sandboxes are local ones of another host whose worker lives: only that one can see them. Where some
        are on this host, too, it goes on here, lest each host leave it to the other.
        """
        hosts = {one.host_id for one in self.sandboxes if one.removed_at is None and one.host_id is not None}
        if not hosts or self.parts.host_id in hosts:
            return False
        async with self.parts.db.read() as session:
            return await find_worker_on(session, hosts, self.now() - REACHABLE) is not None

    # ------------------------------------------------------------ writing

    @asynccontextmanager
    async def saving(self, **values: Any) -> AsyncIterator[AsyncSession]:
        """One guarded commit: the spec's new values and what the caller adds to the session.

        Raises Fenced when the lease is no longer ours or the state may not follow; then nothing is written.
        """
        crashpoint("commit.before")
        async with self.parts.db.write() as session:
            await save_spec(session, self.spec.id, self.claim.fence, values, self.now())
            yield session
        crashpoint("commit.after")
        for name, value in values.items():
            setattr(self.spec, name, value)

    async def save(self, **values: Any) -> None:
        async with self.saving(**values):
            pass

    async def add_note(self, note: str) -> None:
        if note not in self.spec.notes:
            await self.save(notes=[*self.spec.notes, note])

    async def end(self, state: SpecState, outcome: Outcome, detail: str) -> datetime:
        """The spec's work is over: record how, once. What people see follows in the conclude step."""
        if self.spec.state in SPEC_LIVE:
            now = self.now()
            async with self.saving(
                state=state, outcome=outcome.value, outcome_detail=detail, ended_at=now, queued_at=None,
                queue_reason=None, queue_place=None,
            ) as session:  # fmt: skip
                if state is SpecState.COMPLETED:
                    await refuse_waiting(session, self.spec.id)
                left = TaskState.CANCELLED
                await close_tasks(session, self.spec.id, {TaskState.PENDING, TaskState.ASSIGNED}, left, now)
                if outcome is not Outcome.DONE:
                    target = TaskState.CANCELLED if outcome is Outcome.CANCELLED else TaskState.FAILED
                    await close_tasks(session, self.spec.id, {TaskState.RUNNING}, target, now)
        return self.again()

    def again(self) -> datetime:
        return self.now()

    def later(self, seconds: float) -> datetime:
        return self.now() + timedelta(seconds=seconds)


def _newest(sandboxes: list[Sandbox], task_id: str | None) -> Sandbox | None:
    """Of a task; with None, of planning."""
    return next((one for one in reversed(sandboxes) if one.task_id == task_id), None)


def _sandbox_facts(sandbox: Sandbox | None) -> SandboxFacts | None:
    return SandboxFacts(sandbox.state, sandbox.manifest_round, sandbox.collected_round) if sandbox else None


def _test_view(tasks: list[Task]) -> RunOfTests | None:
    """As the last task left it."""
    done = [task for task in tasks if task.state is TaskState.COMPLETED and task.detail.get("test")]
    if not done:
        return None
    test = done[-1].detail["test"]
    return RunOfTests(test["command"], test["exit_code"], test["seconds"])


def _task_view(task: Task) -> TaskView:
    detail = task.detail
    return TaskView(
        task.key, task.title, task.state, task.summary or "", position=task.position,
        depends_on=tuple(detail.get("depends_on", ())), kind=detail.get("kind", ""),
    )  # fmt: skip


def _phase_view(phase: Phase) -> PhaseView:
    took_s = (
        (phase.ended_at - phase.started_at).total_seconds() if phase.started_at and phase.ended_at else None
    )
    return PhaseView(phase.name, phase.state, took_s, phase.attempts, phase.score, tuple(phase.findings))


def _agent_view(sandbox: Sandbox, spec: Spec, secrets: Sequence[str]) -> AgentView:
    activity = sandbox.activity or "starting"
    if sandbox.ended_at is not None:
        activity = "ended"
    return AgentView(
        sandbox.id, sandbox.attempt, activity, sandbox.tools, redact(sandbox.last_tool or "", secrets), sandbox.spent_usd,
        key_owner(sandbox.model_key_of, spec.labeler_login),
    )  # fmt: skip
