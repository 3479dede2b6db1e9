"""What counts as trouble, from when on, and what never does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.domain.notices import TROUBLES
from app.domain.ports import SandboxStatus
from app.domain.states import SandboxState
from app.domain.supervision import (
    FINAL,
    Listener,
    Observation,
    Thresholds,
    Trouble,
    Watched,
    decide_memory_gb,
    decide_observation,
    decide_trouble,
    is_out_of_memory,
)

T0 = datetime(2026, 1, 1, tzinfo=UTC)
S, M, H = (timedelta(**{unit: 1}) for unit in ("seconds", "minutes", "hours"))
RUNNING, ABSENT = SandboxStatus.RUNNING, SandboxStatus.ABSENT
AT_WORK = Watched(
    "sbx_1", "spec_1", "iw-x-sbx_1", SandboxState.RUNNING, T0, T0 + H, ordered_at=T0, started_at=T0,
    last_heartbeat_at=T0 + 20 * M, last_work_at=T0 + 20 * M, budget_usd=10.0,
)  # fmt: skip
NOW = T0 + 20 * M


def judged(
    now: datetime = NOW,
    sight: SandboxStatus | None = RUNNING,
    since_at: datetime | None = T0,
    **changes: Any,
) -> Trouble | None:
    return decide_trouble(replace(AT_WORK, **changes), sight, Observation(now, since_at), Thresholds())


def test_at_work_then_nothing_is_wrong() -> None:
    assert judged() is None
    assert judged(sight=None) is None


@pytest.mark.parametrize(
    ("after", "changes", "trouble"),
    [
        (121 * S, {}, Trouble.NO_HEARTBEAT),
        (119 * S, {}, None),
        (0 * S, {"last_work_at": NOW - 11 * M}, Trouble.IDLE),
        (0 * S, {"last_work_at": NOW - 9 * M}, None),
        (0 * S, {"last_work_at": NOW - 11 * M, "running": "Bash"}, None),
        (0 * S, {"last_work_at": NOW - 11 * M, "waiting": True}, None),
        (0 * S, {"last_work_at": NOW - 18 * M, "waiting": True}, None),
        (0 * S, {"last_work_at": None, "started_at": NOW - 11 * M}, Trouble.IDLE),
        (0 * S, {"gap_since_at": NOW - 3 * M}, Trouble.SPOOL_STOPPED),
        (0 * S, {"gap_since_at": NOW - 1 * M}, None),
        (0 * S, {"phase_ended_at": NOW - 6 * M}, Trouble.BETWEEN_PHASES),
        (0 * S, {"phase_ended_at": NOW - 4 * M}, None),
        (0 * S, {"phase_ended_at": NOW - 6 * M, "running": "setup command"}, None),
        (0 * S, {"phase_ended_at": NOW - 6 * M, "started_at": NOW - 1 * M}, None),
        (0 * S, {"deadline_at": NOW - S}, Trouble.TIME_LIMIT),
        (0 * S, {"spent_usd": 10.0}, Trouble.BUDGET),
        (0 * S, {"spent_usd": 10.0, "waiting": True}, None),
        (0 * S, {"spent_usd": 9.99}, None),
        (5 * M, {"handed_in": True}, None),
    ],
)
def test_each_trouble_shows_from_its_threshold_on(
    after: timedelta, changes: dict[str, Any], trouble: Trouble | None
) -> None:
    assert judged(NOW + after, **changes) is trouble


def test_finished_sandbox_that_never_goes_then_overstayed() -> None:
    stays = {"waiting": True, "last_work_at": T0, "last_heartbeat_at": NOW + M}
    assert judged(NOW + M, **stays) is Trouble.OVERSTAYED


@pytest.mark.parametrize(
    ("sight", "trouble"),
    [(ABSENT, Trouble.ABSENT), (SandboxStatus.EXITED, Trouble.ENDED), (SandboxStatus.ERROR, Trouble.ENDED)],
)
def test_provider_says_that_it_is_gone_then_at_once(sight: SandboxStatus, trouble: Trouble) -> None:
    assert judged(sight=sight) is trouble
    assert judged(sight=sight, handed_in=True) is None
    assert judged(sight=sight, since_at=None) is trouble, "that nobody hears it changes nothing"


def test_finished_sandbox_ends_by_itself_then_nothing_is_wrong() -> None:
    assert judged(sight=SandboxStatus.EXITED, waiting=True) is None


@pytest.mark.parametrize(
    ("sight", "ordered_ago", "trouble"),
    [
        (ABSENT, 2 * M, None),
        (ABSENT, 4 * M, Trouble.NOT_STARTED),
        (SandboxStatus.CREATING, 40 * M, None),
        (SandboxStatus.CREATING, 46 * M, Trouble.NOT_STARTED),
        (RUNNING, 46 * M, None),
        (None, 46 * M, None),
        (ABSENT, None, None),
    ],
)
def test_ordered_and_not_there_then_not_started_after_a_while(
    sight: SandboxStatus | None, ordered_ago: timedelta | None, trouble: Trouble | None
) -> None:
    ordered_at = NOW - ordered_ago if ordered_ago is not None else None
    assert judged(sight=sight, state=SandboxState.CREATING, ordered_at=ordered_at) is trouble


@pytest.mark.parametrize("hours", [1, 24])
def test_nobody_watched_for_long_then_silence_counts_from_the_first_look_on(hours: int) -> None:
    later = NOW + hours * H
    quiet = {"deadline_at": later + H}
    assert judged(later, since_at=later, **quiet) is None
    assert judged(later + 119 * S, since_at=later, **quiet) is None
    assert judged(later + 121 * S, since_at=later, **quiet) is Trouble.NO_HEARTBEAT


def test_no_web_process_is_up_then_silence_is_not_the_sandboxes() -> None:
    gone = decide_observation(NOW, T0, [Listener(T0, NOW - 2 * M)])
    assert gone == Observation(NOW, None)
    assert decide_trouble(AT_WORK, RUNNING, replace(gone, now=NOW + 30 * M), Thresholds()) is None


def test_web_process_came_back_then_silence_counts_from_its_start() -> None:
    assert decide_observation(NOW, T0, [Listener(NOW - M, NOW)]) == Observation(NOW, NOW - M)
    both = [Listener(NOW - M, NOW), Listener(T0 + M, NOW - S)]
    assert decide_observation(NOW, T0, both) == Observation(NOW, T0 + M)
    assert decide_observation(NOW, T0, []) == Observation(NOW, T0)


def test_memory_grows_after_it_ran_out_and_never_beyond_what_the_operator_allows() -> None:
    assert decide_memory_gb(4, None, 16, out_of_memory=False) == 4
    assert decide_memory_gb(4, 4, 16, out_of_memory=True) == 8
    assert decide_memory_gb(4, 8, 16, out_of_memory=False) == 8, "what it took stays"
    assert decide_memory_gb(4, 8, 12, out_of_memory=True) == 12
    assert decide_memory_gb(4, 4, 4, out_of_memory=True) == 4
    assert decide_memory_gb(8, 4, 4, out_of_memory=True) == 8


@pytest.mark.parametrize(
    ("reason", "exit_code", "expected"),
    [
        ("exit code 137", 137, True),
        ("memory", None, True),
        ("Daytona: Out of memory", None, True),
        ("cli_killed", None, True),
        ("exit code 1", 1, False),
        ("no_heartbeat", None, False),
    ],
)
def test_out_of_memory_is_told_by_reason_or_exit_code(
    reason: str, exit_code: int | None, *, expected: bool
) -> None:
    assert is_out_of_memory(reason, exit_code) is expected


def test_what_ends_the_work_has_a_sentence_for_people() -> None:
    assert set(TROUBLES) >= FINAL
    assert set(TROUBLES) >= set(Trouble) - {Trouble.ENDED, Trouble.OVERSTAYED}, "ended tells its own reason"
