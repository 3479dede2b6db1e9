"""Issues, their comments, labels and reactions."""

from collections.abc import Sequence
from typing import Any

from simulators.github.model import (
    App,
    Comment,
    Issue,
    Label,
    Reaction,
    Repository,
    Review,
    ReviewComment,
    User,
)
from simulators.github.platform import Platform
from simulators.github.shapes.issues import comment_json, issue_json
from simulators.github.shapes.pulls import pull_json
from simulators.github.shapes.repositories import label_json, repository_json

Json = dict[str, Any]
MAX_BODY = 65_536
MAX_TITLE = 256
MAX_LABELS = 100


def emit_issue(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    actor: User,
    action: str,
    extra: Json | None = None,
) -> None:
    """The ``issues`` or ``pull_request`` event of something that happened to an issue."""
    world = platform.world
    body: Json
    if issue.pull:
        shape = pull_json(world, repository, issue, issue.pull)
        body = {"action": action, "number": issue.number, "pull_request": shape, **(extra or {})}
        platform.emit("pull_request", repository, actor, body)
    else:
        body = {"action": action, "issue": issue_json(world, repository, issue), **(extra or {})}
        platform.emit("issues", repository, actor, body)


def new_issue(
    platform: Platform, repository: Repository, author: User, title: str, body: str | None, app: App | None
) -> Issue:
    """An issue with the next number, without any event yet."""
    now = platform.world.now()
    number = repository.next_number
    repository.next_number += 1
    issue = Issue(platform.world.new_id(), repository.id, number, title, body, author.id, now, now)
    issue.app_id = app.id if app else None
    repository.issues[number] = issue
    return issue


def open_issue(
    platform: Platform,
    repository: Repository,
    author: User,
    title: str,
    body: str | None = None,
    labels: Sequence[str] = (),
    app: App | None = None,
) -> Issue:
    """Opens an issue; labels given at once lead to ``opened`` and one ``labeled`` each."""
    issue = new_issue(platform, repository, author, title, body, app)
    found = [ensure_label(platform, repository, author, name) for name in dict.fromkeys(labels)]
    issue.label_ids = [label.id for label in found]
    emit_issue(platform, repository, issue, author, "opened")
    for label in found:
        emit_labeled(platform, repository, issue, author, "labeled", label)
    return issue


def edit_issue(
    platform: Platform, repository: Repository, issue: Issue, actor: User, title: str | None, body: str | None
) -> None:
    """Changes title or body; ``changes`` carries what was there before. No change, no event."""
    changes: Json = {}
    if title is not None and title != issue.title:
        changes["title"] = {"from": issue.title}
        issue.title = title
    if body is not None and body != issue.body:
        changes["body"] = {"from": issue.body or ""}
        issue.body = body
    if changes:
        issue.updated_at = platform.world.now()
        emit_issue(platform, repository, issue, actor, "edited", {"changes": changes})


def set_issue_state(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    actor: User,
    state: str,
    reason: str | None = None,
) -> None:
    """Closes or reopens; no event when it is so already."""
    if issue.state == state:
        return
    closed = state == "closed"
    issue.state = state
    issue.state_reason = (reason or "completed") if closed else "reopened"
    issue.closed_at = platform.world.now() if closed else None
    issue.closed_by = actor.id if closed else None
    platform.note(issue, actor, "closed this" if closed else "reopened this")
    emit_issue(platform, repository, issue, actor, "closed" if closed else "reopened")


def set_lock(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    actor: User,
    locked: bool,
    reason: str | None = None,
) -> None:
    """Locks or unlocks a conversation."""
    issue.locked, issue.lock_reason = locked, reason if locked else None
    platform.note(issue, actor, "locked this" if locked else "unlocked this")
    emit_issue(platform, repository, issue, actor, "locked" if locked else "unlocked")


def delete_issue(platform: Platform, repository: Repository, issue: Issue, actor: User) -> None:
    """Deletes an issue: its routes answer 410 from now on."""
    emit_issue(platform, repository, issue, actor, "deleted")
    issue.deleted = True


def transfer_issue(
    platform: Platform, repository: Repository, issue: Issue, target: Repository, actor: User
) -> Issue:
    """Moves an issue: ``transferred`` here, ``opened`` there, 301 from here on."""
    world = platform.world
    moved = new_issue(platform, target, actor, issue.title, issue.body, None)
    moved.user_id, moved.comments = issue.user_id, []
    for comment in issue.comments:
        comment.repo_id, comment.number = target.id, moved.number
        moved.comments.append(comment)
    old = issue_json(world, repository, issue)
    new = {
        "new_issue": issue_json(world, target, moved),
        "new_repository": repository_json(world, target),
    }
    emit_issue(platform, repository, issue, actor, "transferred", {"changes": new})
    issue.moved_to, issue.comments = (target.id, moved.number), []
    origin = {"old_issue": old, "old_repository": repository_json(world, repository)}
    emit_issue(platform, target, moved, actor, "opened", {"changes": origin})
    return moved


# labels


def find_label(repository: Repository, name: str) -> Label | None:
    """A label by its name in any case."""
    return next((label for label in repository.labels.values() if label.name.lower() == name.lower()), None)


