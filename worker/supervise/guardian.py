"""The guardian's looks: what running agents did since the last one, a reminder to those that are lost in it, and a pause
when reminders do not help.

A look reads each event once. What it came to is one commit with what it did about it, so that a kill repeats the whole or
nothing; a second worker that looked at the same events finds that somebody else has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import record_notice
from app.db.guardian import (
    News,
    Trailed,
    list_news,
    list_nudges,
    lock_at_work,
    record_intervention,
    record_trail,
    record_trails,
    stream_events,
)
from app.db.locks import claim_lock, passing_owner
from app.db.messages import NewMessage, record_message
from app.db.models import Spec
from app.db.pauses import record_pause
from app.db.specs import record_fact
from app.db.verdicts import forget_advice
from app.domain.guardian import (
    NUDGED,
    PATIENCE,
    PAUSED,
    Answer,
    Finding,
    Job,
    Rule,
    Seen,
    Trail,
    decide_answer,
    find_advice,
    find_spending,
    follow,
)
from app.domain.guardian_texts import render_nudge, render_paused
from app.domain.ids import SandboxId
from app.domain.plan import CLOSING, FOLLOW_UP
from app.domain.states import SpecState
from app.observability.crashpoints import crashpoint
from sandbox_payload.wire import MessageType
from worker.own_secrets import list_own_secrets
from worker.parts import Parts

log = structlog.get_logger("worker.guardian")

EVERY = timedelta(seconds=2)
MAX_SANDBOXES = 200
"""In one look; those that were left out come first in the next."""
AT_ONCE = 20
"""Sandboxes whose events one statement reads."""
MAX_EVENTS = 500
"""Of one sandbox in one look. An agent that is so busy is looked at again and again."""
MAX_BEHIND = 2_000
"""A sandbox that floods is followed from its newest events on; what lies further back is left unread."""
_MAY_CHANGE_NOTHING = frozenset({"research", CLOSING, FOLLOW_UP})


@dataclass(frozen=True)
class Looked:
    """What a look came to."""

    sandboxes: int = 0
    nudged: int = 0
    paused: int = 0


@dataclass
class _Look:
    """One sandbox's part of a look. `upto`: the newest event that was read."""

    news: News
    job: Job
    trail: Trail
    after: int
    upto: int
    finding: Finding | None = None

    @property
    def advised(self) -> list[str]:
        """The call whose advice this look settles, said or not."""
        return [self.news.advice.call_id] if self.news.advice else []

    @property
    def trailed(self) -> Trailed:
        return Trailed(self.news, self.upto, self.trail.dump())


