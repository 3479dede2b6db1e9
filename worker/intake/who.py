"""Who is heard in a conversation: by the settings that held when the work started, and by how much somebody says."""

from __future__ import annotations

from sqlalchemy.ext.asyncio import AsyncSession

from app.db.messages import count_said_since
from app.db.models import Spec
from app.domain.commands import Comment
from app.domain.repo_settings import EffectiveSettings
from app.domain.triggers import CommentFacts
from app.domain.trust import SAID_AT_MOST, SAID_WITHIN, is_meant_for_us, may_bot_speak
from worker.intake.commands import Asked


def bot_is_heard(spec: Spec | None, comment: CommentFacts) -> bool:
    """Whether the bot that wrote it may speak. Before the settings were read, none may."""
    settings = settings_of(spec)
    return settings is not None and may_bot_speak(comment.author_id, settings.allowed_bots)


def is_message(spec: Spec, parsed: Comment, slug: str) -> bool:
    """Whether the comment's words are for the agent, if whoever wrote them may speak."""
    settings = settings_of(spec)
    rule = settings.messages if settings is not None else "all"
    return bool(parsed.commands) or is_meant_for_us(rule, parsed.mentions, slug)


def asks_us(parsed: Comment, slug: str) -> bool:
    """Whether it has a command or a mention of ours; `slug` in lower case."""
    return bool(parsed.commands or parsed.mentions & {slug, f"{slug}[bot]"})


def settings_of(spec: Spec | None) -> EffectiveSettings | None:
    return EffectiveSettings.model_validate(spec.settings) if spec is not None and spec.settings else None


async def has_said_enough(session: AsyncSession, asked: Asked) -> bool:
    """Whether this person has said as much as one may within the hour, in this repository."""
    since = asked.now - SAID_WITHIN
    return await count_said_since(session, asked.spec.repo_id, asked.author_id, since) >= SAID_AT_MOST
