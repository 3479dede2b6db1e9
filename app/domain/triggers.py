"""From what happened on GitHub to what it asks for. Pure: `decide_intent` sees facts and never asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.happening import CommentFacts, Happening, RepoFacts
from app.domain.labels import LabelNames
from app.domain.states import Flow
from app.domain.trust import is_bot

__all__ = ["CommentFacts", "Happening", "RepoFacts"]


@dataclass(frozen=True)
class Start:
    """Work on an issue, if the sender may write and the label is still there. `labeled_at` is GitHub's own time."""

    flow: Flow
    label: str
    trigger_key: str
    labeled_at: datetime | None


@dataclass(frozen=True)
class Approved:
    """The label that approves a plan was set."""

    label: str


@dataclass(frozen=True)
class Said:
    """A person's comment was made, changed or deleted: commands, a message, both or neither."""

    change: Literal["created", "edited", "deleted"]
    by_bot: bool = False


@dataclass(frozen=True)
class Reviewed:
    """A review was submitted, or changed; or an inline comment was made, changed or deleted; or a thread resolved, or
    opened again.
    """

    change: Literal["submitted", "review_edited", "created", "edited", "deleted", "resolved", "unresolved"]


@dataclass(frozen=True)
class Cancel:
    reason: str


@dataclass(frozen=True)
class PullEnded:
    merged: bool


@dataclass(frozen=True)
class PullReopened:
    pass


@dataclass(frozen=True)
class BranchMoved:
    """Somebody pushed to a branch or deleted it: of the pull request, or by the branch's name."""


@dataclass(frozen=True)
class PullEdited:
    """Title, text or base of a pull request were changed."""


@dataclass(frozen=True)
class Unlocked:
    """An issue can be commented on again."""


@dataclass(frozen=True)
class RepositoryChanged:
    """`archived` and `deleted` end its work; `unarchived` lets what was not told be told; `transferred` to an owner who
    has the App lets the work go on there.
    """

    change: Literal["archived", "unarchived", "deleted", "transferred"]


@dataclass(frozen=True)
class ChecksEnded:
    """A check of another App on some commit has ended."""


@dataclass(frozen=True)
class Retry:
    """The Retry button of a check run, or GitHub's own re-run."""


@dataclass(frozen=True)
class Welcome:
    """Repositories the App can work in from now on: remember them, create missing labels."""


@dataclass(frozen=True)
class Forget:
    """Access is gone: installation deleted or suspended, or repositories removed."""

    state: Literal["deleted", "suspended", "removed"]


@dataclass(frozen=True)
class Ignored:
    reason: str


Wish = (
    Start
    | Approved
    | Said
    | Reviewed
    | Cancel
    | PullEnded
    | PullReopened
    | Retry
    | Welcome
    | Forget
    | BranchMoved
    | PullEdited
    | Unlocked
    | RepositoryChanged
    | ChecksEnded
)
Intent = Wish | Ignored


A_BOT = Ignored("a bot's comment")
OTHER_APP = "sent to the hook of another App"
OTHER_LABEL = "another label was added"


def decide_intent(
    happening: Happening, labels: LabelNames, own_bot_id: int | None, own_app_id: int | None = None
) -> Intent:
    """What a delivery asks for. Events of our own bot user never ask for anything (loops), nor do those that were
    sent to another App's hook (two Apps with one address and one secret).
    """
    if own_app_id is not None and happening.target_app_id not in {None, own_app_id}:
        return Ignored(OTHER_APP)
    if happening.checked_sha:
        return _decide_checked(happening, own_app_id)
    if own_bot_id is not None and happening.sender_id == own_bot_id:
        return Ignored("made by this App")
    comment = happening.comment
    if comment is not None and own_app_id is not None and comment.via_app_id == own_app_id:
        return Ignored("written through this App")
    table = {
        "issues": _decide_issue,
        "issue_comment": _decide_comment,
        "pull_request": _decide_pull,
        "pull_request_review": _decide_review,
        "pull_request_review_comment": _decide_remark,
        "pull_request_review_thread": _decide_thread,
        "push": _decide_push,
        "delete": _decide_push,
        "repository": _decide_repository,
        "check_run": _decide_check,
        "check_suite": _decide_suite,
        "installation": _decide_installation,
        "installation_repositories": _decide_repositories,
    }
    decide = table.get(happening.event)
    if decide is None:
        return Ignored(f"event {happening.event} asks for nothing")
    if happening.installation_id is None:
        return Ignored("no installation in the payload")
    return decide(happening, labels)


