"""What people do to issues. Nobody's permission is checked: a test may let anybody do anything."""

from simulators.github.actions import issues as actions
from simulators.github.control_api.registry import Json, Simulation, control
from simulators.github.model import Comment, ReviewComment
from simulators.github.shapes.issues import comment_json, issue_json, reaction_json
from simulators.github.shapes.pulls import review_comment_json
from simulators.github.shapes.repositories import label_json


def shown(sim: Simulation, repo: str, number: int) -> Json:
    """The issue after the change."""
    return issue_json(sim.world, *sim.issue(repo, number))


@control("issues/open")
def open_issue(
    sim: Simulation, repo: str, by: str, title: str, body: str | None = None, labels: list[str] | None = None
) -> Json:
    """Opens an issue, with labels at once when given."""
    repository = sim.world.repository(repo)
    issue = actions.open_issue(sim.platform, repository, sim.actor(by), title, body, labels or [])
    return issue_json(sim.world, repository, issue)


@control("issues/edit")
def edit_issue(
    sim: Simulation, repo: str, number: int, by: str, title: str | None = None, body: str | None = None
) -> Json:
    """Edits title or body (of a pull request too)."""
    actions.edit_issue(sim.platform, *sim.issue(repo, number), sim.actor(by), title, body)
    return shown(sim, repo, number)


@control("issues/state")
def set_state(
    sim: Simulation, repo: str, number: int, by: str, state: str, reason: str | None = None
) -> Json:
    """Closes (``closed``) or reopens (``open``) an issue."""
    actions.set_issue_state(sim.platform, *sim.issue(repo, number), sim.actor(by), state, reason)
    return shown(sim, repo, number)


@control("issues/lock")
def set_lock(
    sim: Simulation, repo: str, number: int, by: str, locked: bool = True, reason: str | None = None
) -> Json:
    """Locks or unlocks."""
    actions.set_lock(sim.platform, *sim.issue(repo, number), sim.actor(by), locked, reason)
    return shown(sim, repo, number)


@control("issues/delete")
def delete_issue(sim: Simulation, repo: str, number: int, by: str) -> Json:
    """Deletes."""
    actions.delete_issue(sim.platform, *sim.issue(repo, number), sim.actor(by))
    return {"deleted": number}


@control("issues/transfer")
def transfer_issue(sim: Simulation, repo: str, number: int, by: str, target: str) -> Json:
    """Moves to another repository; the answer is the new issue."""
    goal = sim.world.repository(target)
    moved = actions.transfer_issue(sim.platform, *sim.issue(repo, number), goal, sim.actor(by))
    return issue_json(sim.world, goal, moved)


@control("issues/assign")
def assign(sim: Simulation, repo: str, number: int, by: str, login: str) -> Json:
    """Assigns somebody."""
    repository, issue = sim.issue(repo, number)
    assignee = sim.world.user(login)
    if assignee.id not in issue.assignee_ids:
        issue.assignee_ids.append(assignee.id)
        extra = {"assignee": issue_json(sim.world, repository, issue)["assignees"][-1]}
        actions.emit_issue(sim.platform, repository, issue, sim.actor(by), "assigned", extra)
    return shown(sim, repo, number)


@control("labels/add")
def add_labels(sim: Simulation, repo: str, number: int, by: str, labels: list[str]) -> Json:
    """Labels an issue or pull request."""
    actions.add_labels(sim.platform, *sim.issue(repo, number), sim.actor(by), labels)
    return shown(sim, repo, number)


@control("labels/remove")
def remove_label(sim: Simulation, repo: str, number: int, by: str, label: str) -> Json:
    """Takes a label off."""
    actions.remove_label(sim.platform, *sim.issue(repo, number), sim.actor(by), label)
    return shown(sim, repo, number)


@control("labels/create")
def create_label(
    sim: Simulation, repo: str, by: str, name: str, color: str = "ededed", description: str | None = None
) -> Json:
    """A label of the repository."""
    repository = sim.world.repository(repo)
    label = actions.create_label(sim.platform, repository, sim.actor(by), name, color, description)
    return label_json(sim.world, repository, label)


@control("labels/edit")
def edit_label(sim: Simulation, repo: str, by: str, name: str, new_name: str) -> Json:
    """Renames a label; its id stays."""
    repository = sim.world.repository(repo)
    label = actions.find_label(repository, name)
    if label is None:
        raise LookupError(f"no label {name}")
    actions.edit_label(sim.platform, repository, sim.actor(by), label, new_name)
    return label_json(sim.world, repository, label)


@control("labels/delete")
def delete_label(sim: Simulation, repo: str, by: str, name: str) -> Json:
    """Deletes a label everywhere."""
    repository = sim.world.repository(repo)
    label = actions.find_label(repository, name)
    if label is None:
        raise LookupError(f"no label {name}")
    actions.delete_label(sim.platform, repository, sim.actor(by), label)
    return {"deleted": name}


@control("comments/create")
def create_comment(sim: Simulation, repo: str, number: int, by: str, body: str) -> Json:
    """A comment in the conversation."""
    comment = actions.add_comment(sim.platform, *sim.issue(repo, number), sim.actor(by), body)
    return comment_json(sim.world, comment)


@control("comments/edit")
def edit_comment(sim: Simulation, comment_id: int, by: str, body: str) -> Json:
    """Edits anybody's comment."""
    comment = sim.world.comments[comment_id]
    actions.edit_comment(sim.platform, comment, sim.actor(by), body)
    return comment_json(sim.world, comment)


@control("comments/delete")
def delete_comment(sim: Simulation, comment_id: int, by: str) -> Json:
    """Deletes anybody's comment."""
    actions.delete_comment(sim.platform, sim.world.comments[comment_id], sim.actor(by))
    return {"deleted": comment_id}


@control("comments/bulk")
def bulk_comments(sim: Simulation, repo: str, number: int, by: str, count: int, body: str = "Filler") -> Json:
    """Many comments at once without events, to test paging."""
    repository, issue = sim.issue(repo, number)
    now, author = sim.world.now(), sim.actor(by)
    for at in range(count):
        comment = Comment(sim.world.new_id(), repository.id, number, author.id, f"{body} {at}", now, now)
        issue.comments.append(comment)
        sim.world.comments[comment.id] = comment
    return {"comments": len(issue.comments)}


@control("reactions/create")
def react(
    sim: Simulation,
    by: str,
    content: str,
    repo: str | None = None,
    number: int | None = None,
    comment_id: int | None = None,
) -> Json:
    """Reacts to a comment (of either kind) or to an issue."""
    target: Comment | ReviewComment | None = None
    if comment_id is not None:
        target = sim.world.comments.get(comment_id) or sim.world.review_comments[comment_id]
    thing = target if target is not None else sim.issue(repo or "", number or 0)[1]
    reaction, _ = actions.react(sim.platform, thing, sim.actor(by), content)
    return reaction_json(sim.world, reaction)


@control("comments/get")
def get_comment(sim: Simulation, comment_id: int) -> Json:
    """A comment of either kind, with its reactions."""
    conversation = sim.world.comments.get(comment_id)
    if conversation is not None:
        shape, found = comment_json(sim.world, conversation), conversation.reactions
    else:
        line = sim.world.review_comments[comment_id]
        shape, found = review_comment_json(sim.world, line), line.reactions
    return {**shape, "reaction_list": [reaction_json(sim.world, one) for one in found]}
