"""The labels that start and approve work. Names compare without case, as GitHub's do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.domain.states import Flow


@dataclass(frozen=True)
class LabelNames:
    agent: str = "agent"
    plan: str = "agent:plan"
    quick: str = "agent:quick"
    approved: str = "agent:approved"

    def flow_of(self, label: str) -> Flow | None:
        """What a label asks for; None for one that is not ours or only approves."""
        folded = label.casefold()
        for name, flow in ((self.agent, Flow.FULL), (self.plan, Flow.PLAN), (self.quick, Flow.QUICK)):
            if folded == name.casefold():
                return flow
        return None

    def renamed(self, names: Mapping[str, str]) -> LabelNames:
        """With a repository's own names, by what they are for. As it is when two of the four would be the same."""
        renamed = replace(self, **names)
        four = (renamed.agent, renamed.plan, renamed.quick, renamed.approved)
        return renamed if len({name.casefold() for name in four}) == len(four) else self

    @property
    def definitions(self) -> tuple[tuple[str, str, str], ...]:
        """(name, color, description ≤ 100 characters) for the labels to create on installation."""
        return (
            (self.agent, "5319e7", "Issuewright plans this issue, builds it and opens a pull request"),
            (self.plan, "8a63d2", "Issuewright plans this issue and waits for approval"),
            (self.quick, "1d76db", "Issuewright builds this issue as one task, without planning"),
            (self.approved, "0e8a16", "Approves the plan that Issuewright has shown"),
        )


def carries_label(names: tuple[str, ...], ids: tuple[int, ...], label_id: int | None, name: str) -> bool:
    """Whether an issue with these labels carries that one: by its number where it is known, since it may have been
    renamed, else by name.
    """
    return label_id in ids if label_id is not None and ids else has_label(names, name)


def has_label(labels: tuple[str, ...], name: str) -> bool:
    folded = name.casefold()
    return any(label.casefold() == folded for label in labels)
