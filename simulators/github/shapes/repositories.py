"""Repositories and labels as JSON."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from simulators.github.clock import iso
from simulators.github.model import Label, Repository
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import user_json
from simulators.github.world import World

Json = dict[str, Any]

TEMPLATES = {
    "archive_url": "{archive_format}{/ref}",
    "assignees_url": "assignees{/user}",
    "blobs_url": "git/blobs{/sha}",
    "branches_url": "branches{/branch}",
    "collaborators_url": "collaborators{/collaborator}",
    "comments_url": "comments{/number}",
    "commits_url": "commits{/sha}",
    "compare_url": "compare/{base}...{head}",
    "contents_url": "contents/{+path}",
    "contributors_url": "contributors",
    "deployments_url": "deployments",
    "downloads_url": "downloads",
    "events_url": "events",
    "forks_url": "forks",
    "git_commits_url": "git/commits{/sha}",
    "git_refs_url": "git/refs{/sha}",
    "git_tags_url": "git/tags{/sha}",
    "hooks_url": "hooks",
    "issue_comment_url": "issues/comments{/number}",
    "issue_events_url": "issues/events{/number}",
    "issues_url": "issues{/number}",
    "keys_url": "keys{/key_id}",
    "labels_url": "labels{/name}",
    "languages_url": "languages",
    "merges_url": "merges",
    "milestones_url": "milestones{/number}",
    "notifications_url": "notifications{?since,all,participating}",
    "pulls_url": "pulls{/number}",
    "releases_url": "releases{/id}",
    "stargazers_url": "stargazers",
    "statuses_url": "statuses/{sha}",
    "subscribers_url": "subscribers",
    "subscription_url": "subscription",
    "tags_url": "tags",
    "teams_url": "teams",
    "trees_url": "git/trees{/sha}",
}


def api_url(world: World, repository: Repository) -> str:
    """REST address of a repository, without a trailing slash."""
    return f"{world.base_url}/repos/{world.full_name(repository)}"


def page_url(world: World, repository: Repository) -> str:
    """Web address of a repository."""
    return f"{world.base_url}/{world.full_name(repository)}"


def repository_json(world: World, repository: Repository) -> Json:
    """A repository with everything that both REST and webhooks show."""
    api, page = api_url(world, repository), page_url(world, repository)
    open_count = sum(1 for issue in repository.issues.values() if issue.state == "open" and not issue.deleted)
    host = world.base_url.split("://", 1)[1]
    return {
        "id": repository.id,
        "node_id": node_id("Repository", repository.id),
        "name": repository.name,
        "full_name": world.full_name(repository),
        "private": repository.private,
        "owner": user_json(world, repository.owner_id),
        "html_url": page,
        "description": repository.description,
        "fork": repository.parent_id is not None,
        "url": api,
        **{name: f"{api}/{rest}" for name, rest in TEMPLATES.items()},
        "created_at": iso(repository.created_at),
        "updated_at": iso(repository.updated_at),
        "pushed_at": iso(repository.pushed_at),
        "git_url": f"git://{host}/{world.full_name(repository)}.git",
        "ssh_url": f"git@{host}:{world.full_name(repository)}.git",
        "clone_url": f"{page}.git",
        "svn_url": page,
        "homepage": None,
        "size": 1,
        "stargazers_count": 0,
        "watchers_count": 0,
        "language": None,
        "has_issues": repository.has_issues,
        "has_projects": True,
        "has_downloads": True,
        "has_wiki": False,
        "has_pages": False,
        "has_discussions": False,
        "forks_count": 0,
        "mirror_url": None,
        "archived": repository.archived,
        "disabled": repository.disabled,
        "open_issues_count": open_count,
        "license": None,
        "allow_forking": True,
        "is_template": False,
        "web_commit_signoff_required": False,
        "topics": [],
        "custom_properties": {},
        "visibility": "private" if repository.private else "public",
        "forks": 0,
        "open_issues": open_count,
        "watchers": 0,
        "default_branch": repository.default_branch,
    }


def full_repository_json(world: World, repository: Repository, permissions: Mapping[str, str]) -> Json:
    """What ``GET /repos/{owner}/{repo}`` adds."""
    level = permissions.get("contents", "none")
    return {
        **repository_json(world, repository),
        "permissions": {
            "admin": permissions.get("administration") == "write",
            "maintain": False,
            "push": level == "write",
            "triage": False,
            "pull": True,
        },
        "temp_clone_token": None,
        "allow_squash_merge": True,
        "allow_merge_commit": True,
        "allow_rebase_merge": True,
        "allow_auto_merge": False,
        "delete_branch_on_merge": False,
        "allow_update_branch": False,
        "network_count": 0,
        "subscribers_count": 0,
    }


def push_repository_json(world: World, repository: Repository) -> Json:
    """The repository in a ``push`` body: three times are numbers there, and the owner has a name."""
    owner = world.users[repository.owner_id]
    return {
        **repository_json(world, repository),
        "owner": {"name": owner.login, "email": owner.email, **(user_json(world, owner.id) or {})},
        "url": page_url(world, repository),
        "created_at": int(repository.created_at.timestamp()),
        "pushed_at": int(repository.pushed_at.timestamp()),
        "stargazers": 0,
        "master_branch": repository.default_branch,
    }


def short_repository_json(repository: Repository, full_name: str) -> Json:
    """The few fields that installation events give."""
    return {
        "id": repository.id,
        "node_id": node_id("Repository", repository.id),
        "name": repository.name,
        "full_name": full_name,
        "private": repository.private,
    }


def label_json(world: World, repository: Repository, label: Label) -> Json:
    """A label."""
    return {
        "id": label.id,
        "node_id": node_id("Label", label.id),
        "url": f"{api_url(world, repository)}/labels/{quote(label.name, safe='')}",
        "name": label.name,
        "color": label.color,
        "default": label.default,
        "description": label.description,
        "archived_at": None,
        "archived_by": None,
    }


def labels_json(world: World, repository: Repository, label_ids: list[int]) -> list[Json]:
    """Labels of an issue, without those that were deleted since."""
    return [
        label_json(world, repository, repository.labels[found])
        for found in label_ids
        if found in repository.labels
    ]
