"""Reviews: what GitHub shows of them, what one batch of them is, and when it is handed over. Pure.

A batch is one submitted review, or single comments that one person made shortly after one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.domain.sanitize import sanitize_line

QUIET = timedelta(seconds=20)
"""Single comments are handed over when their author has been silent this long …"""
LONGEST = timedelta(minutes=2)
"""… and at the latest this long after the first one."""
ANSWER_EACH = (
    "Deal with each thread, or decide that nothing is to change. For each one call the tool answer_thread with its "
    "number and one or two sentences on what you did; they are posted there."
)
"""The end of a message that holds threads."""


@dataclass(frozen=True)
class ReviewBody:
    """A submitted review without its inline comments. `state` as REST spells it, in capitals; `altered`: its text was
    changed last by somebody who is not its author.
    """

    review_id: int
    node_id: str
    state: str
    body: str
    author_id: int | None
    altered: bool = False


@dataclass(frozen=True)
class Remark:
    """An inline comment. `root_id` is the first comment of its thread, itself for that one; `line` is None once the
    line has gone from the diff, and then `original_line` is where it stood; `altered` as for a review.
    """

    comment_id: int
    review_id: int | None
    root_id: int
    author_id: int | None
    author_login: str
    author_type: str
    body: str
    path: str
    line: int | None
    original_line: int | None
    side: str
    diff_hunk: str
    updated_at: str = ""
    altered: bool = False

    @property
    def place(self) -> str:
        """As a sentence part for the agent and for people."""
        path = sanitize_line(self.path, 300)
        old = " of the old text" if self.side == "LEFT" else ""
        if self.line is not None:
            return f"{path}, line {self.line}{old}"
        if self.original_line is not None:
            return f"{path}, line {self.original_line}{old} as it stood then (outdated)"
        return path


@dataclass(frozen=True)
class PullWords:
    """What GitHub shows of a pull request's reviews: the reviews of a batch, all inline comments oldest first, and the
    threads (by their first comment) that are resolved.
    """

    reviews: tuple[ReviewBody, ...]
    remarks: tuple[Remark, ...]
    resolved: frozenset[int]


@dataclass(frozen=True)
class BatchThread:
    """`comment_ids`: the comments of this batch in it."""

    root_id: int
    comment_ids: tuple[int, ...]


@dataclass(frozen=True)
class Composed:
    """`text` is empty when nothing is asked for. `review_nodes`: reviews whose own words are part of it; `place`: where
    the first of its words stand, as the end of an address; `left_out`: threads that found no place in it; `altered`: words
    that somebody else changed, so the agent is not given them, and `altered_nodes`: reviews like that; `blocks`: what it
    holds of each thread, and under None of the reviews themselves; `stops`: beside them stands a
    command to stop; `waits`: a thread is left out because it is resolved, and counts again once it is opened.
    """

    text: str
    threads: tuple[BatchThread, ...] = ()
    review_nodes: tuple[str, ...] = ()
    place: str = ""
    left_out: tuple[BatchThread, ...] = ()
    altered: tuple[BatchThread, ...] = ()
    altered_nodes: tuple[str, ...] = ()
    stops: bool = False
    waits: bool = False
    blocks: Mapping[int | None, str] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether it asks for nothing, and nothing is to be said about it."""
        return not (self.text or self.left_out or self.altered or self.altered_nodes)

    def is_said_in(self, message: str, root_id: int | None) -> bool:
        """Whether an earlier message of the same batch holds that thread, or the reviews' own words, just as they are
        now: from their beginning to the next part. A thread's first line is where it stands, which pushes change.
        """
        block = self.blocks.get(root_id)
        if block is None:
            return False
        if root_id is None:
            rest = message.partition("\n\n")[2]
        else:
            thread = message.partition(f"\n\nThread {root_id} (")[2].partition("): ")[2]
            rest, block = thread.partition("\n")[2], block.partition("\n")[2]
        after = rest.removeprefix(block)
        ends = not after or after.startswith(("\n\nThread ", f"\n\n{ANSWER_EACH}"))
        return rest.startswith(block) and ends


# ---------------------------------------------------------------- when it is handed over


def decide_due(opened_at: datetime, now: datetime) -> datetime:
    """When a batch of single comments is handed over, after one more came in `now`."""
    return min(now + QUIET, opened_at + LONGEST)


def stands_alone(state: str, body: str) -> bool:
    """Whether a submitted review is a batch of its own at once. One that says nothing itself and gives no verdict is
    how GitHub tells of a single comment, and of a reply.
    """
    return bool(body.strip()) or state.upper() != "COMMENTED"
