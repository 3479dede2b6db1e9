"""Git references and branches."""

import fnmatch
import re

from simulators.github.actions.refs import move_ref
from simulators.github.errors import ApiError, not_found, unprocessable
from simulators.github.git import SHA, ZERO, GitError
from simulators.github.model import Repository
from simulators.github.rest.routing import Call, Json, Reply, created, no_content, route
from simulators.github.shapes.commits import commit_json, ref_json
from simulators.github.shapes.repositories import api_url, page_url

FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|$)|\.$|/$")


def require_content(repository: Repository) -> None:
    """409 in a repository without any ref."""
    if not repository.git.refs("refs/"):
        raise ApiError(409, "Git Repository is empty.")


def check_ref_name(ref: str) -> None:
    """422 unless the name is one for ``git check-ref-format`` with ``refs/`` and two slashes."""
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise unprocessable("Reference name must start with 'refs/' and contain at least two slashes.")
    if FORBIDDEN.search(ref) or ref.split("/", 2)[2].startswith("-") or len(ref) > 255:
        raise unprocessable(f"{ref} is not a valid ref name.")


def check_protection(repository: Repository, ref: str) -> None:
    """422 for a protected branch."""
    branch = ref.removeprefix("refs/heads/")
    if ref.startswith("refs/heads/") and any(
        fnmatch.fnmatchcase(branch, rule) for rule in repository.protected
    ):
        raise unprocessable("Cannot update this protected ref.")


@route("GET", "/repos/{owner}/{repo}/git/ref/{ref:path}", "contents:read")
def get_ref(call: Call) -> Json:
    """One reference by its exact name (``heads/x``)."""
    require_content(call.repository)
    ref = f"refs/{call.params['ref']}"
    sha = None if FORBIDDEN.search(ref) else call.repository.git.refs(ref).get(ref)
    if sha is None:
        raise not_found()
    return ref_json(call.world, call.repository, ref, sha)


@route("GET", "/repos/{owner}/{repo}/git/matching-refs/{ref:path}", "contents:read")
def list_matching_refs(call: Call) -> Json:
    """References that start with a name."""
    require_content(call.repository)
    wanted = f"refs/{call.params['ref']}"
    found = call.repository.git.refs("refs/")
    return [
        ref_json(call.world, call.repository, ref, sha)
        for ref, sha in call.page([pair for pair in found.items() if pair[0].startswith(wanted)])
    ]


@route("POST", "/repos/{owner}/{repo}/git/refs", "contents:write")
def create_ref(call: Call) -> Json:
    """A new reference; 422 when it exists, when its name can't be, or when there is no such object."""
    ref, sha = call.required("ref"), call.required("sha")
    require_content(call.repository)
    check_ref_name(ref)
    git = call.repository.git
    if git.find_ref(ref) is not None:
        raise unprocessable("Reference already exists")
    if not SHA.fullmatch(sha) or git.kind(sha) is None:
        raise unprocessable("Object does not exist")
    try:
        move_ref(call.platform, call.repository, ref, sha, call.actor, expect=ZERO)
    except GitError:
        raise unprocessable("Reference update failed") from None
    shape = ref_json(call.world, call.repository, ref, sha)
    return created(shape, shape["url"])


@route("PATCH", "/repos/{owner}/{repo}/git/refs/{ref:path}", "contents:write")
def update_ref(call: Call) -> Json:
    """Moves a reference; without ``force`` only forwards."""
    ref, sha = f"refs/{call.params['ref']}", call.required("sha")
    git = call.repository.git
    old = git.find_ref(ref)
    if old is None:
        raise unprocessable("Reference does not exist")
    if not SHA.fullmatch(sha) or git.kind(sha) is None:
        raise unprocessable("Object does not exist")
    check_protection(call.repository, ref)
    if call.payload.get("force") is not True and not git.is_ancestor(old, sha):
        raise unprocessable("Update is not a fast forward")
    move_ref(call.platform, call.repository, ref, sha, call.actor)
    return ref_json(call.world, call.repository, ref, sha)


@route("DELETE", "/repos/{owner}/{repo}/git/refs/{ref:path}", "contents:write")
def delete_ref(call: Call) -> Reply:
    """Removes a reference."""
    ref = f"refs/{call.params['ref']}"
    if call.repository.git.find_ref(ref) is None:
        raise unprocessable("Reference does not exist")
    check_protection(call.repository, ref)
    if ref == f"refs/heads/{call.repository.default_branch}":
        raise unprocessable("Cannot delete the default branch")
    move_ref(call.platform, call.repository, ref, ZERO, call.actor)
    return no_content()


def is_protected(repository: Repository, branch: str) -> bool:
    """Whether a rule covers a branch."""
    return any(fnmatch.fnmatchcase(branch, rule) for rule in repository.protected)


@route("GET", "/repos/{owner}/{repo}/branches", "contents:read")
def list_branches(call: Call) -> Json:
    """Branches by name."""
    api = api_url(call.world, call.repository)
    return [
        {
            "name": ref.removeprefix("refs/heads/"),
            "commit": {"sha": sha, "url": f"{api}/commits/{sha}"},
            "protected": is_protected(call.repository, ref.removeprefix("refs/heads/")),
        }
        for ref, sha in call.page(list(call.repository.git.refs().items()))
    ]


@route("GET", "/repos/{owner}/{repo}/branches/{branch:path}", "contents:read")
def get_branch(call: Call) -> Json:
    """One branch with its head commit."""
    name = call.params["branch"]
    ref = f"refs/heads/{name}"
    sha = None if FORBIDDEN.search(ref) else call.repository.git.refs(ref).get(ref)
    if sha is None:
        raise ApiError(404, "Branch not found")
    url = f"{api_url(call.world, call.repository)}/branches/{name}"
    protected = is_protected(call.repository, name)
    checks = {"enforcement_level": "off", "contexts": [], "checks": []}
    return {
        "name": name,
        "commit": commit_json(call.world, call.repository, sha),
        "_links": {"self": url, "html": f"{page_url(call.world, call.repository)}/tree/{name}"},
        "protected": protected,
        "protection": {"enabled": protected, "required_status_checks": checks},
        "protection_url": f"{url}/protection",
    }
