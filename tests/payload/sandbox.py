"""Runs the payload as a host would: inputs in files, a private home, a git work tree, a process."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.payload.app_stub import SANDBOX_ID, TOKEN, AppStub

ROOT = Path(__file__).resolve().parents[2]
GIT_ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "carol",
    "GIT_AUTHOR_EMAIL": "carol@example.org",
    "GIT_COMMITTER_NAME": "carol",
    "GIT_COMMITTER_EMAIL": "carol@example.org",
}


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, env=GIT_ENV, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode(errors="surrogateescape").rstrip("\n")


def make_repository(folder: Path, files: dict[str, bytes] | None = None) -> str:
    """A work tree on branch `feature/7-x` with one commit of `files`; the commit."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "feature/7-x")
    for name, content in (files or {"README.md": b"# Example\n"}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "start")
    return git(folder, "rev-parse", "HEAD")


def descendants_of(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                children.setdefault(int(parent), []).append(int(entry.name))
    found, queue = [], [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def eventually(condition: Callable[[], Any], timeout_s: float = 10) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "not seen in time"
        time.sleep(0.02)
    return value


@dataclass
class Sandbox:
    """One payload run in `folder`, driven by the scripted model's scenario `scenario`."""

    folder: Path
    app: AppStub
    model_url: str
    scenario: str
    brief: dict[str, Any] = field(default_factory=dict)
    files: dict[str, bytes] | None = None
    prompt: str = "Please do the task."
    prompt_anew: str | None = None
    transcript: bytes | None = None
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    start_sha: str = ""
    held: bool = False
    """It waits for `let_go`."""

    @property
    def workspace(self) -> Path:
        return self.folder / "work tree"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def prepare(self) -> Sandbox:
        """Makes the repository and the inputs; `start` does it when nobody has."""
        self.start_sha = make_repository(self.workspace, self.files)
        inputs = self.folder / "inputs"
        inputs.mkdir()
        brief = {
            "sandbox_id": SANDBOX_ID,
            "spec_id": "spec-1",
            "task_id": "task-1",
            "title": "Add the thing",
            "repository": "carol/example",
            "branch": "feature/7-x",
            "start_sha": self.start_sha,
            "idle_s": 0,
            **self.brief,
        }
        (inputs / "brief.json").write_text(json.dumps(brief))
        (inputs / "prompt.md").write_text(self.prompt)
        (inputs / "system.md").write_text("SYSTEM-TEXT-OF-THE-HOST")
        (inputs / "token").write_text(TOKEN + "\n")
        (inputs / "token").chmod(0o600)
        if self.prompt_anew is not None:
            (inputs / "prompt-anew.md").write_text(self.prompt_anew)
        if self.transcript is not None:
            (inputs / "transcript.tar.gz").write_bytes(self.transcript)
        (self.folder / "home").mkdir()
        return self

    def start(self) -> Sandbox:
        if not self.start_sha:
            self.prepare()
        inputs = self.folder / "inputs"
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(self._packed()),
            "CALLBACK_URL": self.app.url,
            "ANTHROPIC_BASE_URL": f"{self.model_url}/s/{self.scenario}",
            "SANDBOX_TOKEN_FILE": str(inputs / "token"),
            "CLAUDE_CODE_MAX_RETRIES": "1",
            "API_TIMEOUT_MS": "20000",
            "IS_SANDBOX": "1",
            "GIT_AUTHOR_NAME": "leak",
            **self.environment,
        }
        command = [
            sys.executable,
            "-m",
            "sandbox_payload",
            "--inputs",
            str(inputs),
            "--state",
            str(self.state),
        ]
        with (self.folder / "output").open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--workspace", str(self.workspace), *(("--held",) if self.held else ())],
                env=environment,
                cwd="/",
                stdin=subprocess.PIPE if self.held else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def let_go(self, told: bytes) -> None:
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.write(told)
        self.process.stdin.close()

    def wait(self, timeout_s: float = 40) -> int:
        """The exit code."""
        assert self.process is not None
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running; {self.app.types()}; {self.output()}") from None

    def run(self, timeout_s: float = 40) -> int:
        return self.start().wait(timeout_s)

    def output(self) -> str:
        return (self.folder / "output").read_text(errors="replace")[-3_000:]

    def stop(self) -> None:
        """Ends what is left, for whatever reason a test ended."""
        if self.process is not None:
            pids = [self.process.pid, *descendants_of(self.process.pid)]
            for pid in pids:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
            self.process.wait(5)

    def result(self) -> Path:
        """A clone of the start commit with the handed-over result on branch `result`."""
        target = self.folder / "received"
        shutil.rmtree(target, ignore_errors=True)
        git(self.folder, "init", "-q", str(target))
        git(target, "fetch", "-q", str(self.workspace), f"{self.start_sha}:refs/heads/start")
        bundle = self.folder / "received.bundle"
        bundle.write_bytes(self.app.artifacts["result.bundle"])
        git(target, "fetch", "-q", str(bundle), "refs/issuewright/result:refs/heads/result")
        return target

    def changed(self) -> dict[str, str]:
        """Path to status letter, start to result."""
        listed = git(self.result(), "diff", "--name-status", "--no-renames", "start", "result").splitlines()
        return {path: status for status, path in (line.split("\t", 1) for line in listed)}

    def content(self, path: str) -> bytes:
        shown = subprocess.run(
            ["git", "show", f"result:{path}"], cwd=self.result(), env=GIT_ENV, capture_output=True, check=True
        )
        return shown.stdout

    def _packed(self) -> Path:
        """The payload alone on the path, as a host packs it."""
        target = self.folder / "payload"
        if not target.exists():
            shutil.copytree(
                ROOT / "sandbox_payload",
                target / "sandbox_payload",
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        return target


def ask_model(url: str, path: str, data: Any = None) -> Any:
    """Calls the scripted model's control routes."""
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.loads(response.read() or b"null")
