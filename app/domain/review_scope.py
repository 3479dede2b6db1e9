"""Which words a batch is made of, where a review's words lie in several batches. Pure.

A batch is a whole review, heard of or not. Words of it that the agent was not given with it, and that their author
changed afterwards, go into another batch; from then on each of the two is made of the words that it was told of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.domain.review_words import PullWords


@dataclass(frozen=True)
class Scope:
    """`shared`: those of the batch's reviews of which another batch has words as well; of them only the texts of the
    reviews `bodies` and the inline comments `remarks` are this one's.
    """

    review_ids: frozenset[int]
    shared: frozenset[int] = frozenset()
    bodies: frozenset[int] = frozenset()
    remarks: frozenset[int] = frozenset()

    def own(self, words: PullWords) -> PullWords:
        """The same with another batch's words as if they had been said by the way, in no review of this one."""
        if not self.shared:
            return words
        return replace(
            words,
            reviews=tuple(
                replace(one, body="", altered=False) if one.review_id in self.shared - self.bodies else one
                for one in words.reviews
            ),
            remarks=tuple(
                replace(one, review_id=None)
                if one.review_id in self.shared and one.comment_id not in self.remarks
                else one
                for one in words.remarks
            ),
        )
