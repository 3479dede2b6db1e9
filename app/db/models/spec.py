"""Specs and their phases, tasks and check runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ForeignKey, Index, String, Text, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from app.db.models.base import Base
from app.db.types import Json, state_column
from app.domain.states import SPEC_LIVE, Flow, PhaseState, SpecState, TaskState
from app.domain.supply import describe_wait

_LIVE_SQL = "state IN ({})".format(", ".join(f"'{state.value}'" for state in sorted(SPEC_LIVE)))


class Spec(Base):
    """One labeled issue on its way to a merged pull request.

    `version` grows with every fact about it; `stepped_version` is the newest one a finished step has seen, so a
    wake-up is never lost. `fence` grows with every claim; a write with an older one changes nothing.
    """

    __tablename__ = "spec"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    installation_id: Mapped[int] = mapped_column(BigInteger)
    repo_id: Mapped[int] = mapped_column(BigInteger)
    issue_number: Mapped[int]
    trigger_key: Mapped[str] = mapped_column(String(255))
    """The label event itself, whichever hook reported it: one spec each."""
    flow: Mapped[Flow] = mapped_column(state_column(Flow, "flow"))
    state: Mapped[SpecState] = mapped_column(state_column(SpecState, "state"))

    title: Mapped[str] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text)
    """Title and body as they stood in the label event: endorsed by whoever labeled."""
    issue_labels: Mapped[list[str]] = mapped_column(Json)
    trigger_label: Mapped[str] = mapped_column(String(100))
    trigger_label_id: Mapped[int | None] = mapped_column(BigInteger)
    """A label keeps its number when it is renamed. None where the event did not tell it."""
    labeled_at: Mapped[datetime | None]
    """When the label event happened, by GitHub's clock: what is older than that is out of date."""
    labeler_id: Mapped[int] = mapped_column(BigInteger)
    labeler_login: Mapped[str] = mapped_column(String(100))

    base_branch: Mapped[str | None] = mapped_column(String(255))
    base_sha: Mapped[str | None] = mapped_column(String(64))
    default_branch: Mapped[str | None] = mapped_column(String(255))
    base_asked: Mapped[str | None] = mapped_column(String(255))
    """What somebody asked for with `/agent base`."""
    branch: Mapped[str | None] = mapped_column(String(255))
    branch_attempts: Mapped[int] = mapped_column(default=0)
    start_sha: Mapped[str | None] = mapped_column(String(64))
    head_sha: Mapped[str | None] = mapped_column(String(64))
    """What we last made or pushed on the branch; None before the branch exists."""
    push_sha: Mapped[str | None] = mapped_column(String(64))
    """What is about to be pushed: recorded before the push, so that a crash in between is understood."""
    branch_told: Mapped[int] = mapped_column(default=0, server_default="0")
    """How often GitHub told that somebody else moved or deleted the branch."""
    branch_seen: Mapped[int] = mapped_column(default=0, server_default="0")
    """Up to which of these a step has looked at the branch."""

    settings: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """The repository's settings as they stood when the spec started; None before, {} when it has none."""
    settings_sha: Mapped[str | None] = mapped_column(String(64))
    """The commit of the default branch they were read at."""

    plan_hash: Mapped[str | None] = mapped_column(String(64))
    """Of the whole plan as it stands; None before there is one."""
    plan_shown_hash: Mapped[str | None] = mapped_column(String(64))
    """Of the plan that people see in the plan comment: what an approval names."""
    plan_shown: Mapped[dict[str, Any] | None] = mapped_column(Json)
    """That plan's outputs by phase, to tell what a newer one changes."""
    plan_comment_id: Mapped[int | None] = mapped_column(BigInteger)
    plan_comment_url: Mapped[str | None] = mapped_column(Text)
    questions_comment_id: Mapped[int | None] = mapped_column(BigInteger)
    questions_comment_url: Mapped[str | None] = mapped_column(Text)
    plan_revision: Mapped[int] = mapped_column(default=0, server_default="0")
    """How often a plan was shown."""
    plan_attempts: Mapped[int] = mapped_column(default=0, server_default="0")
    """Planning sandboxes in a row that were lost without a finished phase."""
    approved_hash: Mapped[str | None] = mapped_column(String(64))
    approved_by: Mapped[str | None] = mapped_column(String(100))
    """Login of whoever approved it."""

    queued_at: Mapped[datetime | None]
    """Since when it has been waiting for a sandbox; None when it is not."""
    queue_reason: Mapped[str | None] = mapped_column(String(32))
    """What it waits for (a Shortage's value)."""
    queue_place: Mapped[int | None]
    """Its place in that queue, from 1, as of its last look."""

    pull_number: Mapped[int | None]
    pull_node_id: Mapped[str | None] = mapped_column(String(100))
    pull_url: Mapped[str | None] = mapped_column(Text)
    pull_state: Mapped[str | None] = mapped_column(String(16))
    """open, closed or merged, as last read or told."""
    pull_ready_at: Mapped[datetime | None]
    rounds_before: Mapped[int] = mapped_column(default=0, server_default="0")
    """Rounds after the first result that no longer count: somebody has said to go on since."""
    review_asked_at: Mapped[datetime | None]

    status_comment_id: Mapped[int | None] = mapped_column(BigInteger)
    status_comment_url: Mapped[str | None] = mapped_column(Text)
    status_body_sha: Mapped[str | None] = mapped_column(String(64))
    status_state_sha: Mapped[str | None] = mapped_column(String(64))
    """Of the same text without its counters: whether an edit would tell more than larger numbers."""
    status_written_at: Mapped[datetime | None]
    status_untold: Mapped[str | None] = mapped_column(Text)
    """Why GitHub does not let us write the status comment, in its words; None while it does."""
    status_refused_at: Mapped[datetime | None]
    """When it last said so."""
    check_untold: Mapped[str | None] = mapped_column(Text)
    """Why GitHub does not let us write the check run; None while it does."""
    concluded_at: Mapped[datetime | None]
    """When everything people see had reached its final form."""

    outcome: Mapped[str | None] = mapped_column(String(32))
    """done, no_changes, push_refused, failed, cancelled: what is told to people."""
    outcome_detail: Mapped[str | None] = mapped_column(Text)
    notes: Mapped[list[str]] = mapped_column(Json, default=list)
    """Sentences for people that do not change the outcome (no draft possible, review could not be requested)."""
    cancel_reason: Mapped[str | None] = mapped_column(String(64))
    cancel_asked_at: Mapped[datetime | None]
    pause_asked_at: Mapped[datetime | None]
    """Since when it is to be paused; None when it is to go on."""
    pause_asked_by: Mapped[str | None] = mapped_column(String(100))
    """Login of whoever asked for it; None when Issuewright itself did."""
    paused_from: Mapped[str | None] = mapped_column(String(32))
    """The state it goes on in (a SpecState's value); None while it is not paused."""

    version: Mapped[int] = mapped_column(default=1)
    stepped_version: Mapped[int] = mapped_column(default=0)
    fence: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None] = mapped_column(String(64))
    lease_until_at: Mapped[datetime]
    due_at: Mapped[datetime]
    """When to look again even if nothing happens."""
    failures: Mapped[int] = mapped_column(default=0)
    """Steps that failed in a row; zero after each that succeeded."""
    deferrals: Mapped[int] = mapped_column(default=0, server_default="0")
    """Steps in a row that something outside put off; zero after each that went through."""

    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]

    __table_args__ = (
        UniqueConstraint("repo_id", "issue_number", "trigger_key"),
        Index(
            "uq_spec_live_repo_id_issue_number",
            "repo_id",
            "issue_number",
            unique=True,
            sqlite_where=text(_LIVE_SQL),
            postgresql_where=text(_LIVE_SQL),
        ),
        Index("ix_spec_concluded_at_due_at", "concluded_at", "due_at"),
        Index("ix_spec_created_at_id", "created_at", "id"),
        Index("ix_spec_repo_id_pull_number", "repo_id", "pull_number"),
        Index("ix_spec_queued_at", "queued_at"),
    )

    @property
    def waits_for(self) -> str:
        """What keeps its next sandbox from starting, in words; empty when nothing does."""
        return describe_wait(self.queue_reason, self.queue_place) if self.queued_at is not None else ""

    @property
    def label_gone(self) -> bool:
        """It was cancelled, or is being cancelled, because its label was removed: only the label starts anew."""
        return self.cancel_reason == "label_removed"


