"""git's pre-receive hook: refuses what GitHub refuses, with its kind of message.

Environment: ``SIM_PROTECTED`` (JSON, branch → rule), ``SIM_WORKFLOWS`` (``1``: may change workflow files),
``SIM_ACTOR`` (``app`` or ``person``), ``SIM_SECRETS`` (JSON, texts that push protection looks for).
Standard input: one line ``OLD NEW REF`` per ref.
"""

import fnmatch
import json
import os
import subprocess
import sys

ZERO = "0" * 40
WORKFLOWS = ".github/workflows/"


def git(*args: str) -> str:
    """Output of a git command in the receiving repository."""
    return subprocess.run(["git", *args], check=True, capture_output=True).stdout.decode("utf-8", "replace")


def new_commits(new: str) -> list[str]:
    """Commits that this push brings."""
    return git("rev-list", new, "--not", "--all").split()


def workflow_problem(new: str) -> str | None:
    """GitHub's refusal when a new commit touches a workflow file; one that a branch has with the same content is let pass."""
    for commit in new_commits(new):
        paths = git("diff-tree", "-r", "-m", "--root", "--no-commit-id", "--name-only", "-z", commit)
        for path in paths.split("\0"):
            if path.startswith(WORKFLOWS) and not stands_on_a_branch(commit, path):
                return f"refusing to allow a GitHub App to create or update workflow `{path}` without `workflows` permission"
    return None


def stands_on_a_branch(commit: str, path: str) -> bool:
    """Whether some branch has that file as the commit has it."""
    mine = git("ls-tree", "-z", commit, "--", path)
    heads = git("for-each-ref", "--format=%(objectname)", "refs/heads/").split()
    return bool(mine) and any(git("ls-tree", "-z", head, "--", path) == mine for head in heads)


def secret_problem(new: str, secrets: list[str]) -> str | None:
    """Push protection: a planted text in what the push adds."""
    for commit in new_commits(new):
        patch = git("show", "--format=", "--patch", commit)
        added = "\n".join(line for line in patch.splitlines() if line.startswith("+"))
        if any(secret in added for secret in secrets):
            return (
                f"GH013: Repository rule violations found.\n- Push cannot contain secrets\n  commit: {commit}"
            )
    return None


def protection_problem(ref: str, rules: dict[str, str]) -> str | None:
    """A protected branch's refusal."""
    branch = ref.removeprefix("refs/heads/")
    for pattern, rule in rules.items():
        if not fnmatch.fnmatchcase(branch, pattern):
            continue
        if rule == "ruleset":
            return f"GH013: Repository rule violations found for {ref}.\n- Changes must be made through a pull request."
        if rule == "signatures":
            return (
                f"GH006: Protected branch update failed for {ref}.\n- Commits must have verified signatures."
            )
        return f"GH006: Protected branch update failed for {ref}.\n- Changes must be made through a pull request."
    return None


def find_problem(new: str, ref: str) -> str | None:
    """The first reason to refuse one ref, or None."""
    if ref.startswith("refs/pull/"):
        return "deny updating a hidden ref"
    person = os.environ.get("SIM_ACTOR") == "person"
    problem = None if person else protection_problem(ref, json.loads(os.environ.get("SIM_PROTECTED", "{}")))
    if problem is None and new != ZERO and os.environ.get("SIM_WORKFLOWS") != "1":
        problem = workflow_problem(new)
    secrets = json.loads(os.environ.get("SIM_SECRETS", "[]"))
    if problem is None and new != ZERO and secrets:
        problem = secret_problem(new, secrets)
    return problem


def main() -> int:
    """Reads the refs, writes the refusals to stderr (git shows them as ``remote:``)."""
    refused = False
    for line in sys.stdin:
        _old, new, ref = line.split()
        problem = find_problem(new, ref)
        if problem is not None:
            refused = True
            print(f"error: {problem}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
