"""Reviews: what the agent is told of a batch of them. Pure.

A batch becomes one message. A thread is named by the number of its first comment, in the message, in what the agent
hands in and in the marker of the answer, so that nothing has to be counted again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from app.domain.commands import Stop, parse_comment
from app.domain.review_words import ANSWER_EACH, BatchThread, Composed, PullWords, Remark, ReviewBody
from app.domain.sanitize import cut_text, fence_around, sanitize_line, sanitize_text

MAX_WORDS = 10_000
"""Characters of one comment that the agent is given."""
MAX_HUNK_LINES = 30
"""The end of a diff hunk is where its comment stands."""
MAX_HUNK = 4_000
MAX_MESSAGE = 300_000
"""Characters of one message; threads that find no place in it are left out, which is said in each of them."""
_FRAME, _PER_THREAD = 1_000, 60
"""Characters for what stands around the threads, and before each."""

_VERDICTS = {"APPROVED": "approved", "CHANGES_REQUESTED": "changes requested", "COMMENTED": "commented"}


@lru_cache(maxsize=64)
def words_for_agent(body: str) -> str:
    """A comment's own words, without its commands."""
    return cut_text(parse_comment(body).text, MAX_WORDS)


def _asks_to_stop(body: str) -> bool:
    return any(isinstance(command, Stop) for command in parse_comment(body).commands)


def compose_batch(
    words: PullWords,
    author: tuple[int, str],
    writers: Collection[int],
    pull_number: int,
    again: Collection[int] = (),
) -> Composed:
    """One message out of what stands there now. `author` is the reviewer's number and name; `writers` are the numbers
    of the people whose earlier comments in a thread the agent may see; `again` are threads that the reviewer opened
    again.
    """
    mine = {review.review_id for review in words.reviews if review.author_id == author[0]}
    altered, nodes = _altered(words, mine, author[0])
    waits = any(one.root_id in words.resolved for one in _said(words, mine, author[0]))
    threads = _fresh(words, mine, author[0])
    earlier = {
        root: _earlier(threads.get(root, ()), words.remarks, root, writers) for root in {*threads, *again}
    }
    opened = [root for root in sorted(again) if root not in words.resolved and root not in threads]
    threads |= {root: [] for root in opened if earlier[root]}
    spoken = [
        one
        for one in words.reviews
        if one.review_id in mine and not one.altered and words_for_agent(one.body)
    ]
    if not threads and not spoken:
        return Composed("", altered=altered, altered_nodes=nodes, waits=waits)
    said = [words_for_agent(one.body) for one in spoken]
    texts = {
        root: _thread(remarks, earlier[root], author[1] if root in again else "")
        for root, remarks in threads.items()
    }
    shown = _fitting(texts, MAX_MESSAGE - _FRAME - sum(map(len, said)))
    # One that nothing was added to is known by its last words.
    held = {root: _batch_thread(root, remarks or earlier[root][-1:]) for root, remarks in threads.items()}
    left_out = tuple(held[root] for root in threads if root not in shown)
    if not shown and not spoken:
        return Composed("", left_out=left_out, altered=altered, altered_nodes=nodes, waits=waits)
    parts = [_heading(words.reviews, author[1], pull_number, (len(shown), len(left_out))), *said]
    for at, root in enumerate(shown, 1):
        parts.append(f"Thread {root} ({at} of {len(shown)}): {texts[root]}")
    parts += [ANSWER_EACH] if shown else []
    bodies = [one.body for one in spoken] + [one.body for root in shown for one in threads[root]]
    return Composed(
        cut_text("\n\n".join(parts), MAX_MESSAGE),
        tuple(held[root] for root in shown),
        tuple(one.node_id for one in spoken if one.node_id),
        place_of_review(pull_number, spoken[0].review_id)
        if spoken
        else place_of_remark(pull_number, held[shown[0]].comment_ids[0]),
        left_out,
        altered,
        nodes,
        any(map(_asks_to_stop, bodies)),
        waits,
        {None: "\n\n".join(said), **{root: texts[root] for root in shown}},
    )


