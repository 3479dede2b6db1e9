"""Files at a commit."""

from base64 import b64encode
from typing import Any
from urllib.parse import quote

from simulators.github.errors import ApiError, not_found
from simulators.github.git import TreeEntry
from simulators.github.rest.routing import Call, Json, Reply, route
from simulators.github.shapes.repositories import api_url, page_url


@route("GET", "/repos/{owner}/{repo}/contents", "contents:read")
@route("GET", "/repos/{owner}/{repo}/contents/", "contents:read")
def get_root(call: Call) -> Json:
    """Entries of the top directory."""
    return read(call, "")


@route("GET", "/repos/{owner}/{repo}/contents/{path:path}", "contents:read")
def get_contents(call: Call) -> Json:
    """A file, or a directory's entries; 404 when the path is not there (or the repository is empty)."""
    return read(call, call.params["path"].strip("/"))


def read(call: Call, path: str) -> Json:
    """The thing at a path at ``ref``."""
    git = call.repository.git
    ref = call.query.get("ref") or call.repository.default_branch
    commit = git.find_commit_sha(ref)
    if commit is None:
        if not git.refs("refs/"):
            raise ApiError(404, "This repository is empty.")
        raise ApiError(404, f"No commit found for the ref {ref}")
    if not path:
        return [entry_json(call, entry, ref) for entry in git.tree(commit)]
    entries = git.tree(commit, path=path)
    if not entries:
        raise not_found()
    if entries[0].kind == "tree":
        return [entry_json(call, entry, ref) for entry in git.tree(commit, path=f"{path}/")]
    content = git.blob(entries[0].sha)
    if "raw" in call.query.get(".accept", ""):
        return Reply(text=content.decode("utf-8", "replace"))
    coded = b64encode(content).decode()
    lines = "".join(f"{coded[at : at + 60]}\n" for at in range(0, len(coded), 60))
    return {**entry_json(call, entries[0], ref), "content": lines, "encoding": "base64"}


def entry_json(call: Call, entry: TreeEntry, ref: str) -> dict[str, Any]:
    """What files and directory entries have in common."""
    api, page = api_url(call.world, call.repository), page_url(call.world, call.repository)
    path = quote(entry.path)
    folder = entry.kind == "tree"
    url = f"{api}/contents/{path}?ref={quote(ref)}"
    git_url = f"{api}/git/{'trees' if folder else 'blobs'}/{entry.sha}"
    html_url = f"{page}/{'tree' if folder else 'blob'}/{ref}/{path}"
    return {
        "name": entry.path.rsplit("/", 1)[-1],
        "path": entry.path,
        "sha": entry.sha,
        "size": entry.size or 0,
        "url": url,
        "html_url": html_url,
        "git_url": git_url,
        "download_url": None if folder else f"{page}/raw/{ref}/{path}",
        "type": "dir" if folder else "file",
        "_links": {"self": url, "git": git_url, "html": html_url},
    }
