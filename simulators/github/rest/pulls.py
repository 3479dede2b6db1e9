"""Pull requests."""

from simulators.github.actions import issues as issue_actions, merging, pulls as actions
from simulators.github.errors import ApiError, not_found, unprocessable, validation
from simulators.github.model import Issue, Pull, Repository
from simulators.github.rest.issues import check_body, check_title
from simulators.github.rest.routing import Call, Json, Reply, created, route
from simulators.github.shapes.accounts import user_json
from simulators.github.shapes.commits import change_json, commit_json
from simulators.github.shapes.pulls import pull_changes, pull_json, pull_simple_json

READ = "pull_requests:read"
WRITE = "pull_requests:write"
MAX_FILES = 3000


@route("GET", "/repos/{owner}/{repo}/pulls", READ)
def list_pulls(call: Call) -> Json:
    """Pull requests, newest first; ``state``, ``head`` (``owner:branch``), ``base``."""
    state, head, base = call.query.get("state", "open"), call.query.get("head"), call.query.get("base")
    found = []
    for issue, pull in call.world.pulls(call.repository):
        label = f"{call.world.users[pull.head_owner_id].login}:{pull.head_ref}"
        heads = head is None or ":" not in head or head.lower() == label.lower()
        if state in ("all", issue.state) and heads and base in (None, pull.base_ref):
            found.append((issue, pull))
    if call.query.get("direction", "desc") == "desc":
        found.reverse()
    return [pull_simple_json(call.world, call.repository, *pair) for pair in call.page(found)]


@route("GET", "/repos/{owner}/{repo}/commits/{sha}/pulls", READ)
def list_pulls_of_commit(call: Call) -> Json:
    """Pull requests whose head is this commit."""
    sha = call.repository.git.find_commit_sha(call.params["sha"])
    found = [pair for pair in call.world.pulls(call.repository) if pair[1].head_sha == sha]
    return [pull_simple_json(call.world, call.repository, *pair) for pair in call.page(found)]


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}", READ)
def get_pull(call: Call) -> Json:
    """One pull request."""
    issue, pull = call.pull()
    return pull_json(call.world, call.repository, issue, pull)


def head_of(call: Call, text: str) -> tuple[Repository, str]:
    """Repository and branch that ``head`` (``branch`` or ``owner:branch``) names; 422 when not there."""
    owner, colon, branch = text.rpartition(":")
    source: Repository | None = call.repository
    if colon and owner.lower() != call.world.users[call.repository.owner_id].login.lower():
        source = next(
            (
                fork
                for fork in call.world.repositories.values()
                if fork.parent_id == call.repository.id
                and call.world.users[fork.owner_id].login.lower() == owner.lower()
            ),
            None,
        )
    if source is None or source.git.find_ref(f"refs/heads/{branch}") is None:
        raise validation("PullRequest", "head", "invalid")
    return source, branch


@route("POST", "/repos/{owner}/{repo}/pulls", WRITE)
def create_pull(call: Call) -> Json:
    """Opens a pull request as the App; GitHub's 422s for duplicates, nothing to compare, no drafts."""
    title, base = call.required("title"), call.required("base")
    source, branch = head_of(call, call.required("head"))
    body = call.text("body")
    check_title(title)
    check_body(body)
    base_sha = call.repository.git.find_ref(f"refs/heads/{base}")
    if base_sha is None:
        raise validation("PullRequest", "base", "invalid")
    owner = call.world.users[source.owner_id].login
    for issue, pull in call.world.pulls(call.repository):
        same = pull.head_ref == branch and pull.head_repo_id == source.id and pull.base_ref == base
        if same and issue.state == "open":
            raise pull_problem(f"A pull request already exists for {owner}:{branch}.")
    head_sha = source.git.find_ref(f"refs/heads/{branch}") or ""
    call.repository.git.fetch_from(source.git, head_sha, "refs/pull-base/check")
    if call.repository.git.count(base_sha, head_sha) == 0:
        raise pull_problem(f"No commits between {base} and {branch}")
    draft = call.payload.get("draft") is True
    if draft and not call.repository.drafts_allowed:
        raise pull_problem("Draft pull requests are not supported in this repository.")
    issue = actions.open_pull(
        call.platform,
        call.repository,
        call.actor,
        title,
        body,
        (source, branch),
        base,
        draft=draft,
        app=call.caller.app,
    )
    shape = pull_json(call.world, call.repository, issue, require_pull(issue))
    return created(shape, shape["url"])


def pull_problem(message: str) -> ApiError:
    """422 of the form pulls have."""
    return ApiError(
        422, "Validation Failed", errors=[{"resource": "PullRequest", "code": "custom", "message": message}]
    )


