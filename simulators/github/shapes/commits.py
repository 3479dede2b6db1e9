"""Commits, refs, trees and files as JSON."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

from simulators.github.clock import iso
from simulators.github.git import EMPTY_TREE, Commit, FileChange, Person
from simulators.github.model import Repository
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import account_json
from simulators.github.shapes.repositories import api_url, page_url
from simulators.github.world import World

Json = dict[str, Any]


def moment(person: Person) -> datetime:
    """When somebody wrote or committed, with their zone."""
    seconds, zone = person.date.split(" ")
    minutes = int(zone[1:3]) * 60 + int(zone[3:5])
    offset = timedelta(minutes=-minutes if zone[0] == "-" else minutes)
    return datetime.fromtimestamp(int(seconds), timezone(offset))


def person_json(person: Person) -> Json:
    """Name, email, date in UTC."""
    return {"name": person.name, "email": person.email, "date": iso(moment(person).astimezone(UTC))}


def account_of_email(world: World, email: str) -> Json | None:
    """The account a commit email belongs to."""
    found = next((user for user in world.users.values() if user.email.lower() == email.lower()), None)
    return account_json(world, found) if found else None


def verification_json(repository: Repository, commit: Commit) -> Json:
    """Verified exactly when the API made the commit as the App."""
    if commit.sha in repository.verified_commits:
        when = iso(moment(commit.committer).astimezone(UTC))
        signed = "-----BEGIN PGP SIGNATURE-----\n\nsimulated\n-----END PGP SIGNATURE-----\n"
        payload = f"tree {commit.tree}\n"
        return {
            "verified": True,
            "reason": "valid",
            "signature": signed,
            "payload": payload,
            "verified_at": when,
        }
    return {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def git_commit_json(world: World, repository: Repository, sha: str) -> Json:
    """A commit as the git database routes show it."""
    commit = repository.git.commit(sha)
    api, page = api_url(world, repository), page_url(world, repository)
    return {
        "sha": sha,
        "node_id": node_id("Commit", f"{repository.id}:{sha}"),
        "url": f"{api}/git/commits/{sha}",
        "html_url": f"{page}/commit/{sha}",
        "author": person_json(commit.author),
        "committer": person_json(commit.committer),
        "tree": {"sha": commit.tree, "url": f"{api}/git/trees/{commit.tree}"},
        "message": commit.message,
        "parents": [
            {"sha": parent, "url": f"{api}/git/commits/{parent}", "html_url": f"{page}/commit/{parent}"}
            for parent in commit.parents
        ],
        "verification": verification_json(repository, commit),
    }


def commit_json(world: World, repository: Repository, sha: str) -> Json:
    """A commit as lists show it."""
    commit = repository.git.commit(sha)
    api, page = api_url(world, repository), page_url(world, repository)
    return {
        "sha": sha,
        "node_id": node_id("Commit", f"{repository.id}:{sha}"),
        "commit": {
            "author": person_json(commit.author),
            "committer": person_json(commit.committer),
            "message": commit.message,
            "tree": {"sha": commit.tree, "url": f"{api}/git/trees/{commit.tree}"},
            "url": f"{api}/git/commits/{sha}",
            "comment_count": 0,
            "verification": verification_json(repository, commit),
        },
        "url": f"{api}/commits/{sha}",
        "html_url": f"{page}/commit/{sha}",
        "comments_url": f"{api}/commits/{sha}/comments",
        "author": account_of_email(world, commit.author.email),
        "committer": account_of_email(world, commit.committer.email),
        "parents": [
            {"sha": parent, "url": f"{api}/commits/{parent}", "html_url": f"{page}/commit/{parent}"}
            for parent in commit.parents
        ],
    }


def simple_commit_json(repository: Repository, sha: str) -> Json:
    """``head_commit`` of suites and runs."""
    commit = repository.git.commit(sha)
    return {
        "id": sha,
        "tree_id": commit.tree,
        "message": commit.message,
        "timestamp": iso(moment(commit.committer).astimezone(UTC)),
        "author": {"name": commit.author.name, "email": commit.author.email},
        "committer": {"name": commit.committer.name, "email": commit.committer.email},
    }


def push_commit_json(world: World, repository: Repository, sha: str) -> Json:
    """One of ``commits`` in a ``push`` body."""
    commit = repository.git.commit(sha)
    base = commit.parents[0] if commit.parents else EMPTY_TREE
    files = repository.git.changes(base, sha)
    author = account_of_email(world, commit.author.email)
    committer = account_of_email(world, commit.committer.email)
    return {
        "id": sha,
        "tree_id": commit.tree,
        "distinct": True,
        "message": commit.message,
        "timestamp": moment(commit.committer).isoformat(),
        "url": f"{page_url(world, repository)}/commit/{sha}",
        "author": {
            "name": commit.author.name,
            "email": commit.author.email,
            **({"username": author["login"]} if author else {}),
        },
        "committer": {
            "name": commit.committer.name,
            "email": commit.committer.email,
            **({"username": committer["login"]} if committer else {}),
        },
        "added": [change.path for change in files if change.status == "added"],
        "removed": [change.path for change in files if change.status == "removed"],
        "modified": [change.path for change in files if change.status not in ("added", "removed")],
    }


def ref_json(world: World, repository: Repository, ref: str, sha: str) -> Json:
    """A git reference."""
    api = api_url(world, repository)
    kind = repository.git.kind(sha) or "commit"
    return {
        "ref": ref,
        "node_id": node_id("Ref", f"{repository.id}:{ref}"),
        "url": f"{api}/git/{quote(ref)}",
        "object": {"sha": sha, "type": kind, "url": f"{api}/git/{kind}s/{sha}"},
    }


def change_json(world: World, repository: Repository, change: FileChange, head: str) -> Json:
    """A changed file of a pull request or comparison."""
    path = quote(change.path)
    page = page_url(world, repository)
    body: Json = {
        "sha": change.sha,
        "filename": change.path,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{page}/blob/{head}/{path}",
        "raw_url": f"{page}/raw/{head}/{path}",
        "contents_url": f"{api_url(world, repository)}/contents/{path}?ref={head}",
    }
    if change.patch:
        body["patch"] = change.patch
    if change.previous:
        body["previous_filename"] = change.previous
    return body
