"""From a parsed delivery to the flat facts that `app.domain.triggers` decides on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.domain.triggers import CommentFacts, Happening, RepoFacts
from app.github.events import (
    CheckRunEvent,
    CheckSuiteEvent,
    Detail,
    InstallationEvent,
    InstallationRepositoriesEvent,
    IssueCommentEvent,
    IssueEvent,
    PullEvent,
    PushEvent,
    RefEvent,
    ReviewCommentEvent,
    ReviewEvent,
    ThreadEvent,
    WorkflowRunEvent,
)
from app.github.parts import Account, CommentPart, InstallationPart, IssuePart, LabelPart, RepositoryPart
from app.github.payloads import Parsed

_NO_HEADERS: Mapping[str, str] = {}


def to_happening(parsed: Parsed, headers: Mapping[str, str] = _NO_HEADERS) -> Happening:
    """The same delivery as the domain sees it; what the event does not say stays at its default. `headers` are those
    that were kept, in lower case.
    """
    facts = Happening(
        event=parsed.event,
        action=parsed.action,
        installation_id=parsed.installation_id,
        repo=_repo(parsed.repo) if parsed.repo else None,
        sender_id=parsed.sender.id if parsed.sender else None,
        sender_login=parsed.sender.login if parsed.sender else "",
        sender_type=parsed.sender.type if parsed.sender else "",
        target_app_id=_target_app(headers),
        branch=_branch(parsed.detail),
        branch_sha=_sha_after(parsed.detail),
        checked_sha=_checked_sha(parsed),
    )
    detail = parsed.detail
    if isinstance(detail, IssueEvent | IssueCommentEvent):
        facts = _with_issue(facts, detail.issue)
    if isinstance(detail, IssueCommentEvent):
        facts = replace(facts, comment=_comment(detail.comment))
    if isinstance(detail, ReviewEvent | ReviewCommentEvent | ThreadEvent):
        facts = _with_review(facts, detail)
    if isinstance(detail, PullEvent | ReviewEvent | ReviewCommentEvent | ThreadEvent):
        pull = detail.pull_request
        facts = replace(
            facts, pull_number=pull.number, pull_merged=pull.is_merged, pull_head_sha=pull.head.sha,
            pull_base=pull.base.ref,
        )  # fmt: skip
    if isinstance(detail, IssueEvent | PullEvent):
        facts = _with_label(facts, detail.label)
    if isinstance(detail, CheckRunEvent):
        facts = _with_check(facts, detail)
    if isinstance(detail, CheckSuiteEvent):
        suite = detail.check_suite
        app_id = suite.app.id if suite.app else None
        facts = replace(facts, check_app_id=app_id, check_head_sha=suite.head_sha)
    if isinstance(detail, InstallationEvent):
        facts = replace(facts, repositories=tuple(map(_repo, detail.repositories or ())))
        facts = _with_account(facts, detail.installation)
    if isinstance(detail, InstallationRepositoriesEvent):
        facts = replace(
            facts,
            repositories=tuple(map(_repo, detail.repositories_added)),
            repositories_removed=tuple(repo.id for repo in detail.repositories_removed),
        )
        facts = _with_account(facts, detail.installation)
    return facts


def _checked_sha(parsed: Parsed) -> str:
    detail: Detail | None = parsed.detail if parsed.action == "completed" else None
    match detail:
        case CheckRunEvent():
            return detail.check_run.head_sha
        case CheckSuiteEvent():
            return detail.check_suite.head_sha
        case WorkflowRunEvent():
            return detail.workflow_run.head_sha
    return ""


def _target_app(headers: Mapping[str, str]) -> int | None:
    """Whose hook GitHub says it sent this to; None for hooks of repositories and organizations."""
    app = headers.get("x-github-hook-installation-target-id", "")
    of_app = headers.get("x-github-hook-installation-target-type") == "integration"
    return int(app) if of_app and app.isascii() and app.isdigit() and len(app) < 19 else None


def _branch(detail: Detail | None) -> str:
    """Empty for a tag, and for events that are about no branch. A push names the whole ref."""
    if isinstance(detail, RefEvent):
        return detail.ref if detail.ref_type == "branch" else ""
    if isinstance(detail, PushEvent) and detail.ref.startswith("refs/heads/"):
        return detail.ref.removeprefix("refs/heads/")
    return ""


def _sha_after(detail: Detail | None) -> str:
    return detail.after if isinstance(detail, PushEvent) and not detail.deleted else ""


def _repo(part: RepositoryPart) -> RepoFacts:
    return RepoFacts(
        repo_id=part.id,
        owner=part.owner_login,
        name=part.name,
        default_branch=part.default_branch,
        private=part.private,
    )


def _comment(part: CommentPart) -> CommentFacts:
    author, app = part.user, part.performed_via_github_app
    return CommentFacts(
        comment_id=part.id,
        body=part.body or "",
        author_id=author.id if author else None,
        author_login=author.login if author else "",
        author_type=author.type if author else "",
        via_app_id=app.id if app else None,
        edited_at=part.updated_at,
    )


def _with_issue(facts: Happening, issue: IssuePart) -> Happening:
    return replace(
        facts,
        issue_number=issue.number,
        issue_is_pull=issue.pull_request is not None,
        issue_title=issue.title,
        issue_body=issue.body or "",
        issue_labels=issue.label_names,
        issue_updated_at=issue.updated_at,
    )


def _with_review(facts: Happening, detail: ReviewEvent | ReviewCommentEvent | ThreadEvent) -> Happening:
    if isinstance(detail, ThreadEvent):
        first = detail.thread.comments[0] if detail.thread.comments else None
        root_id = (first.in_reply_to_id or first.id) if first else None
        return replace(
            facts,
            thread_root_id=root_id,
            thread_changed_at=detail.updated_at or detail.pull_request.updated_at,
        )
    if isinstance(detail, ReviewEvent):
        review = detail.review
        return replace(
            facts, review_id=review.id, review_state=review.state.upper(), review_node_id=review.node_id,
            comment=_words(review.id, review.user, review.body, ""),
        )  # fmt: skip
    remark = detail.comment
    return replace(
        facts,
        review_id=remark.pull_request_review_id,
        thread_root_id=remark.in_reply_to_id or remark.id,
        comment=_words(remark.id, remark.user, remark.body, remark.updated_at),
    )


def _words(word_id: int, author: Account | None, body: str | None, edited_at: str) -> CommentFacts:
    return CommentFacts(
        comment_id=word_id,
        body=body or "",
        author_id=author.id if author else None,
        author_login=author.login if author else "",
        author_type=author.type if author else "",
        edited_at=edited_at,
    )


def _with_label(facts: Happening, label: LabelPart | None) -> Happening:
    return replace(facts, label=label.name, label_id=label.id) if label else facts


def _with_check(facts: Happening, detail: CheckRunEvent) -> Happening:
    check = detail.check_run
    return replace(
        facts,
        check_run_id=check.id,
        check_app_id=check.app.id if check.app else None,
        requested_action=detail.requested_action.identifier if detail.requested_action else None,
    )


def _with_account(facts: Happening, installation: InstallationPart) -> Happening:
    account = installation.account
    return replace(
        facts,
        account_id=account.id if account else None,
        account_login=account.login if account else None,
    )
