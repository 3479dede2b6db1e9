"""The demo's six steps, as somebody in front of GitHub sees them."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

from app.cli.demo.github import Simulated
from app.cli.demo.narrator import Narrator
from app.cli.demo.stage import Stage, Stagehand
from app.cli.demo.verify import K, N, Verified, verify_branch
from app.cli.event_lines import say
from app.domain.errors import IssuewrightError

LABEL = "agent:quick"
STEP_TIMEOUT_S = 90.0
_WORK_TREE = re.compile(r"(?:/workspace|\S*/sandboxes/[^/\s]+/work)/")
_ENDED = frozenset({"failed", "cancelled"})


@dataclass(frozen=True)
class Outcome:
    """All that the contract's JSON object says, and the addresses for people."""

    issue: int
    issue_url: str
    pull: dict[str, Any]
    spec: dict[str, Any]
    verified: Verified
    events: int
    github_writes: int
    label_to_first_model_call_s: float

    def as_json(self, total_s: float) -> dict[str, Any]:
        return {
            "ok": True,
            "issue": self.issue,
            "pull_request": self.pull["number"],
            "branch": self.pull["head"]["ref"],
            "head_sha": self.verified.head_sha,
            "files": self.verified.files,
            "result": self.verified.result,
            "spec_id": self.spec["id"],
            "task_ids": [task["id"] for task in self.spec["tasks"]],
            "sandbox_ids": self.spec["sandbox_ids"],
            "events": self.events,
            "github_writes": self.github_writes,
            "seconds": {
                "label_to_first_model_call": round(self.label_to_first_model_call_s, 3),
                "total": round(total_s, 3),
            },
        }


class Story:
    """One run. `tell` raises IssuewrightError saying what did not come about."""

    def __init__(self, stagehand: Stagehand, narrator: Narrator) -> None:
        self._stagehand = stagehand
        self._narrator = narrator

    async def tell(self, sandbox: str) -> tuple[Stage, Outcome]:
        with self._narrator.step(1, "Start GitHub, model, web, worker, Redis"):
            stage = await self._stagehand.build(sandbox)
            self._narrator.note(f"{stage.github.url}  (simulated GitHub)")
            self._narrator.note(f"{stage.app_url}  (Issuewright, {stage.sandbox} sandbox)")
        with self._narrator.step(2, f"Open an issue and label it {LABEL}"):
            issue = await stage.github.open_issue()
            self._narrator.note(str(issue["html_url"]))
            labeled = time.monotonic()
            await stage.github.label(int(issue["number"]), LABEL)
        with self._narrator.step(3, "Branch and draft pull request"):
            pull = await self._wait(stage, stage.github.find_pull, "a pull request")
            start_sha = str(pull["head"]["sha"])
            self._narrator.note(f"{pull['head']['ref']}")
            self._narrator.note(str(pull["html_url"]))
            spec_id = str((await stage.ask("/specs"))["items"][0]["id"])
        with self._narrator.step(4, "Agent at work in its sandbox"):
            await self._follow_agent(stage, spec_id)
        with self._narrator.step(5, "Result checked and pushed"):
            pull = await self._wait(stage, lambda: _moved(stage.github, start_sha), "a push")
            self._narrator.note(f"{pull['head']['ref']} is at {pull['head']['sha'][:10]}")
        with self._narrator.step(6, "Pull request ready, its code computes"):
            pull = await self._wait(stage, lambda: _ready_pull(stage.github), "ready for review")
            verified = await verify_branch(
                f"{stage.github.url}/{pull['base']['repo']['full_name']}.git",
                str(pull["head"]["ref"]),
                str(pull["base"]["ref"]),
                stage.home / "clone",
            )
            self._narrator.note(f"C({N},{K}) = {verified.result}  by {verified.source} of the branch")
        return stage, await self._sum_up(stage, issue, labeled, pull, spec_id, verified)

    async def _wait(self, stage: Stage, look: Any, what: str) -> dict[str, Any]:
        async def look_again() -> dict[str, Any] | None:
            found: dict[str, Any] | None = await look()
            if found is None:
                await _require_live(stage)
            return found

        return await stage.wait_for(look_again, what, STEP_TIMEOUT_S)

    async def _follow_agent(self, stage: Stage, spec_id: str) -> None:
        """Shows each tool as it is used, until the first round is over."""
        cursors: dict[str, str] = {}

        async def look() -> bool | None:
            await _require_live(stage)
            done = None
            for sandbox_id in (await stage.ask(f"/specs/{spec_id}"))["sandbox_ids"]:
                query = {"cursor": cursors[sandbox_id]} if sandbox_id in cursors else {}
                page = await stage.ask(f"/sandboxes/{sandbox_id}/events", limit=200, **query)
                for event in page["items"]:
                    cursors[sandbox_id] = str(event["seq"])
                    if event["event_type"] == "agent.tool_use":
                        self._narrator.note(_short(say(event)))
                    if event["event_type"] in {"agent.waiting", "agent.completed"}:
                        done = True
            return done

        await stage.wait_for(look, "the end of the agent's work", STEP_TIMEOUT_S)

    async def _sum_up(
        self,
        stage: Stage,
        issue: dict[str, Any],
        labeled: float,
        pull: dict[str, Any],
        spec_id: str,
        verified: Verified,
    ) -> Outcome:
        spec = await stage.ask(f"/specs/{spec_id}")
        sandboxes = await asyncio.gather(*(stage.ask(f"/sandboxes/{one}") for one in spec["sandbox_ids"]))
        calls = await stage.model_calls()
        if not calls:
            raise IssuewrightError("the model was never asked")
        return Outcome(
            issue=int(issue["number"]),
            issue_url=str(issue["html_url"]),
            pull=pull,
            spec=spec,
            verified=verified,
            events=sum(int(one["last_seq"]) for one in sandboxes),
            github_writes=await stage.github.count_writes(),
            label_to_first_model_call_s=min(calls) - labeled,
        )


async def _require_live(stage: Stage) -> None:
    """Raises IssuewrightError with the reason when the spec has ended badly: waiting on would be in vain."""
    for spec in (await stage.ask("/specs"))["items"]:
        if spec["state"] in _ENDED:
            full = await stage.ask(f"/specs/{spec['id']}")
            raise IssuewrightError(
                f"the spec is {spec['state']} ({full['outcome']}): {full['outcome_detail']}"
            )


async def _moved(github: Simulated, start_sha: str) -> dict[str, Any] | None:
    pull = await github.find_pull()
    return pull if pull is not None and pull["head"]["sha"] != start_sha else None


async def _ready_pull(github: Simulated) -> dict[str, Any] | None:
    pull = await github.find_pull()
    return pull if pull is not None and not pull["draft"] else None


def _short(text: str, width: int = 72) -> str:
    """Paths as seen from the work tree, wherever the sandbox has it, and the whole no wider than a terminal."""
    text = _WORK_TREE.sub("", text)
    return text if len(text) <= width else text[: width - 1] + "…"
