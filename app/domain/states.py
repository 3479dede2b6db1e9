"""States and the only moves between them (contract, section 5). One table per machine."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar


class SpecState(StrEnum):
    QUEUED = "queued"
    PLANNING = "planning"
    AWAITING_APPROVAL = "awaiting_approval"
    IMPLEMENTING = "implementing"
    IN_REVIEW = "in_review"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TaskState(StrEnum):
    PENDING = "pending"
    ASSIGNED = "assigned"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class PhaseState(StrEnum):
    """Of one planning phase of a spec. There is no way back: a plan that is revised replaces a phase's output."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


class SandboxState(StrEnum):
    PENDING = "PENDING"
    CREATING = "CREATING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


class MessageState(StrEnum):
    QUEUED = "queued"
    SENT = "sent"
    ACKNOWLEDGED = "acknowledged"
    REFUSED = "refused"
    CANCELLED = "cancelled"


class DeliveryState(StrEnum):
    RECEIVED = "received"
    HANDLED = "handled"
    IGNORED = "ignored"
    FAILED = "failed"


class EffectState(StrEnum):
    """Of a write to GitHub that belongs to no spec's step (labels of a repository, a notice, a reaction)."""

    PENDING = "pending"
    DONE = "done"
    FAILED = "failed"


class Flow(StrEnum):
    """What the label asked for."""

    FULL = "full"
    PLAN = "plan"
    QUICK = "quick"


_S = SpecState
SPEC_LIVE = frozenset(
    {_S.QUEUED, _S.PLANNING, _S.AWAITING_APPROVAL, _S.IMPLEMENTING, _S.IN_REVIEW, _S.PAUSED}
)
_ENDS = frozenset({_S.FAILED, _S.CANCELLED})
SPEC_MOVES: Mapping[SpecState, frozenset[SpecState]] = {
    _S.QUEUED: frozenset({_S.PLANNING, _S.IMPLEMENTING, _S.PAUSED}) | _ENDS,
    _S.PLANNING: frozenset({_S.AWAITING_APPROVAL, _S.IMPLEMENTING, _S.PAUSED}) | _ENDS,
    _S.AWAITING_APPROVAL: frozenset({_S.PLANNING, _S.IMPLEMENTING, _S.PAUSED}) | _ENDS,
    _S.IMPLEMENTING: frozenset({_S.IN_REVIEW, _S.COMPLETED, _S.PAUSED}) | _ENDS,
    _S.IN_REVIEW: frozenset({_S.IMPLEMENTING, _S.COMPLETED, _S.PAUSED}) | _ENDS,
    _S.PAUSED: (SPEC_LIVE - {_S.PAUSED}) | _ENDS,
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset({_S.QUEUED}),
    _S.CANCELLED: frozenset({_S.QUEUED}),
}

_T = TaskState
TASK_MOVES: Mapping[TaskState, frozenset[TaskState]] = {
    _T.PENDING: frozenset({_T.ASSIGNED, _T.CANCELLED}),
    _T.ASSIGNED: frozenset({_T.RUNNING, _T.PENDING, _T.CANCELLED}),
    _T.RUNNING: frozenset({_T.COMPLETED, _T.FAILED, _T.CANCELLED}),
    _T.COMPLETED: frozenset(),
    _T.FAILED: frozenset({_T.PENDING}),
    _T.CANCELLED: frozenset(),
}

_B = SandboxState
SANDBOX_LIVE = frozenset({_B.PENDING, _B.CREATING, _B.RUNNING, _B.COMPLETING})
SANDBOX_MOVES: Mapping[SandboxState, frozenset[SandboxState]] = {
    # COMPLETED from any live state is the manual cancellation.
    _B.PENDING: frozenset({_B.CREATING, _B.COMPLETED}),
    _B.CREATING: frozenset({_B.RUNNING, _B.FAILED, _B.COMPLETED}),
    _B.RUNNING: frozenset({_B.COMPLETING, _B.FAILED, _B.COMPLETED}),
    _B.COMPLETING: frozenset({_B.COMPLETED, _B.FAILED}),
    _B.COMPLETED: frozenset(),
    _B.FAILED: frozenset(),
}

_M = MessageState
MESSAGE_MOVES: Mapping[MessageState, frozenset[MessageState]] = {
    _M.QUEUED: frozenset({_M.SENT, _M.REFUSED, _M.CANCELLED}),
    _M.SENT: frozenset({_M.ACKNOWLEDGED, _M.REFUSED, _M.CANCELLED}),
    _M.ACKNOWLEDGED: frozenset(),
    _M.REFUSED: frozenset(),
    _M.CANCELLED: frozenset(),
}

StateT = TypeVar("StateT", bound=StrEnum)


def sources_of(moves: Mapping[StateT, frozenset[StateT]], target: StateT) -> frozenset[StateT]:
    """The states from which `target` may be entered; what a guarded UPDATE names in its WHERE."""
    return frozenset(source for source, targets in moves.items() if target in targets)
