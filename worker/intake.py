"""Deliveries → facts: parse, decide, read what the decision needs, record everything in one commit.

Needs no spec's lease and has its own slots, so a busy spec never holds up what people say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.db import installations, specs
from app.db.effects import record_effect
from app.db.intake import claim_delivery, defer_delivery, settle_delivery
from app.db.models import Delivery
from app.domain.errors import Denied, Gone, RetryAt
from app.domain.ids import InstallationId, IssueNumber, RepoId, UserId
from app.domain.labels import has_label
from app.domain.notices import (
    NO_PLANNING,
    NO_RETRY,
    NO_WRITE,
    render_no_planning,
    render_no_retry,
    render_no_write,
)
from app.domain.ports import RepoRef, User
from app.domain.states import DeliveryState, Flow
from app.domain.triggers import (
    OTHER_APP,
    Cancel,
    Forget,
    Happening,
    Ignored,
    PullEnded,
    PullReopened,
    Retry,
    Start,
    Welcome,
    decide_intent,
    is_label,
)
from app.domain.view import Outcome
from app.github.happening import to_happening
from app.github.payloads import Unreadable, parse_delivery
from app.observability.crashpoints import crashpoint
from worker.access import forget, welcome
from worker.parts import Parts
from worker.pauses import come_back_at
from worker.verdict import Verdict, cancel_specs

log = structlog.get_logger("worker.intake")

MAX_ATTEMPTS = 12
NOTHING_TO_RETRY = "there is nothing to try again"


class Intake:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts

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
            return await self._settle(delivery, Happening(delivery.event, None), verdict)
        happening = to_happening(parsed, delivery.headers)
        verdict = await self._decide(happening)
        return await self._settle(delivery, happening, verdict)

    async def _decide(self, happening: Happening) -> Verdict:
        identity = await self._parts.identity()
        intent = decide_intent(happening, self._parts.labels, identity.bot_user_id, identity.app_id)
        match intent:
            case Ignored(reason):
                if reason == OTHER_APP:
                    log.warning("delivery.misdirected", target_app_id=happening.target_app_id)
                return Verdict("ignored", reason, DeliveryState.IGNORED)
            case Start():
                return await self._start(happening, intent)
            case Cancel(reason):
                return await self._cancel(happening, reason)
            case PullEnded() | PullReopened():
                return await self._pull(happening, intent)
            case Retry():
                return await self._retry(happening, identity.app_id)
            case Welcome():
                return await welcome(self._parts, happening)
            case Forget():
                return await forget(self._parts, happening, intent)

    # ------------------------------------------------------------ intents

    async def _start(self, happening: Happening, start: Start) -> Verdict:
        repo, number = _repo_of(happening), happening.issue_number or 0
        live = await self._parts.github.fetch_issue(repo, IssueNumber(number))
        if not has_label(live.labels, start.label):
            return Verdict("start", "the label is not there any more", DeliveryState.IGNORED)
        if live.state == "closed":
            return Verdict("start", "the issue is closed", DeliveryState.IGNORED)
        sender = User(UserId(happening.sender_id or 0), happening.sender_login, happening.sender_type)
        if sender.kind == "Bot" or not (await self._parts.github.fetch_permission(repo, sender)).may_write:
            key = f"{NO_WRITE}:{number}:{sender.user_id}"
            body = render_no_write(key, sender.login, start.label)
            return self._notice(happening, key, body, "refused: no write access")
        if start.flow is not Flow.QUICK:
            key = f"{NO_PLANNING}:{number}:{start.trigger_key}".replace(" ", "")
            body = render_no_planning(key, start.label, self._parts.labels.quick)
            return self._notice(happening, key, body, "refused: planning is not available")
        return await self._record_start(happening, start)

    async def _record_start(self, happening: Happening, start: Start) -> Verdict:
        repo_id, number = _repo_of(happening).repo_id, happening.issue_number or 0
        key = start.trigger_key
        async with self._parts.db.read() as session:
            live = await specs.find_live_spec(session, repo_id, number)
            same = await specs.find_spec_of_trigger(session, repo_id, number, key)
            newest = await specs.find_newest_label_event(session, repo_id, number)
        if live is not None and live.cancel_asked_at is not None:
            # Set again while the old run still winds down: its turn comes when that one has ended.
            raise RetryAt("the earlier run is still ending", self._parts.clock() + timedelta(seconds=1))
        if live is not None:
            return Verdict("start", f"spec {live.id} is live for this issue", DeliveryState.IGNORED)
        if same is not None:
            if same.cancel_reason != "label_removed":
                return Verdict("start", f"this label event made spec {same.id}", DeliveryState.IGNORED)
            # Removed and set again within the same second: GitHub's times can't tell the two events apart.
            key = f"{key}+{same.id}"
        if newest is not None and start.labeled_at is not None and start.labeled_at < newest:
            # The label on the issue now is the one of the later event, which has had its run.
            return Verdict("start", "a later label event was worked on", DeliveryState.IGNORED)
        new = specs.NewSpec(
            installation_id=happening.installation_id or 0, repo_id=repo_id, issue_number=number, trigger_key=key,
            flow=start.flow, title=happening.issue_title.replace("\0", ""),
            body=happening.issue_body.replace("\0", ""),
            issue_labels=happening.issue_labels, trigger_label=start.label, labeler_id=happening.sender_id or 0,
            labeler_login=happening.sender_login, trigger_label_id=happening.label_id, labeled_at=start.labeled_at,
        )  # fmt: skip
        verdict = Verdict("start")

        async def write(session: AsyncSession) -> None:
            spec_id = await specs.record_spec(session, new, self._parts.clock())
            if spec_id is None:
                verdict.state, verdict.reason = DeliveryState.IGNORED, "another delivery started it"
            else:
                verdict.spec_ids.append(spec_id)

        verdict.writes.append(write)
        return verdict

    def _notice(
        self, happening: Happening, key: str, body: str, reason: str, intent: str = "start"
    ) -> Verdict:
        verdict = Verdict(intent, reason, DeliveryState.IGNORED)
        payload = {"issue": happening.issue_number, "marker": body.split("\n", 1)[0], "body": body}
        verdict.writes.append(self._effect(verdict, happening, "notice", f"notice:{key}", payload))
        return verdict

    def _effect(
        self, verdict: Verdict, happening: Happening, kind: str, key: str, payload: Mapping[str, object]
    ) -> Callable[[AsyncSession], Awaitable[None]]:
        repo = (happening.installation_id or 0, happening.repo.repo_id if happening.repo else 0)

        async def write(session: AsyncSession) -> None:
            now = self._parts.clock()
            scoped = f"{repo[1]}:{key}"
            effect = await record_effect(session, kind=kind, key=scoped, repo=repo, payload=payload, now=now)
            if effect is not None:
                verdict.effect_ids.append(effect)

        return write

    async def _cancel(self, happening: Happening, reason: str) -> Verdict:
        repo_id, number = _repo_of(happening).repo_id, happening.issue_number or 0
        async with self._parts.db.read() as session:
            live = await specs.find_live_spec(session, repo_id, number)
        if live is None:
            return Verdict("cancel", "no live spec for this issue", DeliveryState.IGNORED)
        if reason == "label_removed" and not is_label(happening, live.trigger_label_id, live.trigger_label):
            return Verdict("cancel", "another label than the one that started it", DeliveryState.IGNORED)
        if reason in {"label_removed", "issue_closed"} and await self._undone(happening, reason):
            return Verdict("cancel", "the issue's live state says otherwise", DeliveryState.IGNORED)
        return cancel_specs(self._parts, "cancel", [live.id], reason)

    async def _undone(self, happening: Happening, reason: str) -> bool:
        """Deliveries come in any order: what is true now decides."""
        try:
            issue = await self._parts.github.fetch_issue(
                _repo_of(happening), IssueNumber(happening.issue_number or 0)
            )
        except (Gone, Denied):
            return False
        if reason == "issue_closed":
            return issue.state != "closed"
        return has_label(issue.labels, happening.label or "")

    async def _pull(self, happening: Happening, intent: PullEnded | PullReopened) -> Verdict:
        repo_id, number = _repo_of(happening).repo_id, happening.pull_number or 0
        async with self._parts.db.read() as session:
            spec = await specs.find_spec_of_pull(session, repo_id, number)
        if spec is None:
            return Verdict("close", "not a pull request of ours", DeliveryState.IGNORED)
        verdict = Verdict("close", spec_ids=[spec.id])
        state = await self._pull_state(happening, intent)

        async def write(session: AsyncSession) -> None:
            now = self._parts.clock()
            await specs.record_pull_state(session, spec.id, state, now)
            if state == "closed":
                await specs.record_cancel(session, spec.id, "pull_closed", now)

        verdict.writes.append(write)
        return verdict

    async def _pull_state(self, happening: Happening, intent: PullEnded | PullReopened) -> str:
        """Deliveries come in any order: what is true now decides, the payload where that can't be read."""
        try:
            pull = await self._parts.github.fetch_pull(_repo_of(happening), happening.pull_number or 0)
        except (Gone, Denied):
            if isinstance(intent, PullReopened):
                return "open"
            return "merged" if intent.merged else "closed"
        return "merged" if pull.merged else pull.state

    async def _retry(self, happening: Happening, app_id: int) -> Verdict:
        if happening.check_app_id is not None and happening.check_app_id != app_id:
            return Verdict("retry", "a check run of another App", DeliveryState.IGNORED)
        repo = _repo_of(happening)
        async with self._parts.db.read() as session:
            if happening.check_head_sha:
                spec = await specs.find_spec_of_head(session, repo.repo_id, happening.check_head_sha)
            else:
                spec = await specs.find_spec_of_check(session, repo.repo_id, happening.check_run_id or 0)
        if spec is None:
            return Verdict("retry", "not a check run of ours", DeliveryState.IGNORED)
        sender = User(UserId(happening.sender_id or 0), happening.sender_login, happening.sender_type)
        if sender.kind == "Bot" or not (await self._parts.github.fetch_permission(repo, sender)).may_write:
            return Verdict("retry", "refused: no write access", DeliveryState.IGNORED)
        if spec.outcome == Outcome.DONE:
            key = f"{NO_RETRY}:{spec.id}"
            about = replace(happening, issue_number=spec.issue_number)
            return self._notice(about, key, render_no_retry(key, sender.login), NOTHING_TO_RETRY, "retry")
        verdict = Verdict("retry", spec_ids=[spec.id])

        async def write(session: AsyncSession) -> None:
            if not await specs.record_retry(session, spec.id, self._parts.clock()):
                verdict.state, verdict.reason = DeliveryState.IGNORED, NOTHING_TO_RETRY

        verdict.writes.append(write)
        return verdict

    # ------------------------------------------------------------ settling

    async def _settle(self, delivery: Delivery, happening: Happening, verdict: Verdict) -> Verdict | None:
        """Everything the delivery asked for and the note that it is handled, in one commit."""
        crashpoint("intake.before")
        async with self._parts.db.write() as session:
            await self._record_names(session, happening)
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
        log.info(
            "delivery.handled", github_event=happening.event, action=happening.action, intent=verdict.intent,
            reason=verdict.reason, installation_id=happening.installation_id,
            repo_id=happening.repo.repo_id if happening.repo else None, issue=happening.issue_number,
        )  # fmt: skip
        return verdict

    async def _record_names(self, session: AsyncSession, happening: Happening) -> None:
        """Owner and name are labels that change: every payload brings the newest."""
        repo = happening.repo
        if repo is None or happening.installation_id is None or not repo.owner:
            return
        values = {
            "id": repo.repo_id,
            "installation_id": happening.installation_id,
            "owner": repo.owner,
            "name": repo.name,
            "private": repo.private,
        }
        if repo.default_branch:
            values["default_branch"] = repo.default_branch
        await installations.record_repository(session, values, self._parts.clock())

    async def _defer(self, delivery: Delivery, at: datetime, reason: str) -> None:
        async with self._parts.db.write() as session:
            await defer_delivery(session, delivery.id, at, reason)

    async def _give_up_or_defer(self, delivery: Delivery, error: Exception) -> None:
        now = self._parts.clock()
        async with self._parts.db.write() as session:
            # Credentials that GitHub refuses are the operator's to mend: the delivery waits for that.
            waits = isinstance(error, Denied) and error.reason == "credentials"
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


def _repo_of(happening: Happening) -> RepoRef:
    """Only asked of happenings that `decide_intent` found a repository in."""
    if happening.repo is None or happening.installation_id is None:
        raise Gone("no repository in the payload")
    repo = happening.repo
    return RepoRef(InstallationId(happening.installation_id), RepoId(repo.repo_id), repo.owner, repo.name)