def is_label(happening: Happening, label_id: int | None, name: str) -> bool:
    """Whether the event is about that label: by its number, since it may be renamed, else by name."""
    if happening.label_id is not None and label_id is not None:
        return happening.label_id == label_id
    return (happening.label or "").casefold() == name.casefold()


def _decide_issue(happening: Happening, labels: LabelNames) -> Intent:
    if happening.repo is None or happening.issue_number is None:
        return Ignored("no repository or issue in the payload")
    action = happening.action
    if action == "labeled":
        return _decide_labeled(happening, labels)
    if action == "unlabeled":
        if happening.label is None:
            return Ignored("no label in the payload")
        # Whatever it is called by now: only the spec knows by which label it was started.
        return Cancel("label_removed")
    reasons = {"closed": "issue_closed", "deleted": "issue_deleted", "transferred": "issue_transferred"}
    if action in reasons:
        return Cancel(reasons[action])
    if action == "unlocked":
        return Unlocked()
    return Ignored(f"issues.{action} asks for nothing")


def _decide_labeled(happening: Happening, labels: LabelNames) -> Intent:
    if happening.label is None:
        return Ignored("no label in the payload")
    if happening.label.casefold() == labels.approved.casefold() and not happening.issue_is_pull:
        return Approved(happening.label)
    flow = labels.flow_of(happening.label)
    if flow is None:
        return Ignored(OTHER_LABEL)
    if happening.issue_is_pull:
        return Ignored("the label was set on a pull request")
    if happening.sender_id is None:
        return Ignored("the person who labeled no longer exists")
    # The event has no id of its own; two hooks report it with the same label, moment and person.
    key = f"{happening.label_id or happening.label.casefold()}@{happening.issue_updated_at}:{happening.sender_id}"
    return Start(
        flow=flow, label=happening.label, trigger_key=key, labeled_at=moment_of(happening.issue_updated_at)
    )


def _decide_comment(happening: Happening, _labels: LabelNames) -> Intent:
    """Who may say something is asked later; what can't be a person's own word asks for nothing."""
    comment = happening.comment
    if happening.repo is None or happening.issue_number is None or comment is None:
        return Ignored("no repository, issue or comment in the payload")
    if happening.action == "deleted":
        return Said("deleted")
    speechless = _why_speechless(happening, comment)
    by_bot = speechless == A_BOT  # which may be one that the repository lets speak
    if speechless is not None and not by_bot:
        return speechless
    if happening.action == "created":
        return Said("created", by_bot)
    if happening.action == "edited":
        # Whoever may edit others' comments could otherwise speak with their voice.
        mine = happening.sender_id == comment.author_id
        return Said("edited", by_bot) if mine else Ignored("edited by someone else")
    return Ignored(f"issue_comment.{happening.action} asks for nothing")


def _why_speechless(happening: Happening, comment: CommentFacts) -> Ignored | None:
    """Why these can't be a person's own words; None when they can."""
    if comment.author_id is None or happening.sender_id is None:
        return Ignored("the person who commented no longer exists")
    if is_bot({comment.author_type, happening.sender_type}, comment.author_login):
        return A_BOT
    return None


def _decide_review(happening: Happening, _labels: LabelNames) -> Intent:
    """A dismissed one stays as it was said: what it asked for is not taken back by that."""
    comment = happening.comment
    if happening.repo is None or happening.pull_number is None or comment is None:
        return Ignored("no repository, pull request or review in the payload")
    speechless = _why_speechless(happening, comment)
    if speechless is not None:
        return speechless
    if happening.action == "submitted":
        return Reviewed("submitted")
    if happening.action == "edited":
        mine = happening.sender_id == comment.author_id
        return Reviewed("review_edited") if mine else Ignored("edited by someone else")
    return Ignored(f"pull_request_review.{happening.action} asks for nothing")


