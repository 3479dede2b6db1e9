"""A model is asked now and then whether running agents work on their tasks. Off unless the operator names one.

What it says is left for the guardian's next look, which treats it as a finding of its rules: a reminder, and after three
of them a pause. A worker that dies in between loses the answer and nothing else: the cost is counted before the call, and
the agent is not asked about again before it has called as many tools once more.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app.db.model_calls import Settlement
from app.db.verdicts import Due, Price, claim_verdict, list_due_verdicts, list_shown, record_verdict
from app.domain.model_price import cost_usd, input_ceiling_usd, output_usd
from app.domain.verdict import MAX_EVENTS, MAX_OUTPUT_TOKENS, Answered, parse_answer, render_question
from app.observability.crashpoints import crashpoint
from worker.parts import Parts, VerdictRules
from worker.supervise.model_door import LONGEST_CALL_S, ModelDoor, Reply

log = structlog.get_logger("worker.verdicts")

MAX_DUE = 200
AT_ONCE = 4
"""Agents that one worker asks about in one look."""
WAITED_FOR = timedelta(seconds=LONGEST_CALL_S + 30)
"""Longer than any call: after that its worker is dead, and another may ask."""


class Verdicts:
    """`longest_call_s`: after so long a call counts as not answered."""

    def __init__(self, parts: Parts, rules: VerdictRules, longest_call_s: float = LONGEST_CALL_S) -> None:
        self._parts = parts
        self._rules = rules
        self._door = ModelDoor(parts, rules, longest_call_s)

    async def look(self) -> int:
        """How many calls were made. Any number of workers may look at once: each call is claimed."""
        async with self._parts.db.read() as session:
            due = await list_due_verdicts(session, self._rules.every, self._parts.clock(), MAX_DUE)
        # What an agent does about a reminder that it has just been given is not to be seen yet.
        free = [one for one in due if not one.trail.get("nudge")]
        done = await asyncio.gather(*(self._guarded(one) for one in free[:AT_ONCE]))
        return sum(done)

    async def aclose(self) -> None:
        await self._door.aclose()

    async def _guarded(self, due: Due) -> bool:
        """The others of the same look are not given up with it."""
        try:
            return await self._ask(due)
        except (SQLAlchemyError, OSError) as error:
            log.warning("verdict.failed", sandbox_id=due.sandbox_id, error=type(error).__name__)
            return False

    async def _ask(self, due: Due) -> bool:
        rules = self._rules
        key = await self._door.find_key(due.spec_id)
        async with self._parts.db.read() as session:
            shown = await list_shown(session, due, MAX_EVENTS)
        question = render_question(rules.model, due.assignment, shown)
        input_usd = input_ceiling_usd(question, rules.price)
        price = Price(rules.model, input_usd + output_usd(MAX_OUTPUT_TOKENS, rules.price), rules.budget_usd)
        call_id = await self._claim(due, price if key else None)
        if call_id is None or key is None:
            return False
        reply = await self._door.ask(key, question)
        await self._settle(due, call_id, price, reply)
        return True

    async def _claim(self, due: Due, price: Price | None) -> str | None:
        now = self._parts.clock()
        crashpoint("verdict_claim.before")
        async with self._parts.db.write() as session:
            call_id = await claim_verdict(session, due, price, now, now + WAITED_FOR)
        crashpoint("verdict_claim.after")
        return call_id

    async def _settle(self, due: Due, call_id: str, price: Price, reply: Reply) -> None:
        answered = parse_answer(reply.body) if reply.status == 200 else Answered(None, None)
        verdict = answered.verdict
        settlement = self._reckon(price, reply, answered)
        crashpoint("verdict.before")
        async with self._parts.db.write() as session:
            advice = verdict.advice if verdict else ""
            await record_verdict(session, call_id, settlement, advice, self._parts.clock())
        crashpoint("verdict.after")
        log.info(
            "verdict.given" if verdict else "verdict.missing",
            sandbox_id=due.sandbox_id, spec_id=due.spec_id, status=reply.status,
            cost_usd=round(settlement.cost_usd, 6), aligned=verdict and verdict.aligned,
            score=verdict and verdict.score, steering_needed=verdict and verdict.steering_needed,
        )  # fmt: skip

    def _reckon(self, price: Price, reply: Reply, answered: Answered) -> Settlement:
        """Errors cost nothing, an answer what it counts itself; what was sent and says no number costs all of what was
        reserved.
        """
        if not reply.may_cost or (reply.status is not None and reply.status >= 300):
            return Settlement(0.0, reply.status)
        usage = answered.usage
        if usage is None:
            return Settlement(price.amount_usd, reply.status)
        cached = usage.cache_read + usage.cache_write_5m
        cost = cost_usd(usage, self._rules.price)
        return Settlement(cost, reply.status, usage.input, usage.output, cached)
