"""The application: the Messages API's two routes, and `/_sim/…` for whoever runs the test."""

import hmac
import json
from collections import OrderedDict
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from simulators.model import wire
from simulators.model.answering import failure, respond
from simulators.model.choosing import Asked, Chosen, FaultCounts, choose, render, rule_fault
from simulators.model.conversation import classify, parse_messages, quoted_scenario, scenario_line, session_of
from simulators.model.gates import Gates
from simulators.model.request_log import Entry, RequestLog, credentials_in
from simulators.model.scenarios import SCENARIOS
from simulators.model.script import Fault, FaultRule, Script

DEFAULT_SCENARIO = "binomial"
# A name that is retired whatever the scenario, as a real API knows no scenarios either.
RETIRED_MODELS = FaultRule(
    model="^claude-retired", fault=Fault(kind="status", status=404, message="model: {model}", times=None)
)
_MAX_SESSIONS = 10_000
_FILTERS = ("scenario", "session", "agent", "kind")


class ModelSimulator:
    """One scripted model. `app` is its ASGI application; the methods are what `/_sim/…` offers."""

    def __init__(self, api_key: str, default: str = DEFAULT_SCENARIO) -> None:
        self._api_key = api_key
        self._default = default
        self._scripts: dict[str, Script] = dict(SCENARIOS)
        self._rules: list[FaultRule] = []
        self._counts = FaultCounts()
        self._session_scenarios: OrderedDict[str, str] = OrderedDict()
        self.log = RequestLog()
        self.gates = Gates()
        if default not in self._scripts:
            raise ValueError(f"no scenario named {default}")
        self.app = self._build()

    def define(self, name: str, script: Script | dict[str, Any]) -> None:
        """Add or replace a scenario; raises pydantic's ValidationError for data that is no script."""
        self._scripts[name] = script if isinstance(script, Script) else Script.model_validate(script)
        self._counts.clear(name)

    def add_fault(self, rule: FaultRule | dict[str, Any]) -> None:
        """Let a fault strike requests of any scenario, before scripts are looked at."""
        self._rules.append(rule if isinstance(rule, FaultRule) else FaultRule.model_validate(rule))

    def clear_faults(self) -> None:
        """Forget all rules given to `add_fault`, and how often any fault has struck."""
        self._rules.clear()
        self._counts.clear()

    def requests(self, *, with_body: bool = True, **wanted: str) -> list[dict[str, Any]]:
        """Logged requests; `wanted` filters by `scenario`, `session`, `agent`, `kind`."""
        return [entry.to_json(with_body=with_body) for entry in self.log.select(**wanted)]

    def _build(self) -> Starlette:
        routes = []
        for prefix in ("", "/s/{scenario}"):
            routes.append(Route(f"{prefix}/v1/messages", self._messages, methods=["POST"]))
            routes.append(Route(f"{prefix}/v1/messages/count_tokens", self._count_tokens, methods=["POST"]))
        routes += [
            Route("/v1/models", self._models),
            Route("/_sim/health", self._health),
            Route("/_sim/requests", self._requests, methods=["GET", "DELETE"]),
            Route("/_sim/gates", self._list_gates),
            Route("/_sim/gates/{name}/{action:str}", self._move_gate, methods=["POST"]),
            Route("/_sim/scripts", self._list_scripts),
            Route("/_sim/scripts/{name}", self._script, methods=["GET", "POST"]),
            Route("/_sim/faults", self._faults, methods=["GET", "POST", "DELETE"]),
        ]
        missing = {404: self._not_found, 405: self._not_found}
        return Starlette(routes=routes, exception_handlers=missing)

    # --- the Messages API ---

    async def _messages(self, request: Request) -> Response:
        raw = await request.body()
        entry = self._record(request, raw)
        asked = self._read(request, raw, entry)
        if isinstance(asked, Response):
            return asked
        script = self._scripts[asked.scenario]
        chosen = self._choose(script, asked)
        entry.step, entry.fault = chosen.label, chosen.fault.kind if chosen.fault else None
        return respond(render(chosen, asked), chosen.step, chosen.fault, self.gates, entry)

    def _choose(self, script: Script, asked: Asked) -> Chosen:
        ruled = self._common_fault(asked)
        ruled = ruled or rule_fault(script.faults, asked.scenario, asked, self._counts)
        # A rule's fault leaves the step's own faults unspent, so the script is asked with counts of its own.
        chosen = choose(script, asked, FaultCounts() if ruled else self._counts)
        return (
            chosen
            if ruled is None
            else Chosen(chosen.step, chosen.label, chosen.place, chosen.position, ruled)
        )

    def _common_fault(self, asked: Asked) -> Fault | None:
        retired = rule_fault([RETIRED_MODELS], "", asked, self._counts)
        return retired or rule_fault(self._rules, "", asked, self._counts)

    async def _count_tokens(self, request: Request) -> Response:
        raw = await request.body()
        entry = self._record(request, raw)
        asked = self._read(request, raw, entry)
        if isinstance(asked, Response):
            return asked
        entry.kind = "count_tokens"
        fault = self._common_fault(asked)
        if fault is not None and fault.kind == "status":
            entry.fault = fault.kind
            return failure(fault, asked.model, entry)
        return _answer(entry, 200, {"input_tokens": wire.count_tokens(len(raw))})

    async def _models(self, request: Request) -> Response:
        """One model, whichever is asked for by name later."""
        entry = self._record(request, b"")
        listed = {"data": [{"type": "model", "id": "scripted"}], "has_more": False}
        return self._check_key(request, entry) or _answer(entry, 200, listed)

    def _record(self, request: Request, raw: bytes) -> Entry:
        return self.log.add(request.method, request.url.path, dict(request.headers), raw)

    def _check_key(self, request: Request, entry: Entry) -> Response | None:
        _, key = credentials_in(dict(request.headers))
        if key is not None and hmac.compare_digest(key.encode(), self._api_key.encode()):
            return None
        return _answer(entry, 401, wire.error_body(401, "invalid x-api-key"))

    def _read(self, request: Request, raw: bytes, entry: Entry) -> Asked | Response:
        refused = self._check_key(request, entry)
        if refused is not None:
            return refused
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("messages"), list) or not body["messages"]:
            return _answer(entry, 400, wire.error_body(400, "messages: Field required"))
        messages = parse_messages(body)
        session = session_of(body, request.headers.get("x-claude-code-session-id")) or ""
        agent = request.headers.get("x-claude-code-agent-id")
        kind = classify(body, messages)
        named = quoted_scenario(messages) if kind == "verdict" else scenario_line(messages)
        scenario = self._scenario(request.path_params.get("scenario") or named, session, agent)
        entry.kind, entry.scenario, entry.session, entry.agent = kind, scenario, session or None, agent
        entry.model = str(body.get("model", ""))
        if scenario not in self._scripts:
            return _answer(entry, 404, wire.error_body(404, f"no scenario named {scenario}"))
        return Asked(kind, scenario, session, agent, body, len(raw), messages)

    def _scenario(self, named: str | None, session: str, agent: str | None) -> str:
        """The scenario's name; a subagent that names none plays the one of its session."""
        if named is None:
            return self._session_scenarios.get(session, self._default) if agent else self._default
        if session and agent is None:
            self._session_scenarios[session] = named
            if len(self._session_scenarios) > _MAX_SESSIONS:
                self._session_scenarios.popitem(last=False)
        return named

    async def _not_found(self, request: Request, _: Exception) -> Response:
        if request.url.path.startswith("/_sim/"):
            return JSONResponse({"error": "not found"}, 404)
        entry = self._record(request, await request.body())
        return _answer(entry, 404, wire.error_body(404, f"Not found: {request.method} {request.url.path}"))

    # --- the test's side ---

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok", "default": self._default, "requests": len(self.log.select())})

    async def _requests(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.log.clear()
            return Response(status_code=204)
        query = request.query_params
        wanted = {name: query[name] for name in _FILTERS if name in query}
        return JSONResponse({"requests": self.requests(with_body=query.get("body") != "0", **wanted)})

    async def _list_gates(self, _: Request) -> Response:
        return JSONResponse({"gates": self.gates.to_json()})

    async def _move_gate(self, request: Request) -> Response:
        move = {"open": self.gates.open, "close": self.gates.close}.get(request.path_params["action"])
        if move is None:
            return JSONResponse({"error": "a gate can be opened or closed"}, 404)
        move(request.path_params["name"])
        return Response(status_code=204)

    async def _list_scripts(self, _: Request) -> Response:
        return JSONResponse({"scripts": {name: script.summary for name, script in self._scripts.items()}})

    async def _script(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "POST":
            try:
                self.define(name, Script.model_validate_json(await request.body()))
            except ValidationError as error:
                return JSONResponse({"error": str(error)}, 422)
            return Response(status_code=204)
        if name not in self._scripts:
            return JSONResponse({"error": f"no scenario named {name}"}, 404)
        return JSONResponse(self._scripts[name].model_dump())

    async def _faults(self, request: Request) -> Response:
        if request.method == "DELETE":
            self.clear_faults()
            return Response(status_code=204)
        if request.method == "POST":
            try:
                self.add_fault(FaultRule.model_validate_json(await request.body()))
            except ValidationError as error:
                return JSONResponse({"error": str(error)}, 422)
            return Response(status_code=204)
        return JSONResponse({"faults": TypeAdapter(list[FaultRule]).dump_python(self._rules)})


def _answer(entry: Entry, status: int, body: dict[str, Any]) -> Response:
    entry.status = status
    entry.end("complete")
    return JSONResponse(body, status, {"request-id": f"req_{entry.number}"})
