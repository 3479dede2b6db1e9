"""What reviewers do."""

from typing import Any

from simulators.github.actions import reviews as actions
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.shapes.pulls import review_comment_json, review_json


def remark(given: dict[str, Any]) -> actions.Remark:
    """A line comment out of its arguments (path, body, line, side, start_line, outdated)."""
    return actions.Remark(**given)


@control("reviews/submit")
def submit(
    sim: Simulation,
    repo: str,
    number: int,
    by: str,
    event: str = "COMMENT",
    body: str = "",
    comments: list[dict[str, Any]] | None = None,
) -> Json:
    """A review (APPROVE, REQUEST_CHANGES, COMMENT) with its line comments."""
    remarks = [remark(one) for one in comments or []]
    repository, issue, pull = sim.pull(repo, number)
    made = actions.submit_review(
        sim.platform, repository, issue, pull, sim.actor(by), actions.STATES[event], body, remarks
    )
    mine = [review_comment_json(sim.world, one) for one in pull.comments if one.review_id == made.id]
    return {**review_json(sim.world, made), "comments": mine}


@control("reviews/comment")
def comment(
    sim: Simulation,
    repo: str,
    number: int,
    by: str,
    path: str,
    body: str,
    line: int = 1,
    outdated: bool = False,
) -> Json:
    """A single line comment."""
    given = [{"path": path, "body": body, "line": line, "outdated": outdated}]
    shape: Json = submit(sim, repo, number, by, "COMMENT", "", given)["comments"][0]
    return shape


@control("reviews/reply")
def reply(sim: Simulation, comment_id: int, by: str, body: str) -> Json:
    """An answer in a thread."""
    to = sim.world.review_comments[comment_id]
    repository = sim.world.repositories[to.repo_id]
    issue, pull = sim.world.pull(repository, to.number)
    made = actions.reply(sim.platform, repository, issue, pull, sim.actor(by), to, body)
    return review_comment_json(sim.world, made)


@control("reviews/edit_comment")
def edit_comment(sim: Simulation, comment_id: int, by: str, body: str) -> Json:
    """Edits a line comment."""
    found = sim.world.review_comments[comment_id]
    actions.edit_review_comment(sim.platform, found, sim.actor(by), body)
    return review_comment_json(sim.world, found)


@control("reviews/edit")
def edit(sim: Simulation, review_id: int, by: str, body: str) -> Json:
    """Edits a review's own text."""
    found = sim.world.reviews[review_id]
    actions.edit_review(sim.platform, found, sim.actor(by), body)
    return review_json(sim.world, found)


@control("reviews/delete_comment")
def delete_comment(sim: Simulation, comment_id: int, by: str) -> Json:
    """Deletes a line comment."""
    actions.delete_review_comment(sim.platform, sim.world.review_comments[comment_id], sim.actor(by))
    return {"deleted": comment_id}


@control("reviews/resolve")
def resolve(sim: Simulation, comment_id: int, by: str, resolved: bool = True) -> Json:
    """Resolves or reopens the thread a line comment belongs to."""
    thread = sim.world.threads[sim.world.review_comments[comment_id].thread_id]
    actions.set_resolved(sim.platform, thread, sim.actor(by), resolved)
    return {"thread_id": thread.id, "resolved": resolved}


@control("reviews/dismiss")
def dismiss(sim: Simulation, review_id: int, by: str) -> Json:
    """Dismisses a review."""
    found = sim.world.reviews[review_id]
    actions.dismiss_review(sim.platform, found, sim.actor(by))
    return review_json(sim.world, found)