def require_pull(issue: Issue) -> Pull:
    """The pull half of what was just made."""
    if issue.pull is None:
        raise not_found()
    return issue.pull


@route("PATCH", "/repos/{owner}/{repo}/pulls/{number:int}", WRITE)
def update_pull(call: Call) -> Json:
    """Changes title, body, base or state (draft only by GraphQL)."""
    issue, pull = call.pull()
    title, body, base, state = call.text("title"), call.text("body"), call.text("base"), call.text("state")
    check_title(title)
    check_body(body)
    if base is not None:
        try:
            actions.retarget(call.platform, call.repository, issue, call.actor, base)
        except LookupError:
            raise validation("PullRequest", "base", "invalid") from None
    issue_actions.edit_issue(call.platform, call.repository, issue, call.actor, title, body)
    if state == "closed" and issue.state == "open":
        actions.close_pull(call.platform, call.repository, issue, call.actor)
    elif state == "open" and issue.state == "closed":
        try:
            actions.reopen_pull(call.platform, call.repository, issue, call.actor)
        except ValueError as problem:
            raise pull_problem(str(problem)) from None
    return pull_json(call.world, call.repository, issue, pull)


@route("PUT", "/repos/{owner}/{repo}/pulls/{number:int}/merge", "contents:write")
def merge(call: Call) -> Json:
    """Merges; 405 draft, closed or in conflict, 409 when the head is another one."""
    issue, pull = call.pull()
    if call.text("sha") not in (None, pull.head_sha):
        raise ApiError(409, "Head branch was modified. Review and try the merge again.")
    if pull.draft:
        raise ApiError(405, "Pull Request is still a draft")
    try:
        sha = merging.merge_pull(
            call.platform,
            call.repository,
            issue,
            call.actor,
            method=call.text("merge_method", "merge") or "merge",
            title=call.text("commit_title"),
            message=call.text("commit_message"),
        )
    except ValueError as problem:
        raise ApiError(405, str(problem)) from None
    return {"sha": sha, "merged": True, "message": "Pull Request successfully merged"}


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/merge", READ)
def is_merged(call: Call) -> Reply:
    """204 when merged, else 404."""
    if call.pull()[1].merged_at is None:
        raise not_found()
    return Reply(None, 204)


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/files", READ)
def list_files(call: Call) -> Json:
    """Changed files."""
    _, pull = call.pull()
    found = pull_changes(call.repository, pull)[:MAX_FILES]
    return [change_json(call.world, call.repository, file, pull.head_sha) for file in call.page(found)]


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/commits", READ)
def list_pull_commits(call: Call) -> Json:
    """Commits, oldest first."""
    _, pull = call.pull()
    shas = call.repository.git.log(f"{pull.base_sha}..{pull.head_sha}", limit=250)[::-1]
    return [commit_json(call.world, call.repository, sha) for sha in call.page(shas)]


def reviewers(call: Call) -> list[str]:
    """Logins in ``reviewers``."""
    given = call.payload.get("reviewers", [])
    if not isinstance(given, list) or not all(isinstance(login, str) for login in given):
        raise unprocessable("Invalid request.\n\nFor 'properties/reviewers', it is not an array of strings.")
    return given


@route("GET", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", READ)
def list_reviewers(call: Call) -> Json:
    """Who was asked."""
    _, pull = call.pull()
    return {"users": [user_json(call.world, found) for found in pull.reviewer_ids], "teams": []}


@route("POST", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", WRITE)
def request_reviewers(call: Call) -> Json:
    """Asks for reviews; 422 for the author and for people who are not collaborators."""
    issue, pull = call.pull()
    chosen = []
    for login in reviewers(call):
        user = call.world.find_user(login)
        if user is not None and user.id == issue.user_id:
            raise unprocessable("Review cannot be requested from pull request author.")
        direct = user is not None and call.world.association(call.repository, user.id) != "NONE"
        if user is None or not direct:
            raise unprocessable(
                "Reviews may only be requested from collaborators. One or more of the users or teams you specified "
                f"is not a collaborator of the {call.world.full_name(call.repository)} repository."
            )
        chosen.append(user)
    for user in chosen:
        actions.request_reviewer(call.platform, call.repository, issue, call.actor, user)
    return created(pull_simple_json(call.world, call.repository, issue, pull))


@route("DELETE", "/repos/{owner}/{repo}/pulls/{number:int}/requested_reviewers", WRITE)
def remove_reviewers(call: Call) -> Json:
    """Takes requests back."""
    issue, pull = call.pull()
    for login in reviewers(call):
        user = call.world.find_user(login)
        if user is not None:
            actions.request_reviewer(call.platform, call.repository, issue, call.actor, user, remove=True)
    return pull_simple_json(call.world, call.repository, issue, pull)
