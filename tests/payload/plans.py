"""Planning sandboxes for tests: their brief, and scripts of the scripted model's own planning scenarios."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

from app.domain.spec import PHASE_MODELS, phase_schema
from sandbox_payload.wire.plan import AGENT_PHASES
from simulators.model.scenarios import SCENARIOS
from tests.payload.sandbox import Sandbox, ask_model

PHASES = [str(phase) for phase in AGENT_PHASES]
_gates = itertools.count(1)


def planning_brief(**more: Any) -> dict[str, Any]:
    orders = [
        {
            "name": phase,
            "version": PHASE_MODELS[phase].VERSION,
            "instructions": f"Phase: {phase}\nHand it in with the tool submit_{phase}.",
            "output_schema": phase_schema(phase),
        }
        for phase in AGENT_PHASES
    ]
    return {"task_id": None, "phase": "explore", "phases": orders, **more}


def scenario(name: str, **phases: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """The built-in scenario with gates of its own (`gate_of`) and `phases` played instead of what is there."""
    text = SCENARIOS[name].model_dump_json()
    number = next(_gates)
    for gate in (*(f"plan-{phase}" for phase in PHASES), "plan-extra"):
        text = text.replace(f'"{gate}"', f'"{gate}-{os.getpid()}-{number}"')
    script: dict[str, Any] = json.loads(text)
    for phase, turns in phases.items():
        chapter = next(found for found in script["chapters"] if f" {phase}\\" in found["match"])
        chapter["turns"] = turns
    return script


def gate_of(script: dict[str, Any], phase: str) -> str:
    """The gate before the output of `phase`."""
    chapter = next(found for found in script["chapters"] if f" {phase}\\" in found["match"])
    return next(step["gate"] for turn in chapter["turns"] for step in turn if step["gate"])


def open_gate(one: Sandbox, gate: str) -> None:
    ask_model(one.model_url, f"/_sim/gates/{gate}/open", {})


def waits_at(one: Sandbox, gate: str) -> bool:
    gates = ask_model(one.model_url, "/_sim/gates")["gates"]
    return any(found["waiting"] for found in gates if found["name"] == gate)


def chapters_asked(one: Sandbox, after: int = 0) -> list[int]:
    """The chapter (1 = explore) of every request to the model after number `after`, repeats left out."""
    entries = ask_model(one.model_url, f"/_sim/requests?body=0&scenario={one.scenario}")["requests"]
    steps = [entry["step"] for entry in entries if entry["number"] > after and entry["step"].startswith("t")]
    numbers = [int(step[1:].partition("s")[0]) // 1000 for step in steps]
    return [number for number, _ in itertools.groupby(numbers)]


def last_request(one: Sandbox) -> int:
    entries = ask_model(one.model_url, f"/_sim/requests?body=0&scenario={one.scenario}")["requests"]
    return max((entry["number"] for entry in entries), default=0)


def submitted(phase: str, output: dict[str, Any]) -> dict[str, Any]:
    return {"tool_use": [{"name": f"mcp__issuewright__submit_{phase}", "input": output}]}
