"""Commits and comparisons."""

from simulators.github.errors import ApiError, not_found
from simulators.github.git import EMPTY_TREE
from simulators.github.rest.git_refs import require_content
from simulators.github.rest.routing import Call, Json, route
from simulators.github.shapes.commits import change_json, commit_json
from simulators.github.shapes.repositories import api_url, page_url

MAX_COMPARED = 250


@route("GET", "/repos/{owner}/{repo}/commits", "contents:read")
def list_commits(call: Call) -> Json:
    """Commits of a branch (``sha``), newest first; ``path`` narrows."""
    require_content(call.repository)
    git = call.repository.git
    start = git.find_commit_sha(call.query.get("sha") or call.repository.default_branch)
    if start is None:
        raise not_found()
    found = call.page(git.log(start, path=call.query.get("path"), limit=10_000))
    return [commit_json(call.world, call.repository, sha) for sha in found]


@route("GET", "/repos/{owner}/{repo}/commits/{ref:path}", "contents:read")
def get_commit(call: Call) -> Json:
    """One commit with its files."""
    require_content(call.repository)
    git = call.repository.git
    sha = git.find_commit_sha(call.params["ref"])
    if sha is None:
        raise ApiError(422, f"No commit found for SHA: {call.params['ref']}")
    parents = git.commit(sha).parents
    files = git.changes(parents[0] if parents else EMPTY_TREE, sha)
    added, removed = sum(file.additions for file in files), sum(file.deletions for file in files)
    return {
        **commit_json(call.world, call.repository, sha),
        "stats": {"total": added + removed, "additions": added, "deletions": removed},
        "files": [change_json(call.world, call.repository, file, sha) for file in files],
    }


@route("GET", "/repos/{owner}/{repo}/compare/{basehead:path}", "contents:read")
def compare(call: Call) -> Json:
    """``base...head``: merge base, how far apart, commits and files."""
    base_name, dots, head_name = call.params["basehead"].partition("...")
    git = call.repository.git
    base = git.find_commit_sha(base_name.rsplit(":", 1)[-1])
    head = git.find_commit_sha(head_name.rsplit(":", 1)[-1])
    if not dots or base is None or head is None:
        raise not_found()
    middle = git.merge_base(base, head)
    if middle is None:
        raise ApiError(404, f"No common ancestor between {base_name} and {head_name}.")
    ahead, behind = git.count(base, head), git.count(head, base)
    states = {
        (True, True): "diverged",
        (True, False): "ahead",
        (False, True): "behind",
        (False, False): "identical",
    }
    url = f"{api_url(call.world, call.repository)}/compare/{base_name}...{head_name}"
    page = f"{page_url(call.world, call.repository)}/compare/{base_name}...{head_name}"
    commits = git.log(f"{base}..{head}", limit=MAX_COMPARED)[::-1]
    return {
        "url": url,
        "html_url": page,
        "permalink_url": page,
        "diff_url": f"{page}.diff",
        "patch_url": f"{page}.patch",
        "base_commit": commit_json(call.world, call.repository, base),
        "merge_base_commit": commit_json(call.world, call.repository, middle),
        "status": states[(ahead > 0, behind > 0)],
        "ahead_by": ahead,
        "behind_by": behind,
        "total_commits": ahead,
        "commits": [commit_json(call.world, call.repository, sha) for sha in commits],
        "files": [change_json(call.world, call.repository, file, head) for file in git.changes(middle, head)],
    }
