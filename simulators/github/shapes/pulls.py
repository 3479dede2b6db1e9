"""Pull requests, reviews and review comments as JSON."""

from typing import Any

from simulators.github.clock import iso, iso_or_none
from simulators.github.git import FileChange
from simulators.github.model import Issue, Pull, Repository, Review, ReviewComment, Thread
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import user_json
from simulators.github.shapes.issues import issue_page, reactions_json
from simulators.github.shapes.repositories import api_url, labels_json, repository_json
from simulators.github.world import World

Json = dict[str, Any]


def merge_base(repository: Repository, pull: Pull) -> str:
    """Where a pull request's own changes start."""
    return repository.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha


def pull_changes(repository: Repository, pull: Pull) -> list[FileChange]:
    """Changed files of a pull request."""
    return repository.git.changes(merge_base(repository, pull), pull.head_sha)


def _side(world: World, repository: Repository | None, owner_id: int, ref: str, sha: str) -> Json:
    owner = world.users[owner_id]
    return {
        "label": f"{owner.login}:{ref}",
        "ref": ref,
        "sha": sha,
        "user": user_json(world, owner_id),
        "repo": None if repository is None else repository_json(world, repository),
    }


def pull_simple_json(world: World, repository: Repository, issue: Issue, pull: Pull) -> Json:
    """A pull request as lists show it."""
    api = api_url(world, repository)
    url = f"{api}/pulls/{issue.number}"
    page = issue_page(world, repository, issue)
    head_repository = None if pull.head_repo_id is None else world.repositories[pull.head_repo_id]
    comments, statuses = f"{api}/issues/{issue.number}/comments", f"{api}/statuses/{pull.head_sha}"
    links = {
        "self": url,
        "html": page,
        "issue": f"{api}/issues/{issue.number}",
        "comments": comments,
        "review_comments": f"{url}/comments",
        "review_comment": f"{api}/pulls/comments{{/number}}",
        "commits": f"{url}/commits",
        "statuses": statuses,
    }
    assignees = [user_json(world, found) for found in issue.assignee_ids]
    return {
        "url": url,
        "id": pull.id,
        "node_id": node_id("PullRequest", pull.id),
        "html_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "issue_url": f"{api}/issues/{issue.number}",
        "number": issue.number,
        "state": issue.state,
        "locked": issue.locked,
        "title": issue.title,
        "user": user_json(world, issue.user_id),
        "body": issue.body,
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_none(issue.closed_at),
        "merged_at": iso_or_none(pull.merged_at),
        "merge_commit_sha": pull.merge_commit_sha,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "requested_reviewers": [user_json(world, found) for found in pull.reviewer_ids],
        "requested_teams": [],
        "labels": labels_json(world, repository, issue.label_ids),
        "milestone": None,
        "draft": pull.draft,
        "commits_url": f"{url}/commits",
        "review_comments_url": f"{url}/comments",
        "review_comment_url": f"{api}/pulls/comments{{/number}}",
        "comments_url": comments,
        "statuses_url": statuses,
        "head": _side(world, head_repository, pull.head_owner_id, pull.head_ref, pull.head_sha),
        "base": _side(world, repository, repository.owner_id, pull.base_ref, pull.base_sha),
        "_links": {name: {"href": href} for name, href in links.items()},
        "author_association": world.association(repository, issue.user_id),
        "auto_merge": None,
        "active_lock_reason": issue.lock_reason,
    }


def mergeability(repository: Repository, issue: Issue, pull: Pull) -> tuple[bool | None, str]:
    """``mergeable`` and ``mergeable_state``."""
    if issue.state != "open":
        return None, "unknown"
    if repository.git.merge_trees(pull.base_sha, pull.head_sha) is None:
        return False, "dirty"
    return True, "draft" if pull.draft else "clean"


