"""`python -m sandbox_payload.boot DIRECTORY [--relay]`: from what was uploaded into DIRECTORY to the running payload.

For a sandbox that a host fills from afar: makes the work tree from `repository.bundle` as `plan.json` says, takes its
environment from there, and becomes the payload (same process id, which is in `state/pid`). Standard library only;
nothing of the agent has run yet.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from sandbox_payload.wire import ExitCode

_GIT_ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ALLOW_PROTOCOL": "file",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


def make_work_tree(base: Path, plan: dict[str, Any]) -> Path:
    """On the plan's branch at its start commit, with the agent configuration that the host chose laid over it."""
    work = base / "workspace"
    shutil.rmtree(work, ignore_errors=True)  # what an earlier start left half made
    work.mkdir()
    branch, bundle = plan["branch"], str(base / "repository.bundle")
    _git(work, "init", "--quiet", "--template=", "--initial-branch", branch)
    _git(work, "fetch", "--quiet", "--update-head-ok", "--", bundle, "+refs/*:refs/*")
    _git(work, "reset", "--quiet", "--hard", plan["start_sha"])
    (work / ".git" / "hooks").mkdir(exist_ok=True)
    hidden = "".join(f"{path}\0" for path in plan["hidden"])
    if hidden:
        _git(work, "update-index", "--skip-worktree", "-z", "--stdin", stdin=hidden)
    for path in plan["laid"]:
        (work / path).unlink(missing_ok=True)
        if os.path.lexists(base / "laid" / path):
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(base / "laid" / path, work / path, follow_symlinks=False)
    if (base / "exclude").exists():
        (work / ".git" / "info").mkdir(exist_ok=True)
        shutil.copyfile(base / "exclude", work / ".git" / "info" / "exclude")
    return work


def _git(work: Path, *arguments: str, stdin: str = "") -> None:
    subprocess.run(
        ["git", "-c", f"core.hooksPath={os.devnull}", *arguments],
        cwd=work,
        input=stdin.encode("utf-8", "surrogateescape"),
        env={**os.environ, **_GIT_ENVIRONMENT},
        check=True,
    )


def main() -> int:
    base = Path(sys.argv[1]).resolve()
    for name in ("state", "home"):
        (base / name).mkdir(mode=0o700, exist_ok=True)
    (base / "state" / "pid").write_text(str(os.getpid()))
    try:
        plan = json.loads((base / "plan.json").read_text(encoding="utf-8"))
        work = make_work_tree(base, plan)
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
        print(f"boot: {error}", file=sys.stderr)
        return ExitCode.BAD_INPUTS
    environment = {
        **os.environ,
        **plan["environment"],
        "SANDBOX_TOKEN_FILE": str(base / "token"),
        "HOME": str(base / "home"),
    }
    if (base / "model_key").exists():
        environment["MODEL_KEY_FILE"] = str(base / "model_key")
    folders = ["--inputs", str(base / "inputs"), "--state", str(base / "state"), "--workspace", str(work)]
    os.chdir(work)
    command = [sys.executable, "-P", "-m", "sandbox_payload", *folders, *sys.argv[2:]]
    return os.execve(sys.executable, command, environment)  # noqa: S606 - an argument list, and no shell


if __name__ == "__main__":
    sys.exit(main())
