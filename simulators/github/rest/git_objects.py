"""Git commits, trees and blobs."""

import binascii
from base64 import b64decode, b64encode
from datetime import datetime
from typing import Any

from simulators.github.errors import ApiError, not_found, unprocessable
from simulators.github.git import SHA, GitError, Person
from simulators.github.nodes import node_id
from simulators.github.rest.git_refs import require_content
from simulators.github.rest.routing import Call, Json, created, route
from simulators.github.shapes.commits import git_commit_json
from simulators.github.shapes.repositories import api_url


def object_of(call: Call, kind: str) -> str:
    """Sha ``{sha}`` when it is an object of this kind, else 404."""
    require_content(call.repository)
    sha = call.params["sha"]
    if not SHA.fullmatch(sha) or call.repository.git.kind(sha) != kind:
        raise not_found()
    return sha


@route("GET", "/repos/{owner}/{repo}/git/commits/{sha}", "contents:read")
def get_git_commit(call: Call) -> Json:
    """One commit object."""
    return git_commit_json(call.world, call.repository, object_of(call, "commit"))


def signer(call: Call, name: str) -> Person | None:
    """``author`` or ``committer`` of the body; None when absent."""
    given = call.payload.get(name)
    if not isinstance(given, dict):
        return None
    moment = call.world.now()
    if isinstance(given.get("date"), str):
        try:
            moment = datetime.fromisoformat(given["date"])
        except ValueError:
            raise unprocessable("Invalid request.\n\nInvalid date.") from None
    return Person(str(given.get("name", "")), str(given.get("email", "")), f"{int(moment.timestamp())} +0000")


@route("POST", "/repos/{owner}/{repo}/git/commits", "contents:write")
def create_git_commit(call: Call) -> Json:
    """A commit object; without author and committer it is the App's, and verified."""
    message, tree = call.required("message"), call.required("tree")
    require_content(call.repository)
    parents = call.payload.get("parents", [])
    git = call.repository.git
    if not SHA.fullmatch(tree) or git.kind(tree) != "tree":
        raise unprocessable("Tree SHA does not exist")
    if not isinstance(parents, list) or any(
        not isinstance(sha, str) or not SHA.fullmatch(sha) or git.kind(sha) != "commit" for sha in parents
    ):
        raise unprocessable("Parent SHA does not exist or is not a commit object")
    bot = call.actor
    seconds = int(call.world.now().timestamp())
    own = Person(bot.login, bot.email, f"{seconds} +0000")
    author, committer = signer(call, "author"), signer(call, "committer")
    web = Person("GitHub", "noreply@github.com", own.date)
    verified = author is None and committer is None and call.payload.get("signature") is None
    sha = git.write_commit(tree, parents, message, author or own, committer or author or web)
    if verified:
        call.repository.verified_commits.add(sha)
    shape = git_commit_json(call.world, call.repository, sha)
    return created(shape, shape["url"])


@route("GET", "/repos/{owner}/{repo}/git/trees/{sha:path}", "contents:read")
def get_tree(call: Call) -> Json:
    """A tree by sha, branch or commit; ``recursive`` lists everything below."""
    require_content(call.repository)
    name = call.params["sha"]
    git = call.repository.git
    known = name if SHA.fullmatch(name) and git.kind(name) == "tree" else git.find_commit_sha(name)
    if known is None:
        raise not_found()
    sha = known if git.kind(known) == "tree" else git.commit(known).tree
    return tree_json(call, sha, recursive=bool(call.query.get("recursive")))


def tree_json(call: Call, sha: str, *, recursive: bool = False) -> dict[str, Any]:
    """A tree's entries."""
    api = api_url(call.world, call.repository)
    entries = []
    for entry in call.repository.git.tree(sha, recursive=recursive):
        shape: dict[str, Any] = {"path": entry.path, "mode": entry.mode, "type": entry.kind, "sha": entry.sha}
        if entry.size is not None:
            shape["size"] = entry.size
        if entry.kind != "commit":
            shape["url"] = f"{api}/git/{entry.kind}s/{entry.sha}"
        entries.append(shape)
    return {"sha": sha, "url": f"{api}/git/trees/{sha}", "tree": entries, "truncated": False}


@route("POST", "/repos/{owner}/{repo}/git/trees", "contents:write")
def create_tree(call: Call) -> Json:
    """A tree over an optional base."""
    require_content(call.repository)
    git = call.repository.git
    base, given = call.text("base_tree"), call.payload.get("tree")
    if not isinstance(given, list) or not given:
        raise unprocessable("Invalid tree info")
    if base is not None and (not SHA.fullmatch(base) or git.kind(base) not in ("tree", "commit")):
        raise unprocessable("base_tree is not a valid tree oid")
    entries: list[tuple[str, str, str | None]] = []
    for entry in given:
        sha = entry.get("sha")
        if isinstance(entry.get("content"), str):
            sha = git.write_blob(entry["content"].encode())
        entries.append((str(entry.get("mode", "100644")), str(entry.get("path", "")), sha))
    try:
        tree = git.write_tree(base, entries)
    except GitError:
        raise unprocessable("GitRPC::BadObjectState") from None
    return created(tree_json(call, tree))


@route("GET", "/repos/{owner}/{repo}/git/blobs/{sha}", "contents:read")
def get_blob(call: Call) -> Json:
    """A blob in base64."""
    sha = object_of(call, "blob")
    content = call.repository.git.blob(sha)
    return {
        "sha": sha,
        "node_id": node_id("Blob", f"{call.repository.id}:{sha}"),
        "size": len(content),
        "url": f"{api_url(call.world, call.repository)}/git/blobs/{sha}",
        "content": b64encode(content).decode(),
        "encoding": "base64",
    }


@route("POST", "/repos/{owner}/{repo}/git/blobs", "contents:write")
def create_blob(call: Call) -> Json:
    """Stores a blob."""
    require_content(call.repository)
    content = call.required("content")
    if call.text("encoding", "utf-8") == "base64":
        try:
            data = b64decode(content)
        except binascii.Error:
            raise ApiError(422, "content is not valid Base64") from None
    else:
        data = content.encode()
    sha = call.repository.git.write_blob(data)
    url = f"{api_url(call.world, call.repository)}/git/blobs/{sha}"
    return created({"sha": sha, "url": url}, url)
