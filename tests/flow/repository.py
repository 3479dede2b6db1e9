"""One simulated repository as people see it, and the waiting for the product to come to rest in it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.flow.world import World

LABEL = "agent:quick"
LIVE = ("queued", "planning", "awaiting_approval", "implementing", "paused")
_OPEN_SPEC = """
    select s.id from spec s where s.repo_id = ? and (
        (s.concluded_at is null and (
            s.stepped_version < s.version or s.lease_until_at > {now}))
        or (s.state in ('failed', 'cancelled', 'completed') and s.concluded_at is null)
        or s.state in ('queued', 'planning', 'implementing')
        or (s.state = 'in_review' and s.pull_ready_at is null)
        or exists (select 1 from sandbox b where b.spec_id = s.id and b.removed_at is null))
"""


@dataclass
class Repository:
    """Everything a test does to and reads from its repository. Reads are GitHub's own JSON."""

    world: World
    name: str
    id: int
    path: Path
    installation_id: int = 0
    _numbers: list[int] = field(default_factory=list)

    # ------------------------------------------------------------ what people do

    def install(self) -> None:
        owner = self.name.split("/")[0]
        made = self.world.github.install(int(self.world.github_app["id"]), owner, by="alice")
        self.installation_id = int(made["id"])

    def open_issue(
        self,
        scenario: str = "",
        *,
        title: str = "Do the thing",
        body: str | None = None,
        labels: Any = (),
        by: str = "alice",
    ) -> int:
        """The issue's number. `scenario` names what the model plays."""
        text = body if body is not None else f"Please.\n\nscenario: {scenario or 'edit_readme'}\n"
        number = int(self.world.github.open_issue(self.name, by, title, text, labels=list(labels))["number"])
        self._numbers.append(number)
        return number

    def label(self, number: int, by: str = "alice", label: str = LABEL) -> None:
        self.world.github.add_labels(self.name, number, by, label)

    def unlabel(self, number: int, by: str = "alice", label: str = LABEL) -> None:
        self.world.github.remove_label(self.name, number, by, label)

    def start(self, scenario: str = "", *, label_by: str = "alice", **issue: Any) -> int:
        """Open and label an issue."""
        number = self.open_issue(scenario, **issue)
        self.label(number, label_by)
        return number

    def run(self, scenario: str = "", **issue: Any) -> int:
        """Open and label an issue, and wait until the product is at rest."""
        number = self.start(scenario, **issue)
        self.rest()
        return number

    # ------------------------------------------------------------ what people see

    def now(self) -> dict[str, Any]:
        return self.world.github.repo(self.name)

    def issue(self, number: int) -> dict[str, Any]:
        return self.world.github.issue(self.name, number)

    def labels_made(self) -> list[str]:
        """Labels the App has created here."""
        return sorted(
            str(e["body"]["name"]) for e in self.writes() if e["path"].endswith(f"{self.name}/labels")
        )

    def comments(self, number: int) -> list[str]:
        return [str(one["body"]) for one in self.issue(number)["comment_list"]]

    def status(self, number: int) -> str:
        """The text of the only status comment of the issue."""
        found = [text for text in self.comments(number) if "part=status" in text]
        assert len(found) == 1, f"{len(found)} status comments: {found}"
        return found[0]

    def pulls(self) -> list[dict[str, Any]]:
        return self.world.github.pulls(self.name)

    def pull(self) -> dict[str, Any]:
        """The only pull request of the repository."""
        found = self.pulls()
        assert len(found) == 1, f"{len(found)} pull requests"
        return found[0]

    def checks(self) -> dict[str, str | None]:
        """Conclusion by head; fails when a head has two check runs."""
        runs = self.now()["check_runs"]
        by_head = {str(run["head_sha"]): run["conclusion"] for run in runs}
        assert len(by_head) == len(runs), "a head has two check runs"
        return by_head

    def check(self) -> dict[str, Any]:
        """The check run on the pull request's head."""
        head = self.pull()["head"]["sha"]
        return next(dict(run) for run in self.now()["check_runs"] if run["head_sha"] == head)

    def branches(self) -> set[str]:
        return {
            ref.removeprefix("refs/heads/") for ref in self.now()["refs"] if ref.startswith("refs/heads/")
        }

    def writes(self) -> list[dict[str, Any]]:
        """All successful writes of the App here, git pushes among them (GraphQL names no repository: left out)."""
        return [
            entry for entry in self.world.github.writes()
            if self.name in entry["path"] or f"/repositories/{self.id}/" in entry["path"]
        ]  # fmt: skip

    # ------------------------------------------------------------ git, as a colleague with a clone has it

    def git(self, *arguments: str) -> bytes:
        """Output of a git command in the bare repository."""
        return subprocess.run(
            ["git", "-C", str(self.path), *arguments], check=True, capture_output=True, timeout=30,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        ).stdout  # fmt: skip

    def changed(self, pull: dict[str, Any] | None = None) -> list[str]:
        """Paths the pull request changes."""
        pull = pull or self.pull()
        text = self.git(
            "diff", "--no-renames", "--name-only", f"{pull['base']['sha']}...{pull['head']['sha']}"
        )
        return text.decode().split()

    def file(self, path: str, ref: str | None = None) -> bytes:
        return self.git("cat-file", "blob", f"{ref or self.pull()['head']['sha']}:{path}")

    # ------------------------------------------------------------ waiting

    def rest(self, within_s: float = 100.0) -> None:
        """Until every delivery is taken in, every effect done, every spec settled and every sandbox gone."""
        self.world.wait(self._at_rest, f"{self.name} at rest", within_s)

    def _at_rest(self) -> bool:
        # The database is asked again at the end: a delivery may have come in while GitHub was asked.
        return self._settled() and not self._sending() and self._settled()

    def _sending(self) -> bool:
        return bool(self.world.github.deliveries(state="sending"))

    def _settled(self) -> bool:
        rows = self.world.rows
        waiting = "select id from delivery where state = 'received' and (repo_id = ? or repo_id is null)"
        effects = "select id from effect where state = 'pending' and repo_id = ?"
        return not (
            rows(waiting, self.id)
            or rows(effects, self.id)
            or rows(_OPEN_SPEC.format(now=self.world.sql_now), self.id)
        )

    def wait_status(self, number: int, words: str, within_s: float = 100.0) -> str:
        """Until the status comment has those words; its text."""

        def look() -> str | None:
            found = [text for text in self.comments(number) if "part=status" in text and words in text]
            return found[0] if found else None

        return self.world.wait(look, f"status with {words!r}", within_s)

    def wait_gate(self, name: str, within_s: float = 100.0) -> None:
        """Until an answer of the model waits at the gate: the agent is in the middle of its work."""

        def look() -> bool:
            gates = self.world.model.get("/_sim/gates").json()["gates"]
            return any(gate["name"] == name and gate["waiting"] for gate in gates)

        self.world.wait(look, f"gate {name}", within_s)

    def poke(self) -> None:
        """Something happens that is not our business; returns when the product has heard of it and is at rest."""
        self.world.github.create_label(
            self.name, "alice", f"other-{len(self.now()['issues'])}-{len(self.writes())}"
        )
        number = self.open_issue(title="Another matter", body="Nothing to do here.")
        self.world.github.comment(self.name, number, "bob", "Just talking.")
        self.rest()

    def report(self) -> str:
        """What a failed test shows of this repository."""
        parts = [f"=== {self.name}"]
        for row in self.world.rows("select * from spec where repo_id = ?", self.id):
            parts.append("spec " + json.dumps({k: v for k, v in row.items() if v is not None}, default=str))
            events = self.world.rows(
                "select e.event_type, substr(cast(e.event_data as text), 1, 300) as data from event e join sandbox b "
                "on b.id = e.sandbox_id where b.spec_id = ? order by e.seq desc limit 12", row["id"],
            )  # fmt: skip
            parts += [f"  {one['event_type']} {one['data']}" for one in reversed(events)]
        for number in self._numbers:
            parts += [f"--- comment on #{number}\n{text}" for text in self.comments(number)]
        for row in self.world.rows(
            "select event, action, state, intent, reason from delivery where repo_id = ?", self.id
        ):
            parts.append(f"delivery {row}")
        return "\n".join(parts)
