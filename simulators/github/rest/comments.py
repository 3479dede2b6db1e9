"""Comments of issues and of pull requests' conversations."""

from simulators.github.actions import issues as actions
from simulators.github.errors import ApiError, not_found, unprocessable
from simulators.github.model import Comment
from simulators.github.rest.issues import READ, WRITE, check_body, need_for
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.issues import comment_json
from simulators.github.world import COARSE


def comment_of(call: Call, level: str) -> Comment:
    """Comment ``{comment_id}``, or 404."""
    comment = call.world.comments.get(call.number("comment_id"))
    if comment is None or comment.repo_id != call.repository.id:
        raise not_found()
    issue = call.repository.issues[comment.number]
    if issue.deleted:
        raise not_found()
    need_for(call, issue, level)
    return comment


def since(call: Call, comments: list[Comment]) -> list[Comment]:
    """Only those updated at or after ``since``."""
    moment = call.query.get("since")
    if not moment:
        return comments
    return [found for found in comments if comment_json(call.world, found)["updated_at"] >= moment]


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/comments", *READ)
def list_comments(call: Call) -> Json:
    """Comments, oldest first."""
    issue = call.issue()
    need_for(call, issue, "read")
    return [comment_json(call.world, found) for found in call.page(since(call, issue.comments))]


@route("GET", "/repos/{owner}/{repo}/issues/comments", *READ)
def list_repository_comments(call: Call) -> Json:
    """Comments of all issues."""
    issues = call.repository.issues.values()
    found = [comment for issue in issues if not issue.deleted for comment in issue.comments]
    found.sort(key=lambda comment: comment.id, reverse=call.query.get("direction") == "desc")
    return [comment_json(call.world, comment) for comment in call.page(since(call, found))]


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/comments", *WRITE)
def create_comment(call: Call) -> Json:
    """A comment by the App; 403 in a locked conversation unless the App may administer."""
    issue = call.issue()
    need_for(call, issue, "write")
    body = call.required("body")
    if not body.strip():
        raise unprocessable("Body cannot be blank")
    check_body(body)
    if issue.locked and COARSE[call.world.role(call.repository, call.actor)] not in ("write", "admin"):
        raise ApiError(403, "Unable to create comment because issue is locked.")
    comment = actions.add_comment(call.platform, call.repository, issue, call.actor, body, call.caller.app)
    shape = comment_json(call.world, comment)
    return created(shape, shape["url"])


@route("GET", "/repos/{owner}/{repo}/issues/comments/{comment_id:int}", *READ)
def get_comment(call: Call) -> Json:
    """One comment."""
    return comment_json(call.world, comment_of(call, "read"))


@route("PATCH", "/repos/{owner}/{repo}/issues/comments/{comment_id:int}", *WRITE)
def update_comment(call: Call) -> Json:
    """Changes a comment's text."""
    comment = comment_of(call, "write")
    body = call.required("body")
    check_body(body)
    actions.edit_comment(call.platform, comment, call.actor, body)
    return comment_json(call.world, comment)


@route("DELETE", "/repos/{owner}/{repo}/issues/comments/{comment_id:int}", *WRITE)
def delete_comment(call: Call) -> Reply:
    """Removes a comment."""
    actions.delete_comment(call.platform, comment_of(call, "write"), call.actor)
    return no_content()
