"""Issues, comments and reactions as JSON."""

from typing import Any

from simulators.github.clock import iso, iso_or_none
from simulators.github.model import REACTIONS, Comment, Issue, Reaction, Repository
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import app_json, user_json
from simulators.github.shapes.repositories import api_url, labels_json, page_url
from simulators.github.world import World

Json = dict[str, Any]


def issue_page(world: World, repository: Repository, issue: Issue) -> str:
    """Web address of an issue or pull request."""
    word = "pull" if issue.pull else "issues"
    return f"{page_url(world, repository)}/{word}/{issue.number}"


def reactions_json(url: str, reactions: list[Reaction]) -> Json:
    """The roll-up with counts."""
    counts = {name: sum(1 for found in reactions if found.content == name) for name in REACTIONS}
    return {"url": f"{url}/reactions", "total_count": len(reactions), **counts}


def reaction_json(world: World, reaction: Reaction) -> Json:
    """One reaction."""
    return {
        "id": reaction.id,
        "node_id": node_id("Reaction", reaction.id),
        "user": user_json(world, reaction.user_id),
        "content": reaction.content,
        "created_at": iso(reaction.created_at),
    }


def via_app_json(world: World, app_id: int | None) -> Json | None:
    """``performed_via_github_app``."""
    return app_json(world, world.apps[app_id]) if app_id in world.apps and app_id is not None else None


def issue_json(world: World, repository: Repository, issue: Issue) -> Json:
    """An issue; a pull request's issue side has ``pull_request``."""
    api = api_url(world, repository)
    url = f"{api}/issues/{issue.number}"
    page = issue_page(world, repository, issue)
    assignees = [user_json(world, found) for found in issue.assignee_ids]
    kind = "PullRequest" if issue.pull else "Issue"
    body: Json = {
        "url": url,
        "repository_url": api,
        "labels_url": f"{url}/labels{{/name}}",
        "comments_url": f"{url}/comments",
        "events_url": f"{url}/events",
        "html_url": page,
        "id": issue.id,
        "node_id": node_id(kind, issue.pull.id if issue.pull else issue.id),
        "number": issue.number,
        "title": issue.title,
        "user": user_json(world, issue.user_id),
        "labels": labels_json(world, repository, issue.label_ids),
        "state": issue.state,
        "locked": issue.locked,
        "assignee": assignees[0] if assignees else None,
        "assignees": assignees,
        "milestone": None,
        "comments": len(issue.comments),
        "created_at": iso(issue.created_at),
        "updated_at": iso(issue.updated_at),
        "closed_at": iso_or_none(issue.closed_at),
        "author_association": world.association(repository, issue.user_id),
        "active_lock_reason": issue.lock_reason,
        "body": issue.body,
        "closed_by": user_json(world, issue.closed_by),
        "reactions": reactions_json(url, issue.reactions),
        "timeline_url": f"{url}/timeline",
        "performed_via_github_app": via_app_json(world, issue.app_id),
        "state_reason": issue.state_reason,
    }
    if issue.pull:
        body["draft"] = issue.pull.draft
        body["pull_request"] = {
            "url": f"{api}/pulls/{issue.number}",
            "html_url": page,
            "diff_url": f"{page}.diff",
            "patch_url": f"{page}.patch",
            "merged_at": iso_or_none(issue.pull.merged_at),
        }
    else:
        below = [one for one in repository.issues.values() if one.parent_number == issue.number]
        total, done = len(below), sum(one.state == "closed" for one in below)
        percent = 100 * done // total if total else 0
        body["sub_issues_summary"] = {"total": total, "completed": done, "percent_completed": percent}
    return body


def comment_json(world: World, comment: Comment) -> Json:
    """A conversation comment."""
    repository = world.repositories[comment.repo_id]
    issue = repository.issues[comment.number]
    api = api_url(world, repository)
    url = f"{api}/issues/comments/{comment.id}"
    return {
        "url": url,
        "html_url": f"{issue_page(world, repository, issue)}#issuecomment-{comment.id}",
        "issue_url": f"{api}/issues/{comment.number}",
        "id": comment.id,
        "node_id": node_id("IssueComment", comment.id),
        "user": user_json(world, comment.user_id),
        "created_at": iso(comment.created_at),
        "updated_at": iso(comment.updated_at),
        "author_association": world.association(repository, comment.user_id),
        "body": comment.body,
        "reactions": reactions_json(url, comment.reactions),
        "performed_via_github_app": via_app_json(world, comment.app_id),
    }
