"""Reviews of pull requests."""

from typing import Any

from simulators.github.actions import reviews as actions
from simulators.github.errors import not_found, unprocessable
from simulators.github.model import Review
from simulators.github.rest.issues import check_body
from simulators.github.rest.pulls import READ, WRITE
from simulators.github.rest.routing import Call, Json, route
from simulators.github.shapes.pulls import review_comment_json, review_json


def review_of(call: Call) -> Review:
    """Review ``{review_id}`` of the pull request, or 404."""
    _, pull = call.pull()
    for review in pull.reviews:
        if review.id == call.number("review_id"):
            return review
    raise not_found()


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews", READ)
def list_reviews(call: Call) -> Json:
    """Reviews, oldest first."""
    _, pull = call.pull()
    return [review_json(call.world, review) for review in call.page(pull.reviews)]


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review_id:int}", READ)
def get_review(call: Call) -> Json:
    """One review."""
    return review_json(call.world, review_of(call))


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review_id:int}/comments", READ)
def list_comments_of_review(call: Call) -> Json:
    """Line comments that came with a review."""
    review = review_of(call)
    _, pull = call.pull()
    found = [comment for comment in pull.comments if comment.review_id == review.id]
    return [review_comment_json(call.world, comment) for comment in call.page(found)]


def remarks_of(call: Call) -> list[actions.Remark]:
    """``comments`` of the body; 422 for a path outside the diff."""
    _, pull = call.pull()
    given = call.payload.get("comments") or []
    found = [remark_of(entry) for entry in given]
    for remark in found:
        if actions.diff_hunk(call.repository, pull, remark.path) is None:
            raise unprocessable("Unprocessable Entity: Path could not be resolved")
        check_body(remark.body)
    return found


def remark_of(entry: dict[str, Any]) -> actions.Remark:
    """One line comment out of JSON."""
    path, body = entry.get("path"), entry.get("body")
    if not isinstance(path, str) or not isinstance(body, str):
        raise unprocessable('Invalid request.\n\nNo subschema in "oneOf" matched.')
    line = entry.get("line") or entry.get("position") or 1
    return actions.Remark(path, body, int(line), entry.get("side") or "RIGHT", entry.get("start_line"))


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/reviews", WRITE)
def create_review(call: Call) -> Json:
    """A review by the App; without ``event`` it stays pending. Nobody approves their own pull request."""
    issue, pull = call.pull()
    event, body = call.text("event"), call.text("body") or ""
    check_body(body)
    if event is not None and event not in actions.STATES:
        raise unprocessable("Invalid request.\n\nFor 'properties/event', it is not a possible value.")
    if issue.user_id == call.actor.id and event in ("APPROVE", "REQUEST_CHANGES"):
        word = "approve" if event == "APPROVE" else "request changes on"
        raise unprocessable(f"Can not {word} your own pull request")
    remarks = remarks_of(call)
    if event in ("COMMENT", "REQUEST_CHANGES") and not body and not remarks:
        raise unprocessable("Unprocessable Entity: body can't be blank")
    state = actions.STATES.get(event or "", "PENDING")
    review = actions.submit_review(
        call.platform, call.repository, issue, pull, call.actor, state, body, remarks
    )
    return review_json(call.world, review)


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/reviews/{review_id:int}/dismissals", WRITE)
def dismiss_review(call: Call) -> Json:
    """Dismisses an approval or a request for changes."""
    review = review_of(call)
    call.required("message")
    if review.state not in ("APPROVED", "CHANGES_REQUESTED"):
        raise unprocessable(f"Can not dismiss a {review.state.lower()} pull request review")
    actions.dismiss_review(call.platform, review, call.actor)
    return review_json(call.world, review)
