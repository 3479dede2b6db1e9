"""Labels of repositories and of issues."""

import re

from simulators.github.actions import issues as actions
from simulators.github.errors import ApiError, not_found, validation
from simulators.github.model import Issue, Label
from simulators.github.rest.issues import READ, WRITE, label_names, need_for, replace_labels
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.repositories import label_json, labels_json


def label_of(call: Call) -> Label:
    """Label ``{name}`` of the repository, or 404."""
    label = actions.find_label(call.repository, call.params["name"])
    if label is None:
        raise not_found()
    return label


@route("GET", "/repos/{owner}/{repo}/labels", *READ)
def list_labels(call: Call) -> Json:
    """All labels of a repository, by name."""
    found = sorted(call.repository.labels.values(), key=lambda label: label.name.lower())
    return [label_json(call.world, call.repository, label) for label in call.page(found)]


@route("POST", "/repos/{owner}/{repo}/labels", *WRITE)
def create_label(call: Call) -> Json:
    """A new label; 422 ``already_exists`` whatever the case of its letters."""
    name, color = call.required("name"), call.text("color", "ededed") or "ededed"
    description = call.text("description")
    if not name.strip() or len(name) > 50:
        raise validation("Label", "name", "custom", "name is too long (maximum is 50 characters)")
    if not re.fullmatch(r"[0-9a-fA-F]{6}", color):
        raise validation("Label", "color", "invalid")
    if description is not None and len(description) > 100:
        raise validation(
            "Label", "description", "custom", "description is too long (maximum is 100 characters)"
        )
    if actions.find_label(call.repository, name):
        raise validation("Label", "name", "already_exists")
    label = actions.create_label(call.platform, call.repository, call.actor, name, color.lower(), description)
    shape = label_json(call.world, call.repository, label)
    return created(shape, shape["url"])


@route("GET", "/repos/{owner}/{repo}/labels/{name}", *READ)
def get_label(call: Call) -> Json:
    """One label."""
    return label_json(call.world, call.repository, label_of(call))


@route("PATCH", "/repos/{owner}/{repo}/labels/{name}", *WRITE)
def update_label(call: Call) -> Json:
    """Renames, recolours or describes a label."""
    label = label_of(call)
    name = call.text("new_name", label.name) or label.name
    clash = actions.find_label(call.repository, name)
    if clash is not None and clash is not label:
        raise validation("Label", "name", "already_exists")
    label.description = call.text("description", label.description)
    actions.edit_label(call.platform, call.repository, call.actor, label, name, call.text("color"))
    return label_json(call.world, call.repository, label)


@route("DELETE", "/repos/{owner}/{repo}/labels/{name}", *WRITE)
def delete_label(call: Call) -> Reply:
    """Removes a label everywhere."""
    actions.delete_label(call.platform, call.repository, call.actor, label_of(call))
    return no_content()


def shown(call: Call, issue: Issue) -> Json:
    """The labels of an issue, as these routes answer."""
    return labels_json(call.world, call.repository, issue.label_ids)


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/labels", *READ)
def list_issue_labels(call: Call) -> Json:
    """Labels of an issue."""
    issue = call.issue()
    return call.page(shown(call, issue))


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/labels", *WRITE)
def add_issue_labels(call: Call) -> Json:
    """Adds labels; missing ones are made. More than 100 is 422."""
    issue = call.issue()
    need_for(call, issue, "write")
    names = label_names(call.payload)
    if len(issue.label_ids) + len(names) > actions.MAX_LABELS:
        raise validation("Issue", "labels", "custom", f"labels can't be more than {actions.MAX_LABELS}")
    actions.add_labels(call.platform, call.repository, issue, call.actor, names)
    return shown(call, issue)


@route("PUT", "/repos/{owner}/{repo}/issues/{number:int}/labels", *WRITE)
def set_issue_labels(call: Call) -> Json:
    """Replaces all labels."""
    issue = call.issue()
    need_for(call, issue, "write")
    replace_labels(call, issue, label_names(call.payload))
    return shown(call, issue)


@route("DELETE", "/repos/{owner}/{repo}/issues/{number:int}/labels/{name}", *WRITE)
def remove_issue_label(call: Call) -> Json:
    """Takes one label off; 404 ``Label does not exist`` when it is not on."""
    issue = call.issue()
    need_for(call, issue, "write")
    if not actions.remove_label(call.platform, call.repository, issue, call.actor, call.params["name"]):
        raise ApiError(404, "Label does not exist")
    return shown(call, issue)