class Guardian:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def look(self) -> Looked | None:
        """One look; None when nothing has happened, or another worker is looking."""
        parts, now = self._parts, self._parts.clock()
        async with parts.db.read() as session:
            news = await list_news(session, MAX_SANDBOXES)
        if not news:
            return None
        owner = passing_owner(parts.worker_id, now)
        async with parts.db.write() as session:
            if not await claim_lock(session, "guardian", owner, now, EVERY):
                return None
        answers: list[Answer] = []
        for start in range(0, len(news), AT_ONCE):
            looks = [self._begin(one) for one in news[start : start + AT_ONCE]]
            await self._read(looks)
            await self._keep_quiet([one for one in looks if one.finding is None])
            answers += [await self._answer(one, one.finding) for one in looks if one.finding is not None]
        return Looked(len(news), answers.count(Answer.NUDGE), answers.count(Answer.PAUSE))

    def _begin(self, news: News) -> _Look:
        trail = Trail.parse(news.trail)
        overdue = news.nudged_at is not None and self._parts.clock() - news.nudged_at > PATIENCE
        if trail.nudge and overdue:
            trail.take_in()
        after = news.seen_seq
        if news.last_seq - after > MAX_BEHIND:
            after = news.last_seq - MAX_EVENTS
            trail.forget()
        return _Look(news, _job_of(news), trail, after, min(news.last_seq, after + MAX_EVENTS))

    async def _read(self, looks: Sequence[_Look]) -> None:
        by_id = {one.news.sandbox_id: one for one in looks}
        spans = {key: (one.after, one.upto) for key, one in by_id.items()}
        async with self._parts.db.read() as session:
            async for sandbox_id, seq, event_type, data in stream_events(session, spans):
                look = by_id[sandbox_id]
                found = follow(look.trail, look.job, [Seen(seq, event_type, data)])
                look.finding = look.finding or found
        for look in looks:
            look.finding = look.finding or find_spending(look.trail, look.job, look.upto) or self._hear(look)

    def _hear(self, look: _Look) -> Finding | None:
        """What a model that was asked wants to be said, unless too much has happened since."""
        advice = look.news.advice
        if advice is None or self._parts.clock() - advice.advised_at > PATIENCE:
            return None
        return find_advice(look.trail, look.job, advice.seq, advice.text)

    async def _keep_quiet(self, looks: Sequence[_Look]) -> None:
        """Most of the time there is nothing to say."""
        if not looks:
            return
        now = self._parts.clock()
        async with self._parts.db.write() as session:
            await record_trails(session, [look.trailed for look in looks], now)
            await forget_advice(session, [call_id for look in looks for call_id in look.advised])

    async def _answer(self, look: _Look, finding: Finding) -> Answer:
        parts, news = self._parts, look.news
        crashpoint("guardian.before")
        async with parts.db.write() as session:
            answer = await self._record(session, look, finding)
        crashpoint("guardian.after")
        if answer is not Answer.NOTHING:
            log.info(
                "agent.paused" if answer is Answer.PAUSE else "agent.nudged",
                sandbox_id=news.sandbox_id, spec_id=news.spec_id, rule=finding.rule.value,
            )  # fmt: skip
        if answer is Answer.NUDGE:
            await parts.ring(news.sandbox_id)
        return answer

    async def _record(self, session: AsyncSession, look: _Look, finding: Finding) -> Answer:
        news, now = look.news, self._parts.clock()
        spec = await lock_at_work(session, news.sandbox_id)
        if spec is None:
            return Answer.NOTHING
        nudges = await list_nudges(session, news.spec_id, news.task_id)
        answer = decide_answer(finding, len(nudges))
        if answer is Answer.NOTHING:
            look.trail.drop()
        nudged_at = now if answer is Answer.NUDGE else None
        if not await record_trail(session, look.trailed, now, nudged_at):
            return Answer.NOTHING
        await forget_advice(session, look.advised)
        if answer is Answer.NUDGE:
            await self._nudge(session, news, finding)
        elif answer is Answer.PAUSE:
            await self._pause(session, spec, look, finding, nudges)
        return answer

    async def _nudge(self, session: AsyncSession, news: News, finding: Finding) -> None:
        now, text = self._parts.clock(), render_nudge(finding)
        message_id = await record_intervention(session, news, NUDGED, finding, text, now)
        message = NewMessage(MessageType.GUARDIAN_NUDGE.value, text, id=message_id)
        await record_message(session, SandboxId(news.sandbox_id), message, now)
        await record_fact(session, news.spec_id, now)

    async def _pause(
        self, session: AsyncSession, spec: Spec, look: _Look, finding: Finding, nudges: Sequence[Rule]
    ) -> None:
        """People are asked once, where the work is to be seen."""
        secrets = await list_own_secrets(session, self._parts, spec.id)
        now, text = self._parts.clock(), render_paused(finding, nudges, secrets)
        intervention_id = await record_intervention(session, look.news, PAUSED, finding, text, now)
        await record_pause(session, spec.id, None, now)
        repo, number = (spec.installation_id, spec.repo_id), spec.pull_number or spec.issue_number
        await record_notice(session, repo, number, f"guardian:{intervention_id}", text, now)


def _job_of(news: News) -> Job:
    """Work in review may be a question; planning hands in no files."""
    kind = news.detail.get("kind", "")
    implements = news.spec_state is SpecState.IMPLEMENTING and news.task_id is not None
    files = news.detail.get("files") or ()
    return Job(
        sandbox_id=news.sandbox_id,
        changes_files=implements and kind not in _MAY_CHANGE_NOTHING,
        plans=news.task_id is None,
        files={one["path"]: one["change"] for one in files},
        budget_usd=news.budget_usd,
        spent_usd=news.spent_usd,
    )