def pull_json(world: World, repository: Repository, issue: Issue, pull: Pull) -> Json:
    """A pull request in full."""
    files = pull_changes(repository, pull)
    mergeable, state = mergeability(repository, issue, pull)
    return {
        **pull_simple_json(world, repository, issue, pull),
        "merged": pull.merged_at is not None,
        "mergeable": mergeable,
        "rebaseable": mergeable,
        "mergeable_state": state,
        "merged_by": user_json(world, pull.merged_by),
        "comments": len(issue.comments),
        "review_comments": len(pull.comments),
        "maintainer_can_modify": False,
        "commits": repository.git.count(pull.base_sha, pull.head_sha),
        "additions": sum(change.additions for change in files),
        "deletions": sum(change.deletions for change in files),
        "changed_files": len(files),
    }


def pull_minimal_json(world: World, repository: Repository, issue: Issue, pull: Pull) -> Json:
    """The few fields that checks show of a pull request."""
    short = {"id": repository.id, "url": api_url(world, repository), "name": repository.name}
    return {
        "url": f"{api_url(world, repository)}/pulls/{issue.number}",
        "id": pull.id,
        "number": issue.number,
        "head": {"ref": pull.head_ref, "sha": pull.head_sha, "repo": short},
        "base": {"ref": pull.base_ref, "sha": pull.base_sha, "repo": short},
    }


def review_json(world: World, review: Review, *, webhook: bool = False) -> Json:
    """A review; webhooks write its state in lower case."""
    repository = world.repositories[review.repo_id]
    issue = repository.issues[review.number]
    page = f"{issue_page(world, repository, issue)}#pullrequestreview-{review.id}"
    url = f"{api_url(world, repository)}/pulls/{review.number}"
    body: Json = {
        "id": review.id,
        "node_id": node_id("PullRequestReview", review.id),
        "user": user_json(world, review.user_id),
        "body": (review.body or None) if webhook else review.body,
        "state": review.state.lower() if webhook else review.state,
        "html_url": page,
        "pull_request_url": url,
        "author_association": world.association(repository, review.user_id),
        "_links": {"html": {"href": page}, "pull_request": {"href": url}},
        "commit_id": review.commit_id,
    }
    if review.submitted_at is not None:
        body["submitted_at"] = iso(review.submitted_at)
    return body


def review_comment_json(world: World, comment: ReviewComment) -> Json:
    """A comment on a line."""
    repository = world.repositories[comment.repo_id]
    issue = repository.issues[comment.number]
    api = api_url(world, repository)
    url = f"{api}/pulls/comments/{comment.id}"
    page = f"{issue_page(world, repository, issue)}#discussion_r{comment.id}"
    pull_url = f"{api}/pulls/{comment.number}"
    outdated = comment.position is None
    body: Json = {
        "url": url,
        "pull_request_review_id": comment.review_id,
        "id": comment.id,
        "node_id": node_id("PullRequestReviewComment", comment.id),
        "diff_hunk": comment.diff_hunk,
        "path": comment.path,
        "position": comment.position,
        "original_position": comment.position or 1,
        "commit_id": comment.commit_id,
        "original_commit_id": comment.original_commit_id,
        "user": user_json(world, comment.user_id),
        "body": comment.body,
        "created_at": iso(comment.created_at),
        "updated_at": iso(comment.updated_at),
        "html_url": page,
        "pull_request_url": pull_url,
        "author_association": world.association(repository, comment.user_id),
        "_links": {"self": {"href": url}, "html": {"href": page}, "pull_request": {"href": pull_url}},
        "reactions": reactions_json(url, comment.reactions),
        "start_line": comment.start_line,
        "original_start_line": comment.start_line,
        "start_side": comment.side if comment.start_line else None,
        "line": None if outdated else comment.line,
        "original_line": comment.original_line,
        "side": comment.side,
        "subject_type": "line",
    }
    if comment.in_reply_to is not None:
        body["in_reply_to_id"] = comment.in_reply_to
    return body


def thread_json(world: World, thread: Thread) -> Json:
    """The ``thread`` of a webhook body."""
    comments = [
        world.review_comments[found] for found in thread.comment_ids if found in world.review_comments
    ]
    return {
        "node_id": node_id("PullRequestReviewThread", thread.id),
        "comments": [review_comment_json(world, comment) for comment in comments],
    }
