"""Issues."""

from typing import Any

from simulators.github.actions import issues as actions
from simulators.github.clock import iso
from simulators.github.errors import ApiError, forbidden, validation
from simulators.github.model import Issue
from simulators.github.nodes import node_id
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.accounts import user_json
from simulators.github.shapes.issues import issue_json
from simulators.github.shapes.repositories import api_url

READ = ("issues:read", "pull_requests:read")
WRITE = ("issues:write", "pull_requests:write")


def need_for(call: Call, issue: Issue, level: str) -> None:
    """Issue routes serve pull requests too, with the permission of either; a plain issue needs ``issues``."""
    if issue.pull is None and call.principal is not None and not call.principal.can(f"issues:{level}"):
        error = forbidden()
        error.headers["X-Accepted-GitHub-Permissions"] = f"issues={level}; pull_requests={level}"
        raise error


def check_body(body: str | None) -> None:
    """422 for a text over 65,536 characters."""
    if body is not None and len(body) > actions.MAX_BODY:
        message = f"body is too long (maximum is {actions.MAX_BODY} characters)"
        error = validation("Issue", "body", "custom", message)
        error.message = f"Body is too long (maximum is {actions.MAX_BODY} characters)"
        raise error


def check_title(title: str | None) -> None:
    """422 for a title that is empty or over 256 characters."""
    if title is None:
        return
    if not title.strip():
        raise validation("Issue", "title", "missing_field")
    if len(title) > actions.MAX_TITLE:
        raise validation(
            "Issue", "title", "custom", f"title is too long (maximum is {actions.MAX_TITLE} characters)"
        )


def label_names(value: Any) -> list[str]:
    """Names out of the forms a label list may have; 422 for something else or more than 100."""
    given = value.get("labels", []) if isinstance(value, dict) else value
    entries = [entry.get("name") if isinstance(entry, dict) else entry for entry in given or []]
    names = [entry for entry in entries if isinstance(entry, str) and entry]
    if len(names) < len(entries):
        raise validation("Label", "name", "invalid")
    if len(names) > actions.MAX_LABELS:
        raise validation("Issue", "labels", "custom", f"labels can't be more than {actions.MAX_LABELS}")
    if any(len(name) > 50 for name in names):
        raise validation("Label", "name", "custom", "name is too long (maximum is 50 characters)")
    return names


@route("GET", "/repos/{owner}/{repo}/issues", *READ)
def list_issues(call: Call) -> Json:
    """Issues and pull requests, newest first; ``state``, ``labels``, ``creator``, ``sort``, ``direction``."""
    if not call.repository.has_issues:
        raise ApiError(410, "Issues has been disabled in this repository.")
    state = call.query.get("state", "open")
    wanted = {name.lower() for name in call.query.get("labels", "").split(",") if name}
    found = []
    for issue in call.repository.issues.values():
        names = {
            call.repository.labels[key].name.lower()
            for key in issue.label_ids
            if key in call.repository.labels
        }
        live = not issue.deleted and issue.moved_to is None
        author = call.world.users.get(issue.user_id) if issue.user_id is not None else None
        by = call.query.get("creator", "")
        mine = not by or (author is not None and author.login.lower() == by.lower())
        if live and mine and state in ("all", issue.state) and wanted <= names:
            found.append(issue)
    key = call.query.get("sort", "created")
    found.sort(key=lambda issue: (issue.updated_at if key == "updated" else issue.created_at, issue.number))
    if call.query.get("direction", "desc") == "desc":
        found.reverse()
    return [issue_json(call.world, call.repository, issue) for issue in call.page(found)]


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}", *READ)
def get_issue(call: Call) -> Json:
    """One issue."""
    issue = call.issue()
    need_for(call, issue, "read")
    return issue_json(call.world, call.repository, issue)


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/events", *READ)
def list_events(call: Call) -> Json:
    """Labels set and taken off, oldest first. GitHub's list has more kinds; a label comes without its id there too."""
    issue = call.issue()
    need_for(call, issue, "read")
    entries = call.page([one for one in issue.timeline if one.event])
    url = f"{api_url(call.world, call.repository)}/issues/events"
    return [
        {
            "id": one.id,
            "node_id": node_id("LabeledEvent", one.id),
            "url": f"{url}/{one.id}",
            "actor": user_json(call.world, one.user_id),
            "event": one.event,
            "commit_id": None,
            "commit_url": None,
            "created_at": iso(one.at),
            "label": {"name": one.label[0], "color": one.label[1]},
            "performed_via_github_app": None,
        }
        for one in entries
    ]


@route("POST", "/repos/{owner}/{repo}/issues", "issues:write")
def create_issue(call: Call) -> Json:
    """Opens an issue as the App."""
    if not call.repository.has_issues:
        raise ApiError(410, "Issues has been disabled in this repository.")
    title, body = call.required("title"), call.text("body")
    check_title(title)
    check_body(body)
    names = label_names(call.payload.get("labels"))
    issue = actions.open_issue(
        call.platform, call.repository, call.actor, title, body, names, call.caller.app
    )
    shape = issue_json(call.world, call.repository, issue)
    return created(shape, shape["url"])


@route("PATCH", "/repos/{owner}/{repo}/issues/{number:int}", *WRITE)
def update_issue(call: Call) -> Json:
    """Changes title, body, state or the whole set of labels."""
    issue = call.issue()
    need_for(call, issue, "write")
    title, body = call.text("title"), call.text("body")
    check_title(title)
    check_body(body)
    state = call.text("state")
    if state not in (None, "open", "closed"):
        raise validation("Issue", "state", "invalid")
    actions.edit_issue(call.platform, call.repository, issue, call.actor, title, body)
    if "labels" in call.payload:
        replace_labels(call, issue, label_names(call.payload["labels"]))
    if state is not None:
        reason = call.text("state_reason")
        actions.set_issue_state(call.platform, call.repository, issue, call.actor, state, reason)
    return issue_json(call.world, call.repository, issue)


def replace_labels(call: Call, issue: Issue, names: list[str]) -> None:
    """Makes the issue's labels exactly these."""
    wanted = {name.lower() for name in names}
    for label_id in list(issue.label_ids):
        label = call.repository.labels[label_id]
        if label.name.lower() not in wanted:
            actions.remove_label(call.platform, call.repository, issue, call.actor, label.name)
    actions.add_labels(call.platform, call.repository, issue, call.actor, names)
