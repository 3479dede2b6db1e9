"""From what happened on GitHub to what it asks for. Pure: `decide_intent` sees facts and never asks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from app.domain.labels import LabelNames
from app.domain.states import Flow


@dataclass(frozen=True)
class RepoFacts:
    repo_id: int
    owner: str
    name: str
    default_branch: str | None = None
    private: bool = False


@dataclass(frozen=True)
class CommentFacts:
    """A comment in a conversation, as the event tells it. `via_app_id`: the App it was written through, if any."""

    comment_id: int
    body: str
    author_id: int | None
    author_login: str = ""
    author_type: str = ""
    via_app_id: int | None = None
    edited_at: str = ""
    """GitHub's own text of the time it was written or changed the last time."""


@dataclass(frozen=True)
class Happening:
    """One delivery, reduced to what decisions need. None = the payload did not say."""

    event: str
    action: str | None
    installation_id: int | None = None
    repo: RepoFacts | None = None
    sender_id: int | None = None
    sender_login: str = ""
    sender_type: str = ""
    issue_number: int | None = None
    issue_is_pull: bool = False
    issue_title: str = ""
    issue_body: str = ""
    issue_labels: tuple[str, ...] = ()
    issue_updated_at: str = ""
    label: str | None = None
    label_id: int | None = None
    comment: CommentFacts | None = None
    pull_number: int | None = None
    pull_merged: bool = False
    check_run_id: int | None = None
    check_app_id: int | None = None
    check_head_sha: str = ""
    """Of a check suite: all check runs on that commit."""
    requested_action: str | None = None
    repositories: tuple[RepoFacts, ...] = ()
    repositories_removed: tuple[int, ...] = ()
    account_id: int | None = None
    account_login: str | None = None
    target_app_id: int | None = None
    """The App whose hook GitHub says this was sent to; None for other kinds of hook."""


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


Wish = Start | Approved | Said | Cancel | PullEnded | PullReopened | Retry | Welcome | Forget
Intent = Wish | Ignored


OTHER_APP = "sent to the hook of another App"


def decide_intent(
    happening: Happening, labels: LabelNames, own_bot_id: int | None, own_app_id: int | None = None
) -> Intent:
    """What a delivery asks for. Events of our own bot user never ask for anything (loops), nor do those that were
    sent to another App's hook (two Apps with one address and one secret).
    """
    if own_app_id is not None and happening.target_app_id not in {None, own_app_id}:
        return Ignored(OTHER_APP)
    if own_bot_id is not None and happening.sender_id == own_bot_id:
        return Ignored("made by this App")
    comment = happening.comment
    if comment is not None and own_app_id is not None and comment.via_app_id == own_app_id:
        return Ignored("written through this App")
    table = {
        "issues": _decide_issue,
        "issue_comment": _decide_comment,
        "pull_request": _decide_pull,
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
    return Ignored(f"issues.{action} asks for nothing")


def _decide_labeled(happening: Happening, labels: LabelNames) -> Intent:
    if happening.label is None:
        return Ignored("no label in the payload")
    if happening.label.casefold() == labels.approved.casefold() and not happening.issue_is_pull:
        return Approved(happening.label)
    flow = labels.flow_of(happening.label)
    if flow is None:
        return Ignored("another label was added")
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
    if comment.author_id is None or happening.sender_id is None:
        return Ignored("the person who commented no longer exists")
    if "Bot" in {comment.author_type, happening.sender_type} or comment.author_login.endswith("[bot]"):
        return Ignored("a bot's comment")
    if happening.action == "created":
        return Said("created")
    if happening.action == "edited":
        # Whoever may edit others' comments could otherwise speak with their voice.
        mine = happening.sender_id == comment.author_id
        return Said("edited") if mine else Ignored("edited by someone else")
    return Ignored(f"issue_comment.{happening.action} asks for nothing")


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
    return Ignored(f"pull_request.{happening.action} asks for nothing")


def _decide_check(happening: Happening, _labels: LabelNames) -> Intent:
    if happening.repo is None or happening.check_run_id is None:
        return Ignored("no repository or check run in the payload")
    if happening.action == "rerequested":
        return Retry()
    if happening.action == "requested_action" and happening.requested_action == "retry":
        return Retry()
    return Ignored(f"check_run.{happening.action} asks for nothing")


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
