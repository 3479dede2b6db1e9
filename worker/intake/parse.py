"""Markdown of strangers, read without holding up the others."""

from __future__ import annotations

import asyncio

from app.domain.commands import Comment, parse_comment

LONG_BODY = 4_000
"""Characters above which a body is parsed in a thread: a crafted one of 65,536 takes two seconds."""


async def parse(body: str) -> Comment:
    """What `parse_comment` finds; the loop goes on meanwhile when the body is long."""
    if len(body) > LONG_BODY:
        return await asyncio.to_thread(parse_comment, body)
    return parse_comment(body)