def _fresh(words: PullWords, review_ids: Collection[int], author_id: int) -> dict[int, list[Remark]]:
    """What the reviewer says in those reviews, by thread: none of it resolved, all of it words for an agent."""
    threads: dict[int, list[Remark]] = {}
    for remark in _said(words, review_ids, author_id):
        if remark.root_id not in words.resolved and not remark.altered and words_for_agent(remark.body):
            threads.setdefault(remark.root_id, []).append(remark)
    return threads


def _said(words: PullWords, review_ids: Collection[int], author_id: int) -> list[Remark]:
    return [
        remark for remark in words.remarks if remark.review_id in review_ids and remark.author_id == author_id
    ]


def _altered(
    words: PullWords, review_ids: Collection[int], author_id: int
) -> tuple[tuple[BatchThread, ...], tuple[str, ...]]:
    """What stands there under the reviewer's name and is not the reviewer's: whoever may change others' comments could
    otherwise speak with their voice.
    """
    threads: dict[int, list[Remark]] = {}
    for remark in _said(words, review_ids, author_id):
        if remark.root_id not in words.resolved and remark.altered:
            threads.setdefault(remark.root_id, []).append(remark)
    nodes = [one.node_id for one in words.reviews if one.review_id in review_ids and one.altered]
    return tuple(_batch_thread(root, remarks) for root, remarks in threads.items()), tuple(nodes)


def _earlier(
    fresh: Sequence[Remark], remarks: Sequence[Remark], root_id: int, writers: Collection[int]
) -> list[Remark]:
    """What writers said in that thread before the fresh words; all that they said where there are none."""
    before = fresh[0].comment_id if fresh else None
    return [
        remark
        for remark in remarks
        if remark.root_id == root_id and remark.author_id in writers and not remark.altered
        if words_for_agent(remark.body)
        if before is None or remark.comment_id < before
    ]


def place_of_review(pull_number: int, review_id: int) -> str:
    """The end of its address, below the repository's."""
    return f"pull/{pull_number}#pullrequestreview-{review_id}"


def place_of_remark(pull_number: int, comment_id: int) -> str:
    """The same of an inline comment."""
    return f"pull/{pull_number}#discussion_r{comment_id}"


def _batch_thread(root_id: int, remarks: Sequence[Remark]) -> BatchThread:
    return BatchThread(root_id, tuple(one.comment_id for one in remarks))


def _fitting(texts: Mapping[int, str], room: int) -> list[int]:
    """Threads, in their order, for as long as there is room."""
    fitting = []
    for root_id, text in texts.items():
        room -= len(text) + _PER_THREAD
        if room < 0:
            break
        fitting.append(root_id)
    return fitting


def _heading(reviews: Sequence[ReviewBody], login: str, pull_number: int, threads: tuple[int, int]) -> str:
    """`threads`: how many are shown, how many were left out."""
    verdicts = dict.fromkeys(_VERDICTS.get(one.state, "commented") for one in reviews)
    named = ", ".join(verdicts) or "opened again"
    shown, left_out = threads
    count = f" {shown} thread{'s' if shown != 1 else ''} below." if shown else ""
    count += f" {left_out} more left out: too long." if left_out else ""
    return f"Review of pull request #{pull_number} by {sanitize_line(login, 60)}: {named}.{count}"


def _thread(remarks: Sequence[Remark], earlier: Sequence[Remark], opened_by: str) -> str:
    """`opened_by`: the name of whoever opened the thread again, empty for others."""
    first = (remarks or earlier)[0]
    lines = [first.place]
    if first.diff_hunk:
        hunk = "\n".join(sanitize_text(first.diff_hunk).split("\n")[-MAX_HUNK_LINES:])
        lines.append(fence_around(cut_text(hunk, MAX_HUNK), "diff"))
    for remark in earlier:
        said = words_for_agent(remark.body).replace("\n", "\n> ")
        lines.append(f"Earlier, {sanitize_line(remark.author_login, 60)}:\n> {said}")
    if opened_by:
        lines.append(f"{sanitize_line(opened_by, 60)} opened this thread again: it is not dealt with yet.")
    lines += [words_for_agent(remark.body) for remark in remarks]
    return "\n".join(lines)


def render_correction(root_id: int | None, text: str) -> str:
    """For the agent, when words that it has were changed; `root_id` None: those of the review itself."""
    where = f"comment in thread {root_id}" if root_id is not None else "review"
    return f"This replaces what I wrote before in my {where}:\n\n{text}"