class Phase(Base):
    """One planning phase of a spec: its newest output, and how it came about."""

    __tablename__ = "phase"

    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    state: Mapped[PhaseState] = mapped_column(state_column(PhaseState, "state"))
    version: Mapped[int] = mapped_column(default=1)
    """Of the output's model."""
    revision: Mapped[int] = mapped_column(default=0)
    """How often an output was taken."""
    attempts: Mapped[int] = mapped_column(default=0)
    """Outputs handed in, refused ones included."""
    score: Mapped[float | None]
    """Quality from 0 to 1; None before there is an output."""
    checks: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    """The named checks behind the score: name to points from 0 to 1."""
    findings: Mapped[list[str]] = mapped_column(Json, default=list)
    """What was wrong with the newest refused output, for people."""
    output: Mapped[dict[str, Any] | None] = mapped_column(Json)
    sandbox_id: Mapped[str | None] = mapped_column(String(32))
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    updated_at: Mapped[datetime]


class Task(Base):
    """One item of a spec's plan."""

    __tablename__ = "task"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), index=True)
    key: Mapped[str] = mapped_column(String(32))
    position: Mapped[int]
    title: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    state: Mapped[TaskState] = mapped_column(state_column(TaskState, "state"))
    attempts: Mapped[int] = mapped_column(default=0)
    summary: Mapped[str | None] = mapped_column(Text)
    """The agent's last text, redacted."""
    reason: Mapped[str | None] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(Json, default=dict)
    """The plan's item as the tasks phase gave it (kind, files, criteria, requirement ids, depends_on); {} for a quick
    one.
    """
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]

    __table_args__ = (UniqueConstraint("spec_id", "key"), Index("ix_task_created_at_id", "created_at", "id"))


class CheckRun(Base):
    """The check run on one head of a spec's branch."""

    __tablename__ = "check_run"

    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), primary_key=True)
    head_sha: Mapped[str] = mapped_column(String(64), primary_key=True)
    check_run_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    conclusion: Mapped[str | None] = mapped_column(String(32))
    """As written to GitHub; None while it is in progress there."""
    output_sha: Mapped[str | None] = mapped_column(String(64))
    written_at: Mapped[datetime | None]
    created_at: Mapped[datetime]


class EarlierPull(Base):
    """A pull request that a spec had before it began a new branch: what people say there is still for that spec."""

    __tablename__ = "earlier_pull"

    repo_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    pull_number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    spec_id: Mapped[str] = mapped_column(ForeignKey("spec.id", ondelete="CASCADE"), index=True)
