"""How this package runs git: nobody's configuration, hooks, filters, signing keys or replacement objects take part."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_DISARMED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.attributesFile=/dev/null",
    "core.quotePath=false",
    "core.splitIndex=false",
    "core.fileMode=true",
    "core.symlinks=true",
    "commit.gpgsign=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "diff.renames=false",
    "diff.noprefix=false",
    "diff.mnemonicPrefix=false",
    "diff.external=",
    "safe.directory=*",
)
_FILTER = re.compile(r"^filter\.(.+)\.[^.]+$", re.DOTALL)


class GitFailed(Exception):
    """A git command ended with an error; the text is the command and what git said."""


class Git:
    """git in one work tree, apart from the agent's own configuration."""

    def __init__(self, workspace: Path, environment: Mapping[str, str] | None = None) -> None:
        self._workspace = workspace
        self._environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": "/nonexistent",
            "LC_ALL": "C",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CEILING_DIRECTORIES": str(workspace.resolve().parent),
            **(environment or {}),
        }
        self._options = [part for setting in _DISARMED for part in ("-c", setting)]

    @property
    def workspace(self) -> Path:
        return self._workspace

    def with_environment(self, extra: Mapping[str, str]) -> Git:
        other = Git(self._workspace, {**self._environment, **extra})
        other._options = self._options
        return other

    def disarm_filters(self) -> None:
        """Switches off every filter that the repository's own configuration names, whatever it is called."""
        names = {"lfs"}
        listed = self.run("config", "--null", "--name-only", "--get-regexp", r"^filter\.", check=False)
        for key in listed.decode(errors="replace").split("\0"):
            if (match := _FILTER.match(key)) and "=" not in match[1] and "\n" not in match[1]:
                names.add(match[1])
        self._options = [part for setting in _DISARMED for part in ("-c", setting)]
        for name in sorted(names):
            for key, value in (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false")):
                self._options += ["-c", f"filter.{name}.{key}={value}"]

    def run(self, *arguments: str, stdin: bytes = b"", check: bool = True, timeout_s: float = 120) -> bytes:
        """What the command printed. Raises GitFailed unless `check` is false."""
        return self.status(arguments, stdin=stdin, check=check, timeout_s=timeout_s)[1]

    def succeeds(self, *arguments: str) -> bool:
        return self.status(arguments, stdin=b"", check=False, timeout_s=120)[0] == 0

    def status(
        self, arguments: Sequence[str], *, stdin: bytes, check: bool, timeout_s: float
    ) -> tuple[int, bytes]:
        command = ["git", *self._options, *arguments]
        try:
            done = subprocess.run(
                command,
                cwd=self._workspace,
                env=self._environment,
                input=stdin,
                capture_output=True,
                timeout=timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitFailed(f"git {arguments[0]}: {error}") from error
        if check and done.returncode != 0:
            said = done.stderr[-1_000:].decode(errors="replace").strip()
            raise GitFailed(f"git {' '.join(arguments[:3])}: exit {done.returncode}: {said}")
        return done.returncode, done.stdout
