"""Comments on lines of a pull request."""

from simulators.github.actions import reviews as actions
from simulators.github.errors import not_found, unprocessable
from simulators.github.model import ReviewComment
from simulators.github.rest.issues import check_body
from simulators.github.rest.pulls import READ, WRITE
from simulators.github.rest.reviews import remark_of
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.pulls import review_comment_json


def comment_of(call: Call) -> ReviewComment:
    """Comment ``{comment_id}`` of the repository, or 404."""
    comment = call.world.review_comments.get(call.number("comment_id"))
    if comment is None or comment.repo_id != call.repository.id:
        raise not_found()
    return comment


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/comments", READ)
def list_comments(call: Call) -> Json:
    """Line comments of a pull request, oldest first."""
    _, pull = call.pull()
    return [review_comment_json(call.world, comment) for comment in call.page(pull.comments)]


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/comments", WRITE)
def create_comment(call: Call) -> Json:
    """A single line comment, or a reply with ``in_reply_to``."""
    issue, pull = call.pull()
    body = call.required("body")
    check_body(body)
    reply_to = call.payload.get("in_reply_to")
    if reply_to is not None:
        parent = call.world.review_comments.get(int(reply_to))
        if parent is None or parent.repo_id != call.repository.id:
            raise unprocessable("Validation Failed: in_reply_to does not exist")
        comment = actions.reply(call.platform, call.repository, issue, pull, call.actor, parent, body)
    else:
        remark = remark_of(call.payload)
        if actions.diff_hunk(call.repository, pull, remark.path) is None:
            raise unprocessable("Validation Failed: path could not be resolved")
        review = actions.submit_review(
            call.platform, call.repository, issue, pull, call.actor, "COMMENTED", "", [remark]
        )
        comment = next(found for found in pull.comments if found.review_id == review.id)
    shape = review_comment_json(call.world, comment)
    return created(shape, shape["url"])


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/comments/{comment_id:int}/replies", WRITE)
def create_reply(call: Call) -> Json:
    """A reply to the first comment of a thread."""
    issue, pull = call.pull()
    parent = comment_of(call)
    body = call.required("body")
    check_body(body)
    comment = actions.reply(call.platform, call.repository, issue, pull, call.actor, parent, body)
    shape = review_comment_json(call.world, comment)
    return created(shape, shape["url"])


@route("GET", "/repos/{owner}/{repo}/pulls/comments/{comment_id:int}", READ)
def get_comment(call: Call) -> Json:
    """One line comment."""
    return review_comment_json(call.world, comment_of(call))


@route("PATCH", "/repos/{owner}/{repo}/pulls/comments/{comment_id:int}", WRITE)
def update_comment(call: Call) -> Json:
    """Changes its text."""
    comment = comment_of(call)
    body = call.required("body")
    check_body(body)
    actions.edit_review_comment(call.platform, comment, call.actor, body)
    return review_comment_json(call.world, comment)


@route("DELETE", "/repos/{owner}/{repo}/pulls/comments/{comment_id:int}", WRITE)
def delete_comment(call: Call) -> Reply:
    """Removes it."""
    actions.delete_review_comment(call.platform, comment_of(call), call.actor)
    return no_content()
