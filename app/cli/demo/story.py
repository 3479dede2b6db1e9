"""The demo's six steps, as somebody in front of GitHub sees them."""

from __future__ import annotations

import asyncio
import re
import time
from dataclasses import dataclass
from typing import Any

from app.cli.demo.github import Simulated
from app.cli.demo.narrator import Narrator
from app.cli.demo.stage import Place, Stage, Stagehand
from app.cli.demo.verify import K, N, Verified, verify_branch
from app.cli.event_lines import say
from app.domain.errors import IssuewrightError

LABEL = "agent"
STEP_TIMEOUT_S = 90.0
_WORK_TREE = re.compile(r"(?:\S*/workspace|\S*/sandboxes/[^/\s]+/work)/")
_PHASES = ("explore", "requirements", "design", "tasks", "sync")
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

    async def tell(self, place: Place) -> tuple[Stage, Outcome]:
        with self._narrator.step(1, "Start GitHub, model, web, worker, Redis"):
            stage = await self._stagehand.build(place)
            self._narrator.note(f"{stage.github.url}  (simulated GitHub)")
            self._narrator.note(f"{stage.app_url}  (Issuewright, {stage.place})")
        with self._narrator.step(2, f"Open an issue and label it {LABEL}"):
            issue = await stage.github.open_issue()
            self._narrator.note(str(issue["html_url"]))
            labeled = time.monotonic()
            await stage.github.label(int(issue["number"]), LABEL)
        with self._narrator.step(3, "Plan: explore, requirements, design, tasks"):
            spec_id = await self._follow_plan(stage)
        with self._narrator.step(4, "Branch and draft pull request"):
            pull = await self._wait(stage, stage.github.find_pull, "a pull request")
            self._narrator.note(f"{pull['head']['ref']}")
            self._narrator.note(str(pull["html_url"]))
        with self._narrator.step(5, "Agents at work, a sandbox for each task"):
            await self._follow_tasks(stage, spec_id)
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

    async def _follow_plan(self, stage: Stage) -> str:
        """Shows each phase when it is done, and the plan; the spec's id."""
        told: set[str] = set()

        async def look() -> dict[str, Any] | None:
            await _require_live(stage)
            found = (await stage.ask("/specs"))["items"]
            if not found:
                return None
            spec: dict[str, Any] = await stage.ask(f"/specs/{found[0]['id']}")
            for phase in spec["phases"]:
                if phase["state"] == "completed" and phase["phase"] not in told:
                    told.add(phase["phase"])
                    self._narrator.note(_phase_line(phase))
            return spec if told.issuperset(_PHASES) else None

        spec = await stage.wait_for(look, "the plan", STEP_TIMEOUT_S)
        return str(spec["id"])

    async def _follow_tasks(self, stage: Stage, spec_id: str) -> None:
        """Shows each task and the tools its agent uses, until all are done."""
        cursors: dict[str, str] = {}

        async def look() -> bool | None:
            await _require_live(stage)
            spec = await stage.ask(f"/specs/{spec_id}")
            titles = {task["id"]: f"{task['key']} {task['title']}" for task in spec["tasks"]}
            for sandbox_id in spec["sandbox_ids"]:
                await self._follow_sandbox(stage, sandbox_id, titles, cursors)
            return True if all(task["state"] == "completed" for task in spec["tasks"]) else None

        await stage.wait_for(look, "the end of the agents' work", STEP_TIMEOUT_S)

    async def _follow_sandbox(
        self, stage: Stage, sandbox_id: str, titles: dict[str, str], cursors: dict[str, str]
    ) -> None:
        if sandbox_id not in cursors:
            task_id = (await stage.ask(f"/sandboxes/{sandbox_id}"))["task_id"]
            if task_id is None:
                return  # it planned
            cursors[sandbox_id] = ""
            self._narrator.note(_short(titles.get(task_id, task_id)))
        query = {"cursor": cursors[sandbox_id]} if cursors[sandbox_id] else {}
        page = await stage.ask(
            f"/sandboxes/{sandbox_id}/events", limit=200, event_type="agent.tool_use", **query
        )
        for event in page["items"]:
            cursors[sandbox_id] = str(event["seq"])
            self._narrator.note(f"  {_short(say(event))}")

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


async def _ready_pull(github: Simulated) -> dict[str, Any] | None:
    pull = await github.find_pull()
    return pull if pull is not None and not pull["draft"] else None


def _phase_line(phase: dict[str, Any]) -> str:
    """`requirements  2 requirements, quality 0.84`."""
    output = phase["output"] or {}
    count = next(
        (len(output[name]) for name in ("requirements", "components", "tasks") if name in output), None
    )
    words = [] if count is None else [f"{count} {'components' if 'components' in output else phase['phase']}"]
    if phase["score"] is not None:
        words.append(f"quality {phase['score']:.2f}")
    return f"{phase['phase']:<14}{', '.join(words) or 'coverage, order and conflicts checked'}"


def _short(text: str, width: int = 72) -> str:
    """Paths as seen from the work tree, wherever the sandbox has it, and the whole no wider than a terminal."""
    text = _WORK_TREE.sub("", text)
    return text if len(text) <= width else text[: width - 1] + "…"
