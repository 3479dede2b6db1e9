"""What the threads of a review are answered. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.review_words import PullWords
from app.domain.sanitize import neutralize_agent_text, sanitize_line
from app.domain.triggers import moment_of

MAX_ANSWER = 4_000
MAX_FILES_SHOWN = 10


@dataclass(frozen=True)
class Round:
    """What became of a batch. `sha` and `files` of what was pushed for it, '' and () when nothing was; `failed`: why
    it could not be followed; `answers`: the agent's own words by thread; `merged`: nobody went on with it, since the
    pull request was merged.
    """

    sha: str = ""
    files: tuple[str, ...] = ()
    failed: str = ""
    answers: Mapping[int, str] = field(default_factory=dict)
    merged: bool = False


def answer_marker(batch_id: str, root_id: int) -> str:
    return f"<!-- issuewright:review={batch_id} thread={root_id} -->"


_ANSWER = re.compile(r"<!-- issuewright:review=\S+ thread=\d+ -->")
"""The marker of an answer; not that of one which says that nothing was looked at."""


class Untold(StrEnum):
    """Why words of a thread were not given to the agent."""

    LEFT_OUT = "left-out"
    ALTERED = "altered"


_UNTOLD = {
    Untold.LEFT_OUT: "Not looked at: the review is longer than what the agent can be given at once. Answer here, and the "
    "agent gets this thread.",
    Untold.ALTERED: "Not looked at: somebody other than its author changed the comment. Answer here with what is to be "
    "done, and the agent gets it.",
}


def untold_marker(batch_id: str, root_id: int, why: Untold) -> str:
    return f"<!-- issuewright:review={batch_id} thread={root_id} part={why.value} -->"


def render_untold(marker: str, why: Untold) -> str:
    """The answer in a thread that was not looked at."""
    return f"{marker}\n{_UNTOLD[why]}"


def are_unanswered(
    words: PullWords, opened: Collection[tuple[int, datetime | None]], our_id: int
) -> frozenset[int]:
    """Those of the threads, each with the time when it was opened again (None: not known), in which we have answered
    nothing since. `our_id`: the number of our own account, since anybody can type a marker.
    """
    answered: dict[int, datetime] = {}
    for remark in words.remarks:
        at = moment_of(remark.updated_at)
        if at is not None and remark.author_id == our_id and _ANSWER.match(remark.body):
            answered[remark.root_id] = max(at, answered.get(remark.root_id, at))
    return frozenset(
        root for root, at in opened if at is None or root not in answered or answered[root] <= at
    )


def render_answer(marker: str, root_id: int, came_to: Round, commit_url: str) -> str:
    """The one answer that a thread gets: the agent's words where it gave some, and which commit."""
    words = neutralize_agent_text(came_to.answers.get(root_id, ""), MAX_ANSWER).strip()
    commit = f"[`{came_to.sha[:7]}`]({commit_url})" if came_to.sha else ""
    if came_to.merged:
        text = "Not dealt with: the pull request was merged before the agent was done with this."
    elif came_to.failed:
        text = "This could not be dealt with: the run failed. The status comment on the issue says why."
    elif words:
        text = f"{words}\n\nIn {commit}." if commit else f"{words}\n\nNothing was committed in this round."
    elif commit:
        text = f"Looked at in {commit}, which changes {_listed(came_to.files)}."
    else:
        text = "Nothing was changed for this: the round ended without a commit."
    return f"{marker}\n{text}"


def _listed(files: Sequence[str]) -> str:
    shown = [f"`{sanitize_line(path, 120).replace('`', '')}`" for path in files[:MAX_FILES_SHOWN]]
    more = len(files) - len(shown)
    listed = ", ".join(shown) or "no file"
    return f"{listed} and {more} more" if more > 0 else listed
