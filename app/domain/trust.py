"""Who may speak to an agent, beside write access, which is asked of GitHub: bots, what is meant for us, how much. Pure."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Literal

SAID_AT_MOST = 30
"""Messages of one person in one repository within SAID_WITHIN: far more than anybody types, far less than a script."""
SAID_WITHIN = timedelta(hours=1)
CONFUSED_AT_MOST = 5
"""😕 on one issue or pull request within CONFUSED_WITHIN, to people without write access."""
CONFUSED_WITHIN = timedelta(hours=1)


def is_bot(kinds: Collection[str], login: str) -> bool:
    """`kinds`: GitHub's types of the author and of whoever sent it. A person's account may be named like a bot's: it
    counts as one, since nobody else would be called so on purpose.
    """
    return "Bot" in kinds or login.endswith("[bot]")


def may_bot_speak(author_id: int | None, allowed_bots: Collection[int]) -> bool:
    """By the account's number; names can be taken over. An empty list lets nobody speak."""
    return author_id is not None and author_id in allowed_bots


def is_meant_for_us(rule: Literal["all", "mention"], mentions: Collection[str], slug: str) -> bool:
    """Whether a comment without a command is a message, by the repository's setting `messages`."""
    slug = slug.lower()
    return rule == "all" or slug in mentions or f"{slug}[bot]" in mentions
