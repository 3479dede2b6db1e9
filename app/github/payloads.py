"""Webhook bodies to plain data. Tolerant of what GitHub adds, strict about what is needed, and never raises.

GitHub adds fields, actions and events without notice, so unknown ones are passed over; a needed field that is
missing, renamed or of another type makes the delivery `Unreadable`, with a reason that can be shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from app.domain.ids import InstallationId
from app.github import events
from app.github.events import Detail
from app.github.parts import Account, Id, RepositoryPart


@dataclass(frozen=True)
class Parsed:
    """One delivery. `detail` is None for an event or action that nothing here reads.

    `repo` and `sender` are None where the payload has none (`installation`, a deleted user).
    """

    event: str
    action: str | None
    installation_id: InstallationId | None
    repo: RepositoryPart | None
    sender: Account | None
    detail: Detail | None


@dataclass(frozen=True)
class Unreadable:
    """Not what the event should look like. `reason` names the field, never its content."""

    reason: str


@dataclass(frozen=True)
class _InstallationRef:
    id: Id


@dataclass(frozen=True)
class _Common:
    action: str | None = None
    installation: _InstallationRef | None = None
    repository: RepositoryPart | None = None
    sender: Account | None = None


_ISSUE_ACTIONS = frozenset(
    {
        "opened",
        "edited",
        "closed",
        "reopened",
        "labeled",
        "unlabeled",
        "deleted",
        "transferred",
        "locked",
        "unlocked",
        "assigned",
        "unassigned",
        "pinned",
        "unpinned",
        "milestoned",
        "demilestoned",
        "typed",
        "untyped",
    }
)
_PULL_ACTIONS = frozenset(
    {
        "opened",
        "edited",
        "closed",
        "reopened",
        "synchronize",
        "ready_for_review",
        "converted_to_draft",
        "labeled",
        "unlabeled",
        "assigned",
        "unassigned",
        "review_requested",
        "review_request_removed",
        "locked",
        "unlocked",
        "milestoned",
        "demilestoned",
        "auto_merge_enabled",
        "auto_merge_disabled",
        "enqueued",
        "dequeued",
    }
)
_REPOSITORY_ACTIONS = frozenset(
    {
        "created",
        "deleted",
        "archived",
        "unarchived",
        "edited",
        "renamed",
        "transferred",
        "publicized",
        "privatized",
    }
)
_LIFE = frozenset({"created", "edited", "deleted"})
_KINDS: Mapping[str, tuple[type[Any], frozenset[str] | None]] = {
    # event: (shape, actions that are read); None = the event has no actions
    "issues": (
        events.IssueEvent,
        _ISSUE_ACTIONS,
    ),
    "issue_comment": (events.IssueCommentEvent, _LIFE),
    "pull_request": (
        events.PullEvent,
        _PULL_ACTIONS,
    ),
    "pull_request_review": (events.ReviewEvent, frozenset({"submitted", "edited", "dismissed"})),
    "pull_request_review_comment": (events.ReviewCommentEvent, _LIFE),
    "pull_request_review_thread": (events.ThreadEvent, frozenset({"resolved", "unresolved"})),
    "push": (events.PushEvent, None),
    "create": (events.RefEvent, None),
    "delete": (events.RefEvent, None),
    "check_run": (
        events.CheckRunEvent,
        frozenset({"created", "completed", "requested_action", "rerequested"}),
    ),
    "check_suite": (events.CheckSuiteEvent, frozenset({"completed", "requested", "rerequested"})),
    "installation": (
        events.InstallationEvent,
        frozenset({"created", "deleted", "suspend", "unsuspend", "new_permissions_accepted"}),
    ),
    "installation_repositories": (events.InstallationRepositoriesEvent, frozenset({"added", "removed"})),
    "repository": (
        events.RepositoryEvent,
        _REPOSITORY_ACTIONS,
    ),
    "member": (events.MemberEvent, frozenset({"added", "edited", "removed"})),
    "ping": (events.PingEvent, None),
    "label": (events.LabelEvent, _LIFE),
    "workflow_run": (events.WorkflowRunEvent, frozenset({"requested", "in_progress", "completed"})),
    "github_app_authorization": (events.AuthorizationEvent, frozenset({"revoked"})),
}


_readers: dict[type[Any], TypeAdapter[Any]] = {}


def _reader(shape: type[Any]) -> TypeAdapter[Any]:
    # Made at first use: all of them together take longer than the web process may take to start.
    if shape not in _readers:
        _readers[shape] = TypeAdapter(shape)
    return _readers[shape]


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "body"
    return f"{where}: {first['msg']}"[:300]


def parse_delivery(event: str, body: bytes) -> Parsed | Unreadable:
    """The content of one webhook POST.

    `event` is the X-GitHub-Event header, `body` the raw JSON as received.
    """
    try:
        common: _Common = _reader(_Common).validate_json(body, strict=True)
    except ValidationError as error:
        return Unreadable(_reason(error))
    shape, actions = _KINDS.get(event, (None, None))
    detail: Detail | None = None
    if shape is not None and (actions is None or common.action in actions):
        try:
            detail = _reader(shape).validate_json(body, strict=True)
        except ValidationError as error:
            return Unreadable(_reason(error))
    return Parsed(
        event=event,
        action=common.action,
        installation_id=InstallationId(common.installation.id) if common.installation else None,
        repo=common.repository,
        sender=common.sender,
        detail=detail,
    )
