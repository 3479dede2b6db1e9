"""The conductor: what live specs of a repository have to do with one another, and a queue that stands still. Pure.

It only tells. Whoever wants one of two specs to wait, pauses it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from app.domain.sanitize import sanitize_line

STANDSTILL = timedelta(minutes=15)
"""So long a spec has waited for a sandbox, and so long no agent anywhere has done anything."""
MAX_OTHERS = 5
"""Issues named in one notice."""
MAX_PATHS = 5
"""Files named in one notice."""
MIN_WORDS = 3
"""Title and body with fewer words (`Fix it`) are alike by chance."""
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{2}")
"""Two signs of a script that is written without spaces (Thai, Burmese, Khmer, Japanese, Chinese): about a word."""
_MARKS = ".,;:!?…\"'`()[]{}«»“”‘’。、，；：！？「」（）"
"""What stands around words and says nothing of what is asked for: `C++` and `C#` are two."""


class Link(StrEnum):
    FILES = "files"
    DUPLICATE = "duplicate"
    STANDSTILL = "standstill"


@dataclass(frozen=True)
class LiveSpec:
    """`paths`: files that its tasks name or its agents have changed."""

    spec_id: str
    installation_id: int
    repo_id: int
    issue_number: int
    title: str
    created_at: datetime
    paths: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class Told:
    """One notice on `spec`'s issue; once for its key."""

    link: Link
    spec: LiveSpec
    others: tuple[LiveSpec, ...] = ()
    paths: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return notice_key(self.link, self.spec.spec_id)


@dataclass(frozen=True)
class Queued:
    """A spec that waits for a sandbox, since when."""

    spec: LiveSpec
    since_at: datetime


def find_shared_files(specs: Iterable[LiveSpec]) -> list[Told]:
    """For each spec that changes files which an older one of the same repository changes too."""
    found = []
    for ours in _by_repository(specs):
        older: dict[str, list[LiveSpec]] = defaultdict(list)
        for spec in ours:
            shared = sorted(path for path in spec.paths if path in older)
            if shared:
                others = dict.fromkeys(other for path in shared for other in older[path])
                found.append(_told(Link.FILES, spec, list(others), shared))
            for path in spec.paths:
                older[path].append(spec)
    return found


def find_namesakes(specs: Iterable[LiveSpec]) -> list[str]:
    """Ids of those whose title another one of the same repository has: only their bodies are worth reading."""
    groups: dict[tuple[int, str], list[str]] = defaultdict(list)
    for spec in specs:
        groups[spec.repo_id, normalize(spec.title)].append(spec.spec_id)
    return [spec_id for ids in groups.values() if len(ids) > 1 for spec_id in ids]


def find_duplicates(specs: Iterable[LiveSpec], bodies: Mapping[str, str]) -> list[Told]:
    """For each spec that asks for the same as an older one of the same repository."""
    found = []
    for ours in _by_repository(one for one in specs if one.spec_id in bodies):
        first: dict[str, LiveSpec] = {}
        for spec in ours:
            asked = f"{normalize(spec.title)} {normalize(bodies[spec.spec_id])}".strip()
            if len(asked.split()) + len(_UNSPACED.findall(asked)) < MIN_WORDS:
                continue
            if asked in first:
                found.append(_told(Link.DUPLICATE, spec, [first[asked]], ()))
            else:
                first[asked] = spec
    return found


def find_standstill(
    queue: Iterable[Queued], worked_at: datetime | None, watched_since_at: datetime, now: datetime
) -> list[Told]:
    """The spec of each repository that has waited longest, when nothing moves. `worked_at`: when any agent did anything
    last; `watched_since_at`: since when workers have looked on, without whom nothing can move.
    """
    if now - max(watched_since_at, worked_at or watched_since_at) <= STANDSTILL:
        return []
    late = sorted((one for one in queue if now - one.since_at > STANDSTILL), key=lambda one: one.since_at)
    first: dict[int, LiveSpec] = {}
    for one in late:
        first.setdefault(one.spec.repo_id, one.spec)
    return [_told(Link.STANDSTILL, spec, (), ()) for spec in first.values()]


def normalize(text: str) -> str:
    """The words alone, without the marks around them."""
    words = (word.strip(_MARKS) for word in text.casefold().split())
    return " ".join(word for word in words if word)


def _by_repository(specs: Iterable[LiveSpec]) -> list[list[LiveSpec]]:
    """Each one's specs, the oldest first."""
    ordered = sorted(specs, key=lambda one: (one.repo_id, one.created_at, one.spec_id))
    return [list(ours) for _, ours in groupby(ordered, key=lambda one: one.repo_id)]


def _told(link: Link, spec: LiveSpec, others: Sequence[LiveSpec], paths: Sequence[str]) -> Told:
    return Told(link, spec, tuple(others[:MAX_OTHERS]), tuple(paths))


def notice_key(link: Link, spec_id: str) -> str:
    """What a notice is known by in its repository: one of each kind on an issue."""
    return f"conductor:{link.value}:{spec_id}"


def render_told(told: Told) -> str:
    """Issues are named by their numbers in the same repository; files are quoted so that nothing in them works."""
    if told.link is Link.STANDSTILL:
        return (
            f"**Nothing moves.** This work has waited for a sandbox for more than {_minutes(STANDSTILL)} minutes, and no agent "
            "has done anything in that time. It starts by itself as soon as it can; whoever operates this Issuewright may want "
            "to look at `issuewright doctor` and `issuewright sandboxes list`."
        )
    numbers = [f"#{other.issue_number}" for other in told.others]
    others = " and ".join([*([", ".join(numbers[:-1])] if numbers[1:] else []), numbers[-1]])
    if told.link is Link.DUPLICATE:
        return (
            f"**Perhaps the same twice.** {others} asks for the same, word for word, and is being worked on as well. If one is "
            "enough, comment `/agent stop` on the other."
        )
    shown = ", ".join(f"`{_path(path)}`" for path in told.paths[:MAX_PATHS])
    more = f" and {len(told.paths) - MAX_PATHS} more" if len(told.paths) > MAX_PATHS else ""
    count, second, other, it = (
        ("Several", "later", "the others", "they are")
        if numbers[1:]
        else ("Two", "second", "the other", "it is")
    )
    return (
        f"**{count} at the same files.** The work on {others} changes {shown}{more} too, so whichever is merged {second} may "
        f"run into conflicts. To let {other} go first, comment `/agent pause` here, and `/agent resume` when {it} merged."
    )


def _minutes(time: timedelta) -> int:
    return round(time.total_seconds() / 60)


def _path(path: str) -> str:
    return sanitize_line(path, 200).replace("`", "'")
