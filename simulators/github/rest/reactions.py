"""Reactions on issues, comments and review comments."""

from collections.abc import Callable

from simulators.github.actions import issues as actions
from simulators.github.errors import not_found, validation
from simulators.github.model import REACTIONS, Comment, Issue, ReviewComment
from simulators.github.rest.comments import comment_of
from simulators.github.rest.issues import READ, WRITE, need_for
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.issues import reaction_json

Target = Issue | Comment | ReviewComment


def issue_target(call: Call) -> Target:
    """The issue in the path."""
    issue = call.issue()
    need_for(call, issue, "read")
    return issue


def comment_target(call: Call) -> Target:
    """The conversation comment in the path."""
    return comment_of(call, "read")


def review_comment_target(call: Call) -> Target:
    """The review comment in the path."""
    comment = call.world.review_comments.get(call.number("comment_id"))
    if comment is None or comment.repo_id != call.repository.id:
        raise not_found()
    return comment


def register(
    path: str, target: Callable[[Call], Target], read: tuple[str, ...], write: tuple[str, ...]
) -> None:
    """The three reaction routes of one kind of thing."""
    base = "/repos/{owner}/{repo}" + path + "/reactions"

    @route("GET", base, *read)
    def list_reactions(call: Call) -> Json:
        content = call.query.get("content")
        found = [reaction for reaction in target(call).reactions if content in (None, reaction.content)]
        return [reaction_json(call.world, reaction) for reaction in call.page(found)]

    @route("POST", base, *write)
    def create_reaction(call: Call) -> Json:
        content = call.required("content")
        if content not in REACTIONS:
            raise validation("Reaction", "content", "invalid")
        reaction, fresh = actions.react(call.platform, target(call), call.actor, content)
        shape = reaction_json(call.world, reaction)
        return created(shape) if fresh else shape

    @route("DELETE", base + "/{reaction_id:int}", *write)
    def delete_reaction(call: Call) -> Reply:
        thing = target(call)
        for reaction in thing.reactions:
            if reaction.id == call.number("reaction_id"):
                thing.reactions.remove(reaction)
                return no_content()
        raise not_found()


register("/issues/{number:int}", issue_target, READ, WRITE)
register("/issues/comments/{comment_id:int}", comment_target, READ, WRITE)
register(
    "/pulls/comments/{comment_id:int}",
    review_comment_target,
    ("pull_requests:read",),
    ("pull_requests:write",),
)
