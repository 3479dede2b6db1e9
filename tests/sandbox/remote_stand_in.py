"""Stands in for the payload in a remote sandbox: prompt.md names the act; what it finds is printed as JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=False).stdout


def report(inputs: Path, workspace: Path) -> dict[str, object]:
    token = Path(os.environ["SANDBOX_TOKEN_FILE"])
    return {
        "environment": dict(os.environ),
        "token": token.read_text(),
        "mode": oct(token.stat().st_mode & 0o777),
        "relay": "--relay" in sys.argv,
        "inputs": sorted(path.name for path in inputs.iterdir()),
        "head": git("log", "-1", "--format=%H %D", cwd=workspace).split(),
        "status": git("status", "--porcelain", cwd=workspace),
        "branches": git("for-each-ref", "--format=%(refname)", cwd=workspace).split(),
        "files": {
            str(path.relative_to(workspace)): path.read_text()
            for path in sorted(workspace.rglob("*"))
            if path.is_file() and ".git" not in path.parts
        },
    }


def leave(state: Path, files: list[str]) -> None:
    """Those files, each older than the one before it."""
    for age_s, name in enumerate(files):
        path = state / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(f"{name} as it was left\n".encode() * 1000)
        os.utime(path, (time.time() - age_s, time.time() - age_s))
    (state / "starts").open("a").write("started\n")


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--inputs", "--state", "--workspace"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--relay", action="store_true")
    options = parser.parse_args()
    act, _, argument = (options.inputs / "prompt.md").read_text().partition(" ")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    if act == "exit":
        return int(argument)
    if act == "report":
        print(json.dumps(report(options.inputs, options.workspace)), flush=True)
    if act == "leave":
        leave(options.state, argument.split())
        print("left", flush=True)
    if act == "binary":
        sys.stdout.buffer.write(bytes(range(256)) * 4)
        sys.stdout.buffer.flush()
    if act == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("ready", flush=True)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main())