def create_label(
    platform: Platform, repository: Repository, actor: User, name: str, color: str, description: str | None
) -> Label:
    """A new label of the repository."""
    label = Label(platform.world.new_id(), name, color, description)
    repository.labels[label.id] = label
    shape = label_json(platform.world, repository, label)
    platform.emit("label", repository, actor, {"action": "created", "label": shape})
    return label


def ensure_label(platform: Platform, repository: Repository, actor: User, name: str) -> Label:
    """The label of this name, made (grey) when missing, as GitHub does when an issue names it."""
    return find_label(repository, name) or create_label(platform, repository, actor, name, "ededed", None)


def delete_label(platform: Platform, repository: Repository, actor: User, label: Label) -> None:
    """Removes a label from the repository and from every issue."""
    shape = label_json(platform.world, repository, label)
    del repository.labels[label.id]
    for issue in repository.issues.values():
        if label.id in issue.label_ids:
            issue.label_ids.remove(label.id)
    platform.emit("label", repository, actor, {"action": "deleted", "label": shape})


def edit_label(
    platform: Platform, repository: Repository, actor: User, label: Label, name: str, color: str | None = None
) -> None:
    """Renames or recolours a label; its id stays."""
    changes: Json = {}
    if name != label.name:
        changes["name"] = {"from": label.name}
    if color is not None and color != label.color:
        changes["color"] = {"from": label.color}
    label.name, label.color = name, color or label.color
    shape = label_json(platform.world, repository, label)
    platform.emit("label", repository, actor, {"action": "edited", "label": shape, "changes": changes})


def emit_labeled(
    platform: Platform, repository: Repository, issue: Issue, actor: User, action: str, label: Label
) -> None:
    """``labeled`` or ``unlabeled``."""
    text = f"{'added' if action == 'labeled' else 'removed'} the label {label.name}"
    platform.note(issue, actor, text, action, (label.name, label.color))
    extra = {"label": label_json(platform.world, repository, label)}
    emit_issue(platform, repository, issue, actor, action, extra)


def add_labels(
    platform: Platform, repository: Repository, issue: Issue, actor: User, names: Sequence[str]
) -> None:
    """Adds labels; those already there cause nothing."""
    for name in names:
        label = ensure_label(platform, repository, actor, name)
        if label.id not in issue.label_ids:
            issue.label_ids.append(label.id)
            emit_labeled(platform, repository, issue, actor, "labeled", label)


def remove_label(platform: Platform, repository: Repository, issue: Issue, actor: User, name: str) -> bool:
    """Takes a label off; False when it was not on."""
    label = find_label(repository, name)
    if label is None or label.id not in issue.label_ids:
        return False
    issue.label_ids.remove(label.id)
    emit_labeled(platform, repository, issue, actor, "unlabeled", label)
    return True


# comments


def emit_comment(
    platform: Platform,
    repository: Repository,
    comment: Comment,
    actor: User,
    action: str,
    extra: Json | None = None,
) -> None:
    """An ``issue_comment`` event."""
    issue = repository.issues[comment.number]
    body = {
        "action": action,
        "issue": issue_json(platform.world, repository, issue),
        "comment": comment_json(platform.world, comment),
        **(extra or {}),
    }
    platform.emit("issue_comment", repository, actor, body)


def add_comment(
    platform: Platform, repository: Repository, issue: Issue, author: User, body: str, app: App | None = None
) -> Comment:
    """A new comment at the end of the conversation."""
    world = platform.world
    now = world.now()
    comment = Comment(world.new_id(), repository.id, issue.number, author.id, body, now, now)
    comment.app_id = app.id if app else None
    issue.comments.append(comment)
    issue.updated_at = now
    world.comments[comment.id] = comment
    emit_comment(platform, repository, comment, author, "created")
    return comment


def edit_comment(platform: Platform, comment: Comment, actor: User, body: str) -> None:
    """Changes a comment's text; the event carries the old one."""
    repository = platform.world.repositories[comment.repo_id]
    before, comment.body = comment.body, body
    comment.updated_at = comment.edited_at = platform.world.now()
    comment.editor_id = actor.id
    changes = {"changes": {"body": {"from": before}}}
    emit_comment(platform, repository, comment, actor, "edited", changes)


def delete_comment(platform: Platform, comment: Comment, actor: User) -> None:
    """Removes a comment."""
    repository = platform.world.repositories[comment.repo_id]
    emit_comment(platform, repository, comment, actor, "deleted")
    repository.issues[comment.number].comments.remove(comment)
    del platform.world.comments[comment.id]


def react(
    platform: Platform, target: Issue | Comment | ReviewComment | Review, actor: User, content: str
) -> tuple[Reaction, bool]:
    """The actor's reaction of this kind, and whether it is new. GitHub sends no event for it."""
    for reaction in target.reactions:
        if reaction.user_id == actor.id and reaction.content == content:
            return reaction, False
    reaction = Reaction(platform.world.new_id(), actor.id, content, platform.world.now())
    target.reactions.append(reaction)
    return reaction, True
