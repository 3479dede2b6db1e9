"""Words on an issue or a pull request as GitHub lists them, whether or not a delivery told of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Tells = Literal["issue_comment", "pull_request_review", "pull_request_review_comment"]
"""The event that tells of such words."""


@dataclass(frozen=True)
class Spoken:
    """`number`: of the issue or pull request they stand on. `said_at`: when they were made or changed the last time by
    GitHub's clock, to the second; of a review, when it was submitted.
    """

    event: Tells
    word_id: int
    number: int
    body: str
    author_id: int | None
    said_at: datetime


@dataclass(frozen=True)
class Told:
    """The delivery that would have told of words as they read now: `body` is its JSON."""

    event: Tells
    changed_at: datetime
    body: bytes