def _decide_remark(happening: Happening, _labels: LabelNames) -> Intent:
    comment = happening.comment
    if happening.repo is None or happening.pull_number is None or comment is None:
        return Ignored("no repository, pull request or comment in the payload")
    if happening.action == "deleted":
        return Reviewed("deleted")
    if happening.review_id is None:
        return Ignored("no review in the payload")
    speechless = _why_speechless(happening, comment)
    if speechless is not None:
        return speechless
    if happening.action == "created":
        return Reviewed("created")
    if happening.action == "edited":
        mine = happening.sender_id == comment.author_id
        return Reviewed("edited") if mine else Ignored("edited by someone else")
    return Ignored(f"pull_request_review_comment.{happening.action} asks for nothing")


def _decide_thread(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.repo is None or happening.pull_number is None or happening.thread_root_id is None:
        return Ignored("no repository, pull request or thread in the payload")
    if happening.action == "resolved":
        return Reviewed("resolved")
    if happening.action == "unresolved":
        if happening.sender_id is None:
            return Ignored("the person who opened the thread again no longer exists")
        by_bot = is_bot({happening.sender_type}, happening.sender_login)
        return Ignored("opened again by a bot") if by_bot else Reviewed("unresolved")
    return Ignored(f"pull_request_review_thread.{happening.action} asks for nothing")


def moment_of(text: str) -> datetime | None:
    """GitHub's text of a time; None for anything else."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None


def _decide_pull(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.repo is None or happening.pull_number is None:
        return Ignored("no repository or pull request in the payload")
    if happening.action == "closed":
        return PullEnded(merged=happening.pull_merged)
    if happening.action == "reopened":
        return PullReopened()
    if happening.action == "synchronize":
        return BranchMoved()
    if happening.action == "edited":
        return PullEdited()
    return Ignored(f"pull_request.{happening.action} asks for nothing")


def _decide_push(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.repo is None or not happening.branch:
        return Ignored("no repository or branch in the payload")
    return BranchMoved()


def _decide_repository(happening: Happening, _labels: LabelNames) -> Intent:
    """Names, default branch and visibility are looked at with every payload anyway."""
    changes: dict[str | None, RepositoryChanged] = {
        "archived": RepositoryChanged("archived"),
        "unarchived": RepositoryChanged("unarchived"),
        "deleted": RepositoryChanged("deleted"),
        "transferred": RepositoryChanged("transferred"),
    }
    if happening.repo is None or happening.action not in changes:
        return Ignored(f"repository.{happening.action} asks for nothing")
    return changes[happening.action]


def _decide_check(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.repo is None or happening.check_run_id is None:
        return Ignored("no repository or check run in the payload")
    if happening.action == "rerequested":
        return Retry()
    if happening.action == "requested_action" and happening.requested_action == "retry":
        return Retry()
    return Ignored(f"check_run.{happening.action} asks for nothing")


def _decide_checked(happening: Happening, own_app_id: int | None) -> Intent:
    """Known by its App: the sender is whoever pushed the commit, so of all checks on our pushes we are it."""
    if happening.repo is None or happening.installation_id is None:
        return Ignored("no repository or installation in the payload")
    if own_app_id is not None and happening.check_app_id == own_app_id:
        return Ignored("made by this App")
    return ChecksEnded()


def _decide_suite(happening: Happening, _labels: LabelNames) -> Intent:
    """GitHub's "Re-run all checks"; it comes unasked to every App that may write checks."""
    if happening.repo is None or not happening.check_head_sha:
        return Ignored("no repository or commit in the payload")
    if happening.action == "rerequested":
        return Retry()
    return Ignored(f"check_suite.{happening.action} asks for nothing")


def _decide_installation(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.action in {"created", "unsuspend", "new_permissions_accepted"}:
        return Welcome()
    if happening.action == "deleted":
        return Forget("deleted")
    if happening.action == "suspend":
        return Forget("suspended")
    return Ignored(f"installation.{happening.action} asks for nothing")


def _decide_repositories(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.action == "added":
        return Welcome()
    if happening.action == "removed":
        return Forget("removed")
    return Ignored(f"installation_repositories.{happening.action} asks for nothing")
