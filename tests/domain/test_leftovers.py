"""What counts as left over at a provider, and what is somebody else's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from app.domain.leftovers import KnownSandbox, Leftover, decide_leftovers
from app.domain.ports import SandboxSight, SandboxStatus
from app.domain.states import SandboxState

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAME = "iw-abcd-sbx_1"


def sight(name: str = NAME, age_s: float = 3600) -> SandboxSight:
    return SandboxSight(name, SandboxStatus.RUNNING, started_at=NOW - timedelta(seconds=age_s))


def row(
    state: SandboxState, ended_s: float | None = None, *, removed: bool = False
) -> dict[str, KnownSandbox]:
    ended_at = None if ended_s is None else NOW - timedelta(seconds=ended_s)
    return {NAME: KnownSandbox("sbx_1", NAME, state, ended_at, removed)}


def test_machine_that_no_row_knows_is_left_over_unless_it_is_young() -> None:
    (found,) = decide_leftovers("abcd", [sight()], {}, NOW)
    assert (found.kind, found.name) == (Leftover.MACHINE, NAME)
    assert decide_leftovers("abcd", [sight(age_s=60)], {}, NOW) == []


@pytest.mark.parametrize("name", ["iw-other-sbx_1", "somebody-elses", "iw-abcdef-sbx_1", "abcd"])
def test_machine_of_another_owner_is_never_touched(name: str) -> None:
    assert decide_leftovers("abcd", [sight(name)], {}, NOW) == []


@pytest.mark.parametrize("removed", [True, False])
def test_machine_of_an_ended_sandbox_is_left_over_after_a_while(removed: bool) -> None:
    ended = SandboxState.FAILED
    (found,) = decide_leftovers("abcd", [sight()], row(ended, 3600, removed=removed), NOW)
    assert (found.kind, found.sandbox_id) == (Leftover.MACHINE, "sbx_1")
    assert decide_leftovers("abcd", [sight()], row(ended, 60, removed=removed), NOW) == []


def test_row_whose_machine_is_gone_is_left_over_once_it_has_ended() -> None:
    (found,) = decide_leftovers("abcd", [], row(SandboxState.COMPLETED, 3600), NOW)
    assert found.kind is Leftover.ROW
    assert decide_leftovers("abcd", [], row(SandboxState.COMPLETED, 3600, removed=True), NOW) == []


@pytest.mark.parametrize("sights", [[], [sight()]])
def test_what_lives_is_left_to_the_worker(sights: list[SandboxSight]) -> None:
    assert decide_leftovers("abcd", sights, row(SandboxState.RUNNING), NOW) == []
