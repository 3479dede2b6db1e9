"""Merging a pull request and what follows from it."""

import re

from simulators.github.actions.issues import set_issue_state
from simulators.github.actions.pulls import close_pull
from simulators.github.actions.refs import move_ref
from simulators.github.actions.setup import identity
from simulators.github.model import Issue, Repository, User
from simulators.github.platform import Platform

CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\b:?\s+#(\d+)", re.IGNORECASE)


def merge_pull(
    platform: Platform,
    repository: Repository,
    issue: Issue,
    actor: User,
    *,
    method: str = "merge",
    title: str | None = None,
    message: str | None = None,
) -> str:
    """Merges and returns the new commit's sha; ValueError on a conflict or a closed pull request.

    ``Closes #N`` closes issues only when the base is the default branch (GitHub's rule).
    """
    pull = issue.pull
    if pull is None or issue.state != "open":
        raise ValueError("Pull Request is not mergeable")
    git = repository.git
    tree = git.merge_trees(pull.base_sha, pull.head_sha)
    if tree is None:
        raise ValueError("Merge conflict")
    who = identity(platform, actor)
    owner = platform.world.users[pull.head_owner_id].login
    if method == "merge":
        text = f"{title or f'Merge pull request #{issue.number} from {owner}/{pull.head_ref}'}\n\n{message or issue.title}\n"
        parents = [pull.base_sha, pull.head_sha]
    else:
        text = f"{title or f'{issue.title} (#{issue.number})'}\n\n{message or ''}\n"
        parents = [pull.base_sha]
    sha = git.write_commit(tree, parents, text, who, who)
    repository.verified_commits.add(sha)
    pull.merged_at, pull.merged_by, pull.merge_commit_sha = platform.world.now(), actor.id, sha
    platform.note(issue, actor, f"merged this into {pull.base_ref}")
    close_pull(platform, repository, issue, actor)
    move_ref(platform, repository, f"refs/heads/{pull.base_ref}", sha, actor)
    if pull.base_ref == repository.default_branch:
        for number in CLOSES.findall(f"{issue.body or ''}\n{text}"):
            target = repository.issues.get(int(number))
            if target is not None and target.pull is None and not target.deleted:
                set_issue_state(platform, repository, target, actor, "closed")
    return sha


def update_branch(platform: Platform, repository: Repository, issue: Issue, actor: User) -> str:
    """The button "Update branch": merges the base into the head and returns the new head; ValueError on a conflict."""
    pull, git = issue.pull, repository.git
    if pull is None or issue.state != "open":
        raise ValueError("Pull Request is not open")
    tree = git.merge_trees(pull.head_sha, pull.base_sha)
    if tree is None:
        raise ValueError("Merge conflict")
    who = identity(platform, actor)
    text = f"Merge branch '{pull.base_ref}' into {pull.head_ref}\n"
    sha = git.write_commit(tree, [pull.head_sha, pull.base_sha], text, who, who)
    move_ref(platform, repository, f"refs/heads/{pull.head_ref}", sha, actor)
    return sha
