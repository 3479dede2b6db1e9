"""The moves of every machine of states: where an end is one, and what a message, delivery or effect may become."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.domain.states import (
    MESSAGE_MOVES,
    SANDBOX_LIVE,
    SANDBOX_MOVES,
    SPEC_LIVE,
    SPEC_MOVES,
    TASK_MOVES,
    MessageState,
    SandboxState,
    SpecState,
    TaskState,
    sources_of,
)

Moves = Mapping[Any, frozenset[Any]]
MACHINES: dict[str, tuple[type[StrEnum], Moves, StrEnum]] = {
    "spec": (SpecState, SPEC_MOVES, SpecState.QUEUED),
    "task": (TaskState, TASK_MOVES, TaskState.PENDING),
    "sandbox": (SandboxState, SANDBOX_MOVES, SandboxState.PENDING),
    "message": (MessageState, MESSAGE_MOVES, MessageState.QUEUED),
}
EACH = pytest.mark.parametrize("machine", MACHINES)


def reached(moves: Moves, start: StrEnum) -> set[StrEnum]:
    seen, ahead = {start}, [start]
    while ahead:
        for target in moves[ahead.pop()]:
            if target not in seen:
                seen.add(target)
                ahead.append(target)
    return seen


@EACH
def test_every_state_has_its_moves_and_is_reached_from_the_first(machine: str) -> None:
    states, moves, first = MACHINES[machine]
    assert set(moves) == set(states)
    assert reached(moves, first) == set(states)
    assert all(state not in targets for state, targets in moves.items()), "to stay is no move"


@EACH
def test_from_every_state_an_end_is_reached(machine: str) -> None:
    states, moves, _ = MACHINES[machine]
    ends = {state for state in states if not moves[state]}
    assert ends
    assert all(reached(moves, state) & ends for state in states)


@EACH
def test_sources_are_the_moves_read_backwards(machine: str) -> None:
    states, moves, _ = MACHINES[machine]
    for target in states:
        assert sources_of(moves, target) == {source for source in states if target in moves[source]}


@given(data=st.data())
def test_message_walks_forwards_only_and_is_taken_in_at_most_once(data: st.DataObject) -> None:
    order = list(MessageState)
    state, walk = MessageState.QUEUED, [MessageState.QUEUED]
    while MESSAGE_MOVES[state]:
        state = data.draw(st.sampled_from(sorted(MESSAGE_MOVES[state])))
        walk.append(state)
    assert walk.count(MessageState.ACKNOWLEDGED) <= 1
    assert len(walk) <= 3
    assert [order.index(one) for one in walk] == sorted(order.index(one) for one in walk)
    if MessageState.ACKNOWLEDGED in walk:
        assert walk[-2] is MessageState.SENT, "nobody takes in what was not sent"


@given(data=st.data())
def test_spec_that_has_ended_lives_again_through_the_queue_only(data: st.DataObject) -> None:
    state = SpecState.QUEUED
    for _ in range(12):
        if not SPEC_MOVES[state]:
            break
        following = data.draw(st.sampled_from(sorted(SPEC_MOVES[state])))
        if state not in SPEC_LIVE:
            assert following is SpecState.QUEUED
        state = following
    assert (state is SpecState.COMPLETED) == (not SPEC_MOVES[state])


def test_sandbox_that_has_ended_never_lives_again() -> None:
    for state in set(SandboxState) - SANDBOX_LIVE:
        assert SANDBOX_MOVES[state] == frozenset()
