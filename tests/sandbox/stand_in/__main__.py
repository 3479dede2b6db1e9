"""Runs inside the sandbox under test. The act's name is prompt.md's text; what it finds goes to state/report.json."""

# It walks a whole machine by names, where Path objects cost more than they tell.
# ruff: noqa: PTH101, PTH102, PTH112, PTH202, PTH208

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from sandbox_payload.held import await_release

HOST_PLACES = (
    "/root",
    "/home",
    "/etc/shadow",
    "/etc/resolv.conf",
    "/var",
    "/opt",
    "/run/docker.sock",
    "/mnt",
)


class Inside:
    def __init__(self, inputs: Path, state: Path, workspace: Path) -> None:
        self.inputs, self.state, self.workspace = inputs, state, workspace

    def report(self, **facts: object) -> None:
        new = self.state / ".report.json"
        new.write_text(json.dumps(facts))
        new.rename(self.state / "report.json")

    # ---------------------------------------------------------------- acts

    def look(self) -> int:
        head = subprocess.run(
            ["git", "log", "-1", "--format=%H %D"],
            cwd=self.workspace,
            capture_output=True,
            text=True,
            check=False,
        )
        status = subprocess.run(
            ["git", "status", "--porcelain"], cwd=self.workspace, capture_output=True, text=True, check=False
        )
        unshare = subprocess.run(["unshare", "-U", "true"], capture_output=True, check=False)
        self.report(
            environment=dict(os.environ),
            token=Path(os.environ["SANDBOX_TOKEN_FILE"]).read_text(),
            user=os.getuid(),
            head=head.stdout.strip(),
            git_trouble=head.stderr + status.stderr,
            status=status.stdout,
            pids=[name for name in os.listdir("/proc") if name.isdigit()],
            places={place: _list(place) for place in HOST_PLACES},
            writable=[place for place in ("/", "/usr", "/etc", "/dev", "/inputs", "/run/issuewright/app", "/opt")
                      if _can_write(Path(place))],
            nested_namespaces=unshare.returncode == 0,
            capabilities=[line for line in Path("/proc/self/status").read_text().splitlines()
                          if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))],
        )  # fmt: skip
        print("looked")
        return 0

    def hunt(self) -> int:
        """Every byte that can be read here: which files hold a word that the test planted on the host?"""
        needle = bytes.fromhex((self.inputs / "system.md").read_text())
        roots = [
            path
            for path in os.listdir("/")
            if path not in {"usr", "sys", "dev", "bin", "lib", "lib64", "sbin"}
        ]
        # The needle goes in by a pipe, so that no command line holds it; these files never end.
        command = [
            "grep",
            "-rlsaF",
            "--devices=skip",
            *(f"--exclude={name}" for name in ("kmsg", "clear_refs", "pagemap", "mem")),
            "-f",
            "-",
            *roots,
        ]
        done = subprocess.run(command, cwd="/", input=needle, capture_output=True, check=False)
        found = sorted(done.stdout.decode().splitlines())
        self.report(
            found=found, environment=[key for key, value in os.environ.items() if needle.decode() in value]
        )
        return 0

    def reach(self) -> int:
        ports = json.loads((self.inputs / "system.md").read_text())
        self.report(
            loopback=_connects(("127.0.0.1", ports["loopback"])),
            metadata=_connects(("169.254.169.254", 80)),
            outside=_connects(("192.0.2.1", 443)),
            interfaces=[name for _, name in socket.if_nameindex()],
            app=_get(os.environ["CALLBACK_URL"] + "/hello"),
            model=_get(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"),
            proxy=_ask_proxy() if "HTTPS_PROXY" in os.environ else None,
        )
        return 0

    def ask_again(self) -> int:
        """Asks the app until it has answered twice with different words."""
        answers: list[str] = []
        while len(set(answers)) < 2:
            answer = _get(os.environ["CALLBACK_URL"] + "/hello")
            if answer is not None:
                answers.append(answer)
                self.report(answers=sorted(set(answers)))
            time.sleep(0.02)
        return 0

    def wait(self) -> int:
        signal.signal(signal.SIGTERM, self._wrap_up)
        grandchild = subprocess.Popen(["setsid", "sleep", "397"])
        self.report(grandchild=grandchild.pid)
        print("waiting")
        time.sleep(300)
        return 0

    def _wrap_up(self, *_: object) -> None:
        (self.state / "wrapped-up").touch()
        sys.exit(143)

    def ignore(self) -> int:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.report(ready=True)
        time.sleep(300)
        return 0

    def fail(self) -> int:
        print("no such luck", file=sys.stderr)
        return 10

    def flood(self) -> int:
        line = b"x" * 1023 + b"\n"
        for _ in range(20_000):
            os.write(1, line)
        print("the last line")
        return 0

    def bomb(self) -> int:
        """Every process makes two more, 511 in all: more than allowed, few enough for a machine to bear."""
        for _ in range(8):
            try:
                if os.fork() > 0 and os.fork() > 0:
                    break
            except OSError:
                break
        time.sleep(300)
        return 0

    def eat_memory(self) -> int:
        kept = [bytearray(os.urandom(1) * 4_000_000) for _ in range(100)]
        time.sleep(300)
        return len(kept)

    def fill_disk(self) -> int:
        for number in range(100):
            (self.workspace / f"piece-{number}").write_bytes(os.urandom(4_000_000))
        time.sleep(300)
        return 0

    def dig(self) -> int:
        """A tree that is deeper than paths may be long, with a directory nobody may enter."""
        os.chdir(self.workspace)
        for _ in range(1500):
            os.mkdir("deep")
            os.chdir("deep")
        os.mkdir("closed", 0o700)
        Path("closed/file").touch()
        os.chmod("closed", 0)
        self.report(done=True)
        return 0


def _list(place: str) -> list[str] | None:
    try:
        return sorted(os.listdir(place)) if os.path.isdir(place) else [f"{os.path.getsize(place)} bytes"]
    except OSError:
        return None


def _can_write(place: Path) -> bool:
    try:
        (place / "written").touch()
    except OSError:
        return False
    return True


def _connects(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address, timeout=1).close()
    except OSError:
        return False
    return True


def _get(url: str) -> str | None:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=3) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
    except (OSError, urllib.error.URLError):
        return None


def _ask_proxy() -> str:
    port = int(os.environ["HTTPS_PROXY"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=3) as connection:
        connection.sendall(b"CONNECT packages.example:443 HTTP/1.1\r\nHost: packages.example:443\r\n\r\n")
        return connection.recv(1000).decode()


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("--inputs", "--state", "--workspace"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--held", action="store_true")
    options = parser.parse_args()
    if options.held:
        os.environ.update(await_release(options.state / "loaded"))
    inside = Inside(options.inputs, options.state, options.workspace)
    act = (options.inputs / "prompt.md").read_text()
    return int(getattr(inside, act)())


if __name__ == "__main__":
    sys.exit(main())
