"""ASGI front of the control API: ``POST /_sim/AREA/VERB`` with a JSON object of arguments."""

import importlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from simulators.github.clock import iso, iso_or_none
from simulators.github.control_api.registry import ACTIONS, Simulation
from simulators.github.deliveries import Delivery
from simulators.github.git import GitError

if TYPE_CHECKING:
    from simulators.github.simulator import GitHubSimulator

AREAS = ("accounts", "repositories", "installations", "issues", "pulls", "reviews", "checks", "faults")


class ControlFront:
    """Answers control requests. No authentication: it is for the one who started the simulator."""

    def __init__(self, simulator: "GitHubSimulator") -> None:
        for area in AREAS:
            importlib.import_module(f"simulators.github.control_api.{area}")
        self.simulation = Simulation(
            simulator.platform, simulator.faults, simulator.journal, simulator.limits
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        request = Request(scope, receive)
        try:
            status, body = 200, await self._answer(request)
        except (LookupError, ValueError, TypeError, GitError) as problem:
            status, body = 422, {"error": f"{type(problem).__name__}: {problem}"}
        await JSONResponse(body, status)(scope, receive, send)

    async def _answer(self, request: Request) -> Any:
        name = request.url.path.removeprefix("/_sim/")
        if request.method == "GET":
            return self._read(name, request)
        action = ACTIONS.get(name)
        if action is None:
            raise LookupError(f"no action {name}")
        raw = await request.body()
        given = json.loads(raw) if raw else {}
        bound = inspect.signature(action).bind(self.simulation, **given)
        return action(*bound.args, **bound.kwargs)

    def _read(self, name: str, request: Request) -> Any:
        query = request.query_params
        journal = self.simulation.journal
        if name == "requests":
            return journal.select(query.get("kind"), query.get("method"), int(query.get("after", "0")))
        if name == "writes":
            after = int(query.get("after", "0"))
            return [dict(vars(entry)) for entry in journal.writes() if entry.number > after]
        if name == "deliveries":
            outbox, after = self.simulation.platform.outbox, int(query.get("after", "0"))
            newer = [one for one in outbox.deliveries.values() if one.id > after]
            return [shown(one) for one in newer if is_chosen(one, query)]
        if name == "faults":
            return [asdict(rule) for rule in self.simulation.faults.rules]
        if name == "state":
            return self.simulation.state()
        if name == "repository":
            return self.simulation.repository_state(query["full_name"])
        if name == "pending_deliveries":
            return self.simulation.platform.outbox.pending()
        if name == "refs":
            return self.simulation.refs(query["full_name"])
        if name == "check_runs":
            return self.simulation.check_runs(query["full_name"])
        if name == "issue":
            return self.simulation.issue_state(query["full_name"], int(query["number"]))
        raise LookupError(f"nothing to read at {name}")


def is_chosen(delivery: Delivery, query: Mapping[str, str]) -> bool:
    """Whether the delivery is what the query asks for, by any of its names."""
    return all(
        query.get(name) in {None, str(getattr(delivery, name))}
        for name in ("installation_id", "repository_id", "state", "event", "action")
    )


def shown(delivery: Delivery) -> dict[str, Any]:
    """A delivery with everything known of it."""
    times = {"created_at": iso(delivery.created_at), "delivered_at": iso_or_none(delivery.delivered_at)}
    return {**vars(delivery), **times}  # No deep copies: it is written out at once.
