"""One step under way: the claim, what was read, and the only ways to write."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.installations import find_repository
from app.db.models import Sandbox, Spec, Task
from app.db.sandboxes import list_of_spec
from app.db.specs import Claim, save_spec
from app.db.tasks import close_tasks, list_tasks
from app.domain.errors import Gone
from app.domain.ids import InstallationId, RepoId
from app.domain.ports import RepoRef
from app.domain.states import SPEC_LIVE, SpecState, TaskState
from app.domain.steps import SandboxFacts, SpecFacts
from app.domain.view import AgentView, Outcome, SpecView, TaskView
from app.observability.crashpoints import crashpoint
from worker.parts import Parts

SLOW = timedelta(minutes=10)
"""When a spec that waits for people is looked at even if no delivery came."""


@dataclass
class Step:
    """Passed to the one module of worker.flow that runs now. `spec`, `tasks` and `sandboxes` are as read at the start
    and follow what `saving` writes.
    """

    parts: Parts
    claim: Claim
    spec: Spec
    repo: RepoRef
    tasks: list[Task] = field(default_factory=list)
    sandboxes: list[Sandbox] = field(default_factory=list)

    @classmethod
    async def load(cls, parts: Parts, claim: Claim) -> Step:
        """Raises Gone when the repository is not known any more."""
        async with parts.db.read() as session:
            repository = await find_repository(session, claim.spec.repo_id)
            tasks = await list_tasks(session, claim.spec.id)
            sandboxes = await list_of_spec(session, claim.spec.id)
        if repository is None:
            raise Gone(f"repository {claim.spec.repo_id} is not known")
        repo = RepoRef(
            InstallationId(claim.spec.installation_id),
            RepoId(repository.id),
            repository.owner,
            repository.name,
        )
        return cls(parts, claim, claim.spec, repo, tasks, sandboxes)

    # ------------------------------------------------------------ reading

    def now(self) -> datetime:
        return self.parts.clock()

    @property
    def task(self) -> Task:
        return self.tasks[0]

    @property
    def sandbox(self) -> Sandbox | None:
        """The newest one."""
        return self.sandboxes[-1] if self.sandboxes else None

    @property
    def facts(self) -> SpecFacts:
        spec, sandbox = self.spec, self.sandbox
        return SpecFacts(
            state=spec.state,
            cancel_asked=spec.cancel_asked_at is not None,
            concluded=spec.concluded_at is not None,
            has_branch=spec.branch is not None and spec.head_sha is not None,
            has_pull=spec.pull_number is not None,
            task=self.task.state if self.tasks else TaskState.PENDING,
            sandbox=_sandbox_facts(sandbox) if sandbox else None,
            pull_ready=spec.pull_ready_at is not None,
        )

    @property
    def view(self) -> SpecView:
        spec, sandbox = self.spec, self.sandbox
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
            cancel_asked=spec.cancel_asked_at is not None,
            notes=tuple(spec.notes),
            status_untold=spec.status_untold or "",
            check_untold=spec.check_untold or "",
            tasks=tuple(TaskView(t.key, t.title, t.state, t.summary or "") for t in self.tasks),
            agent=_agent_view(sandbox) if sandbox else None,
            cost_usd=sum(one.spent_usd for one in self.sandboxes),
        )

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
                state=state, outcome=outcome.value, outcome_detail=detail, ended_at=now
            ) as session:
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


def _sandbox_facts(sandbox: Sandbox) -> SandboxFacts:
    return SandboxFacts(sandbox.state, sandbox.manifest_round, sandbox.collected_round)


def _agent_view(sandbox: Sandbox) -> AgentView:
    activity = sandbox.activity or "starting"
    if sandbox.ended_at is not None:
        activity = "ended"
    return AgentView(
        sandbox.id, sandbox.attempt, activity, sandbox.tools, sandbox.last_tool or "", sandbox.spent_usd
    )
