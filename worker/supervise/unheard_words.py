"""Comments and reviews on work under way that no delivery told of. Each is stored as the delivery that would have told of
it, so whoever made it is asked about, and what was heard before is known, as for any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.db.comments import digest_of, find_heard
from app.db.deliveries import NewDelivery, record_deliveries
from app.db.looks import LiveWork, list_word_deliveries
from app.db.models import Repository
from app.db.reviews import COMMENT, REVIEW, UNHEARD, find_word
from app.domain.errors import Gone
from app.domain.ids import DeliveryId, InstallationId, RepoId
from app.domain.ports import RepoRef
from app.domain.spoken import Spoken
from app.github.happening import to_happening
from app.github.payloads import Unreadable, parse_delivery
from worker.parts import Parts

log = structlog.get_logger("worker.unheard_words")

SETTLED_FOR = timedelta(minutes=2)
"""Of younger words the delivery may still be on its way."""
LOOK_BACK = timedelta(days=3)
"""After a start: as far as GitHub keeps deliveries, of which failed ones are asked for again."""
OVERLAP = timedelta(hours=1)
"""Looked at again each time; our clock and GitHub's may differ by less."""
MAX_WORK = 50
"""Looked at in one look, in turns: four requests each, and an installation has 5,000 an hour."""
MAX_WORDS = 20
"""Handed on for one piece of work in one look, six requests each; the next look goes on."""

_KINDS = {
    "issue_comment": "talk",
    "pull_request_review": REVIEW,
    "pull_request_review_comment": COMMENT,
}
_Key = tuple[str, int, str]
"""Event, number and digest of words."""


class UnheardWords:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._next_spec_id = ""
        self._seen_until: dict[str, datetime] = {}
        """By spec. A cache that saves pages: without it a look goes back as far as it may."""
        self._settled: dict[str, set[_Key]] = {}
        """By spec. A cache: words about which nothing is to be done."""

    def in_turn(self, live: Sequence[LiveWork]) -> Sequence[LiveWork]:
        """The next ones, from the beginning again after the last. What is remembered of ended work is forgotten."""
        ordered = sorted(live, key=lambda work: work.spec_id)
        alive = {work.spec_id for work in ordered}
        self._seen_until = {one: at for one, at in self._seen_until.items() if one in alive}
        self._settled = {one: keys for one, keys in self._settled.items() if one in alive}
        ahead = [work for work in ordered if work.spec_id > self._next_spec_id]
        chosen = [*ahead, *ordered[: len(ordered) - len(ahead)]][:MAX_WORK]
        self._next_spec_id = chosen[-1].spec_id if chosen else ""
        return chosen

    async def look_at(self, work: LiveWork) -> int:
        """How many words were found that nobody had heard of. Raises OutsideError when GitHub can't be asked."""
        now, since = self._parts.clock(), self._since(work)
        try:
            spoken = await self._parts.github.fetch_spoken(
                ref_of(work.repository), work.issue_number, work.pull_number, since
            )
        except Gone:
            return 0  # what that means, the look at the issue tells
        unheard = await self._unheard(
            work, [one for one in spoken if one.said_at <= now - SETTLED_FOR], since
        )
        found = await self._hand_on(work, unheard[:MAX_WORDS])
        if len(unheard) <= MAX_WORDS:
            self._seen_until[work.spec_id] = now
        return found

    def _since(self, work: LiveWork) -> datetime:
        seen_until = self._seen_until.get(work.spec_id)
        oldest = self._parts.clock() - LOOK_BACK if seen_until is None else seen_until - OVERLAP
        return max(work.begun_at, oldest)

    async def _unheard(self, work: LiveWork, spoken: Sequence[Spoken], since: datetime) -> list[Spoken]:
        own_id = (await self._parts.identity()).bot_user_id
        settled = self._settled.setdefault(work.spec_id, set())
        others = [one for one in spoken if one.author_id != own_id and _key(one) not in settled]
        async with self._parts.db.read() as session:
            found = [one for one in others if await _is_news(session, work.repository.id, one, since)]
            if not found:
                return []
            numbers = {one.number for one in found}
            told = await list_word_deliveries(session, work.repository.id, numbers, since - OVERLAP)
        # Those of which nothing came (no write access, no words for us) left no other trace.
        settled |= {key for delivery in told if (key := _told(delivery.event, delivery.body)) is not None}
        return [one for one in found if _key(one) not in settled]

    async def _hand_on(self, work: LiveWork, unheard: Sequence[Spoken]) -> int:
        repo, now = ref_of(work.repository), self._parts.clock()
        found = 0
        for one in unheard:
            told = await self._parts.github.fetch_told(repo, one)
            if told is None:
                continue  # changed or deleted at this moment: the next look sees it as it then is
            # A name of their own for words as they read now: a look that comes again finds it known.
            name = f"look-{_KINDS[one.event]}-{one.word_id}-{int(told.changed_at.timestamp())}-{digest_of(one.body)[:8]}"
            delivery = NewDelivery(DeliveryId(name), one.event, {}, told.body, now)
            if await record_deliveries(self._parts.db, [delivery]):
                found += 1
                log.info("words.found", delivery_id=name, spec_id=work.spec_id)
            self._settled[work.spec_id].add(_key(one))
        return found


async def _is_news(session: AsyncSession, repo_id: int, spoken: Spoken, since: datetime) -> bool:
    """Whether this text was not acted on. A review's that was: whenever it was submitted, since nothing says when it was
    changed.
    """
    if spoken.event == "issue_comment":
        heard = await find_heard(session, repo_id, spoken.word_id)
        return heard is None or (not heard.deleted and heard.body_sha != digest_of(spoken.body))
    word = await find_word(session, repo_id, _KINDS[spoken.event], spoken.word_id)
    if word is None or word.body_sha == UNHEARD:
        return spoken.said_at >= since
    return not word.deleted and word.body_sha != digest_of(spoken.body)


def _key(spoken: Spoken) -> _Key:
    return spoken.event, spoken.word_id, digest_of(spoken.body)


def _told(event: str, body: bytes) -> _Key | None:
    parsed = parse_delivery(event, body)
    words = None if isinstance(parsed, Unreadable) else to_happening(parsed).comment
    return (event, words.comment_id, digest_of(words.body)) if words is not None else None


def ref_of(repository: Repository) -> RepoRef:
    return RepoRef(
        InstallationId(repository.installation_id), RepoId(repository.id), repository.owner, repository.name
    )
