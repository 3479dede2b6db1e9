"""Whom and what a delivery is about, as addresses for calls; and what is owed to people in answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.effects import count_effects_since, record_effect
from app.domain.errors import Gone
from app.domain.ids import InstallationId, RepoId, UserId
from app.domain.markers import notice_marker
from app.domain.ports import RepoRef, User
from app.domain.states import DeliveryState
from app.domain.triggers import Happening
from worker.parts import Parts
from worker.verdict import Verdict, Write

log = structlog.get_logger("worker.intake")

HOUR = timedelta(hours=1)
REPLIES_PER_HOUR = 20
"""On one issue or pull request: the last fuse against two machines that answer each other."""


def repo_of(happening: Happening) -> RepoRef:
    """Only asked of happenings that `decide_intent` found a repository in; Gone for others."""
    if happening.repo is None or happening.installation_id is None:
        raise Gone("no repository in the payload")
    repo = happening.repo
    return RepoRef(InstallationId(happening.installation_id), RepoId(repo.repo_id), repo.owner, repo.name)


def sender_of(happening: Happening) -> User:
    return User(UserId(happening.sender_id or 0), happening.sender_login, happening.sender_type)


async def may_write(parts: Parts, happening: Happening) -> bool:
    """Whether the sender may write to the repository now; read live. No bot may."""
    sender = sender_of(happening)
    return (
        sender.kind != "Bot" and (await parts.github.fetch_permission(repo_of(happening), sender)).may_write
    )


def owe(
    parts: Parts, verdict: Verdict, happening: Happening, kind: str, key: str, payload: Mapping[str, object]
) -> Write:
    """The write that records an effect in the repository, once for that key."""
    repo = (happening.installation_id or 0, happening.repo.repo_id if happening.repo else 0)

    async def write(session: AsyncSession) -> None:
        now = parts.clock()
        scoped = f"{repo[1]}:{key}"
        effect = await record_effect(session, kind=kind, key=scoped, repo=repo, payload=payload, now=now)
        if effect is not None:
            verdict.effect_ids.append(effect)

    return write


def owe_notice(parts: Parts, verdict: Verdict, happening: Happening, key: str, body: str) -> Write:
    """The write that records a comment of ours on the issue; `body` begins with its marker."""
    payload = {"issue": happening.issue_number, "marker": body.split("\n", 1)[0], "body": body}
    return owe(parts, verdict, happening, "notice", f"notice:{key}", payload)


def owe_reply(parts: Parts, verdict: Verdict, happening: Happening, tail: str, text: str) -> Write:
    """The write that records a short comment in answer to words; silence once the issue or pull request has had too many
    within an hour. `tail` tells replies apart.
    """
    key = f"reply:{happening.issue_number}:"
    scoped = f"{happening.repo.repo_id if happening.repo else 0}:notice:{key}"

    async def write(session: AsyncSession) -> None:
        if await count_effects_since(session, scoped, parts.clock() - HOUR) >= REPLIES_PER_HOUR:
            log.warning("reply.held_back", issue=happening.issue_number)
            return
        body = f"{notice_marker(key + tail)}\n{text}"
        await owe_notice(parts, verdict, happening, key + tail, body)(session)

    return write


def owe_help(parts: Parts, verdict: Verdict, happening: Happening, text: str) -> Write:
    """The write that answers what nobody understands: once an hour on one issue or pull request."""
    key = f"unknown:{happening.issue_number}:{int(parts.clock().timestamp()) // 3600}"
    return owe_notice(parts, verdict, happening, key, f"{notice_marker(key)}\n{text}")


def refuse(
    parts: Parts, happening: Happening, key: str, body: str, reason: str, intent: str = "start"
) -> Verdict:
    """Nothing comes of the delivery but one comment that says why."""
    verdict = Verdict(intent, reason, DeliveryState.IGNORED)
    verdict.writes.append(owe_notice(parts, verdict, happening, key, body))
    return verdict
