"""One delivery: parse, decide, read what the decision needs, record everything in one commit."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog

from app.db import installations
from app.db.intake import claim_delivery, defer_delivery, settle_delivery
from app.db.models import Delivery
from app.domain.errors import Denied, Gone, RetryAt, refuses_credentials
from app.domain.states import DeliveryState
from app.domain.triggers import (
    OTHER_APP,
    OTHER_LABEL,
    Approved,
    BranchMoved,
    Cancel,
    ChecksEnded,
    Forget,
    Happening,
    Ignored,
    PullEdited,
    PullEnded,
    PullReopened,
    RepositoryChanged,
    Retry,
    Reviewed,
    Said,
    Start,
    Unlocked,
    Welcome,
    Wish,
    decide_intent,
)
from app.github.happening import to_happening
from app.github.payloads import Unreadable, parse_delivery
from app.observability.crashpoints import crashpoint
from worker.access import forget, welcome
from worker.intake.addressed import repo_of
from worker.intake.approve import approve
from worker.intake.ci import note_checks
from worker.intake.comments import hear
from worker.intake.names import Names, find_names, under_names
from worker.intake.permission import Permissions
from worker.intake.rerun import rerun
from worker.intake.review import hear_review
from worker.intake.start import start
from worker.intake.surroundings import note_surroundings
from worker.label_names import label_names
from worker.parts import Parts
from worker.pauses import come_back_at
from worker.verdict import Verdict

log = structlog.get_logger("worker.intake")

MAX_ATTEMPTS = 12


class Intake:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._permissions = Permissions(parts)

    async def take_in(self, delivery_id: str) -> Verdict | None:
        """Handle one delivery, once. None when it is handled already, or held by someone else, or put off."""
        async with self._parts.db.write() as session:
            delivery = await claim_delivery(session, delivery_id, self._parts.clock())
        if delivery is None:
            return None
        with structlog.contextvars.bound_contextvars(delivery_id=delivery_id):
            try:
                return await self._handle(delivery)
            except RetryAt as later:
                at = come_back_at(later, delivery.attempts, self._parts.clock())
                await self._defer(delivery, at, str(later))
            except (Gone, Denied) as error:
                log.warning("delivery.refused", attempts=delivery.attempts, error=str(error))
                await self._give_up_or_defer(delivery, error)
            except Exception as error:
                log.exception("delivery.failed", attempts=delivery.attempts)
                await self._give_up_or_defer(delivery, error)
        return None

    async def _handle(self, delivery: Delivery) -> Verdict | None:
        parsed = parse_delivery(delivery.event, delivery.body)
        if isinstance(parsed, Unreadable):
            verdict = Verdict("ignored", parsed.reason, DeliveryState.IGNORED)
            return await self._settle(delivery, Happening(delivery.event, None), None, verdict)
        happening = to_happening(parsed, delivery.headers)
        names = await find_names(self._parts, happening)
        if names is not None:
            happening = under_names(happening, names)
        verdict = await self._decide(happening)
        return await self._settle(delivery, happening, names, verdict)

    async def _decide(self, happening: Happening) -> Verdict:
        identity = await self._parts.identity()
        own = (identity.bot_user_id, identity.app_id)
        intent = decide_intent(happening, self._parts.labels, *own)
        if isinstance(intent, Start | Approved) or intent == Ignored(OTHER_LABEL):
            branch = happening.repo.default_branch if happening.repo else None
            names = await label_names(self._parts, repo_of(happening), branch)
            intent = decide_intent(happening, names, *own)
        if not isinstance(intent, Ignored):
            return await self._judge(happening, intent, identity.app_id)
        if intent.reason == OTHER_APP:
            log.warning("delivery.misdirected", target_app_id=happening.target_app_id)
        return Verdict("ignored", intent.reason, DeliveryState.IGNORED)

    async def _judge(self, happening: Happening, intent: Wish, app_id: int) -> Verdict:
        parts = self._parts
        match intent:
            case Start():
                return await start(parts, happening, intent)
            case Approved():
                return await approve(parts, happening, intent)
            case Said():
                return await hear(parts, self._permissions, happening, intent)
            case Reviewed():
                return await hear_review(parts, self._permissions, happening, intent)
            case (
                Cancel()
                | PullEnded()
                | PullReopened()
                | BranchMoved()
                | PullEdited()
                | RepositoryChanged()
                | Unlocked()
            ):
                return await note_surroundings(parts, happening, intent)
            case ChecksEnded():
                return await note_checks(parts, happening)
            case Retry():
                return await rerun(parts, happening, app_id)
            case Welcome():
                return await welcome(parts, happening)
            case Forget():
                return await forget(parts, happening, intent)

    # ------------------------------------------------------------ settling

    async def _settle(
        self, delivery: Delivery, happening: Happening, names: Names | None, verdict: Verdict
    ) -> Verdict | None:
        """Everything the delivery asked for and the note that it is handled, in one commit."""
        crashpoint("intake.before")
        async with self._parts.db.write() as session:
            if names is not None:
                await installations.record_repository(session, names.values, self._parts.clock())
            for write in verdict.writes:
                await write(session)
            mine = await settle_delivery(
                session, delivery.id, verdict.state, self._parts.clock(), intent=verdict.intent,
                reason=verdict.reason, action=happening.action, installation_id=happening.installation_id,
                repo_id=happening.repo.repo_id if happening.repo else None, issue_number=happening.issue_number,
                spec_id=verdict.spec_ids[0] if verdict.spec_ids else None,
            )  # fmt: skip
            if not mine:
                await session.rollback()
                return None
        crashpoint("intake.after")
        for sandbox_id in dict.fromkeys(verdict.rings):
            await self._parts.ring(sandbox_id)
        log.info(
            "delivery.handled", github_event=happening.event, action=happening.action, intent=verdict.intent,
            reason=verdict.reason, installation_id=happening.installation_id,
            repo_id=happening.repo.repo_id if happening.repo else None, issue=happening.issue_number,
        )  # fmt: skip
        return verdict

    async def _defer(self, delivery: Delivery, at: datetime, reason: str) -> None:
        async with self._parts.db.write() as session:
            await defer_delivery(session, delivery.id, at, reason)

    async def _give_up_or_defer(self, delivery: Delivery, error: Exception) -> None:
        now = self._parts.clock()
        async with self._parts.db.write() as session:
            # Credentials that GitHub refuses are the operator's to mend: the delivery waits for that.
            waits = refuses_credentials(error)
            final = isinstance(error, Gone | Denied) or delivery.attempts >= MAX_ATTEMPTS
            if final and not waits:
                await settle_delivery(
                    session,
                    delivery.id,
                    DeliveryState.FAILED,
                    now,
                    reason=f"{type(error).__name__}: {error}"[:500],
                )
            else:
                at = now + timedelta(seconds=min(2**delivery.attempts, 60))
                await defer_delivery(session, delivery.id, at, type(error).__name__)
