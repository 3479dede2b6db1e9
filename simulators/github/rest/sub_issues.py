"""Sub-issues: https://docs.github.com/rest/issues/sub-issues"""

from simulators.github.errors import ApiError, validation
from simulators.github.rest.issues import READ, need_for
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.issues import issue_json

MAX_SUB_ISSUES = 100


@route("GET", "/repos/{owner}/{repo}/issues/{number:int}/sub_issues", *READ)
def list_sub_issues(call: Call) -> Json:
    """In the order they were put there."""
    issue = call.issue()
    need_for(call, issue, "read")
    below = [one for one in call.repository.issues.values() if one.parent_number == issue.number]
    live = [one for one in below if not one.deleted and one.moved_to is None]
    return [issue_json(call.world, call.repository, one) for one in call.page(live)]


@route("POST", "/repos/{owner}/{repo}/issues/{number:int}/sub_issues", "issues:write")
def add_sub_issue(call: Call) -> Json:
    """Puts an issue below another; it may have one parent."""
    issue = call.issue()
    wanted = call.payload.get("sub_issue_id")
    found = next((one for one in call.repository.issues.values() if one.id == wanted and not one.pull), None)
    if found is None or found.deleted:
        raise ApiError(404, "The provided sub-issue does not exist")
    if found.parent_number is not None and not call.payload.get("replace_parent"):
        raise validation("Issue", "sub_issue_id", "custom", "Issue may not contain duplicate sub-issues")
    if sum(one.parent_number == issue.number for one in call.repository.issues.values()) >= MAX_SUB_ISSUES:
        raise validation("Issue", "sub_issue_id", "custom", "Parent cannot have more than 100 sub-issues")
    found.parent_number = issue.number
    shape = issue_json(call.world, call.repository, issue)
    return created(shape, shape["url"])
