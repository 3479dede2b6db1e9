"""The status comment and the pull request of a spec that is planned."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from app.domain.notices import REVISION_FAILED
from app.domain.render import headline, render_check, render_status
from app.domain.render_planning import duration
from app.domain.render_pull import render_pull_body
from app.domain.replies import RetryRefusal, RetryRefused, render_retry_refused
from app.domain.sanitize import MAX_BODY, size
from app.domain.states import SpecState
from app.domain.view import AgentView, Outcome, PhaseView, SpecView, TaskView, without_counters
from tests.domain.test_render_plan import HOSTILE, texts
from tests.domain.test_texts import fences_closed

PHASES = (
    PhaseView("explore", "completed", 12.2, 1, 0.95),
    PhaseView("requirements", "running", None, 2, None),
    PhaseView("design", "pending", None, 0, None),
)
TASKS = (
    TaskView("T2", "Tell of it", "pending", position=3, depends_on=("T1", "T3")),
    TaskView("T1", "Add choose", "completed", "Added.", position=1),
    TaskView("T3", "Test it", "running", position=2),
)


def planned(state: str, **values: Any) -> SpecView:
    view = SpecView(
        spec_id="spec_1", issue_number=7, state=state, title="Count", body="Please.", labeler_login="alice",
        trigger_label="agent:plan", base_branch="main", default_branch="main", flow="plan", phases=PHASES,
        agent=AgentView("sbx_1", 1, "working", 3, "Bash", 0.1), plan_hash="ab12cd34", plan_url="https://h/c2",
    )  # fmt: skip
    return replace(view, **values)


def implementing(**values: Any) -> SpecView:
    branch = {"branch": "feature/7-count", "branch_url": "https://h/b", "pull_number": 8, "tasks": TASKS}
    return planned(**{"state": "implementing", **branch, **values})


def test_planning_shows_phases_with_time_attempts_and_quality() -> None:
    status = render_status(planned("planning"))
    assert "### 🧭 Planning: requirements\n" in status
    assert "- [x] explore (12 s, quality 0.95)\n- [ ] requirements (attempt 2) ⏳\n- [ ] design\n" in status


@pytest.mark.parametrize(
    ("phases", "words"),
    [((), "getting ready"), (PHASES[:1], "going over the plan"), (PHASES[2:], "design")],
)
def test_headline_of_planning_names_the_first_unfinished_phase(
    phases: tuple[PhaseView, ...], words: str
) -> None:
    assert headline(planned("planning", phases=phases)) == f"🧭 Planning: {words}"


def test_failed_phase_tells_what_is_missing() -> None:
    findings = tuple(f"requirements[{n}]: R{n} has no criterion @team" for n in range(12))
    failed = PhaseView("requirements", "failed", 90.0, 3, None, findings)
    status = render_status(planned("failed", phases=(PHASES[0], failed), outcome=Outcome.FAILED))
    assert (
        "- [ ] requirements (1 min 30 s, 3 attempts) ❌\n  - requirements\\[0\\]: R0 has no criterion"
        in status
    )
    assert "  - and 2 more findings\n" in status
    assert "@team" not in status
    assert "comment `/agent retry`, or set the label again" in status


def test_note_that_quotes_a_sandbox_mentions_nobody_and_stays_in_its_quote() -> None:
    note = REVISION_FAILED.format(reason="It lacked\n\n- a </details> @acme/team Closes #5\n- b")
    status = render_status(planned("awaiting_approval", notes=(note,)))
    assert "@acme" not in status
    assert "Closes #5" not in status
    assert "It lacked\n>\n> - a" in status
    assert "\n> - b\n" in status


@pytest.mark.parametrize("state", ["failed", "cancelled", "completed"])
def test_after_the_end_no_agent_is_at_work(state: str) -> None:
    status = render_status(planned(state, outcome=Outcome.FAILED))
    assert "| Agent | ended, 3 tool calls" in status
    assert "now `Bash`" not in status


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (SpecState.AWAITING_APPROVAL, "The plan waits for approval"),
        (SpecState.IN_REVIEW, "It is built and in review"),
        (SpecState.IMPLEMENTING, "it is at work now"),
    ],
)
def test_retry_of_what_has_not_failed_says_how_it_stands(state: SpecState, words: str) -> None:
    assert words in render_retry_refused(RetryRefused(RetryRefusal.AT_WORK, state=state))


def test_approval_awaited_says_what_and_how_to_answer() -> None:
    view = planned("awaiting_approval", approval_awaited=True, questions_url="https://h/c3")
    status = render_status(view)
    assert "### ⏸️ Waiting for approval of plan `ab12cd34`\n" in status
    assert "[The plan](https://h/c2) waits for someone with write access.** To approve, comment" in status
    assert "`/agent approve ab12cd34` or set the label `agent:approved`" in status
    assert "[asked here](https://h/c3)" in status
    assert "`yes, go`" in render_status(replace(view, approved_label="yes, go"))


def test_tasks_stand_in_their_order_with_their_states() -> None:
    status = render_status(implementing(approved_by="carol"))
    assert "### 🛠️ The agent is at work: task 2 of 3\n" in status
    assert "[`ab12cd34`](https://h/c2), approved by carol |" in status
    assert (
        "- [x] **T1** Add choose\n- [ ] **T3** Test it ⏳\n- [ ] **T2** Tell of it (after T1, T3)\n" in status
    )
    assert "<details><summary>What the agent says on T1</summary>\n\nAdded.\n" in status


def test_tasks_side_by_side_are_all_named() -> None:
    tasks = tuple(TaskView(f"T{n}", "x", "running", position=n) for n in (1, 2, 3))
    pending = TaskView("T4", "x", "pending", position=4)
    view = implementing(tasks=(*tasks, pending))
    assert headline(view) == "🛠️ Agents are at work: tasks 1, 2 and 3 of 4"


def test_one_task_or_none_at_work_needs_no_count() -> None:
    assert headline(implementing(tasks=TASKS[2:])) == "🛠️ The agent is at work"
    assert headline(implementing(tasks=TASKS[:2], agent=None)) == "🚚 Starting the agent"
    assert headline(implementing(cancel_asked=True)) == "🛑 Stopping: the agent wraps up"


def test_ended_tasks_say_how() -> None:
    tasks = (TaskView("T1", "x", "failed", position=1), TaskView("T2", "y", "cancelled", position=2))
    status = render_status(implementing(state="failed", outcome=Outcome.FAILED, tasks=tasks))
    assert "- [ ] **T1** x ❌ failed\n- [ ] **T2** y 🛑 cancelled\n" in status


def test_pull_request_shows_the_same_tasks_and_until_the_end_only_what_stays_true() -> None:
    body = render_pull_body(implementing(), None)
    assert "- [ ] **T1** Add choose\n- [ ] **T3** Test it\n- [ ] **T2** Tell of it (after T1, T3)\n" in body
    assert "Closes #7" in body
    ended = render_pull_body(implementing(state="failed", outcome=Outcome.FAILED), None)
    assert "- [x] **T1** Add choose\n- [ ] **T3** Test it ⏳\n" in ended


def test_check_run_says_until_the_end_only_what_stays_true() -> None:
    """It is written once for each head: whoever waits for a sandbox meanwhile, or works on which task, is told elsewhere."""
    views = (
        implementing(),
        implementing(agent=None),
        implementing(tasks=TASKS[2:], waits_for="a free sandbox"),
    )
    assert len({render_check(view, "https://h") for view in views}) == 1
    assert render_check(views[0], "https://h").title == "🛠️ The work is under way"


def test_larger_numbers_are_no_news_while_planning_and_a_phase_is() -> None:
    view = planned("planning")
    later = replace(view, agent=AgentView("sbx_1", 1, "working", 9, "Read", 0.9), cost_usd=0.9)
    assert render_status(without_counters(view)) == render_status(without_counters(later))
    running = replace(PHASES[1], seconds=5.0)
    assert render_status(view) == render_status(replace(view, phases=(PHASES[0], running, PHASES[2])))
    done = replace(PHASES[1], state="completed", seconds=5.0)
    further = replace(view, phases=(PHASES[0], done, PHASES[2]))
    assert render_status(without_counters(view)) != render_status(without_counters(further))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3_725, "1 h 2 min"), (-3, "0 s")]
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@settings(max_examples=60)
@given(texts, st.sampled_from([1, 40, 2_000]), st.sampled_from([0, 3, 60]), st.sampled_from(list(Outcome)))
def test_any_text_of_a_model_leaves_status_and_pull_request_whole(
    text: str, times: int, tasks: int, outcome: Outcome
) -> None:
    said = text * times
    phases = tuple(PhaseView("design", "failed", 1.0, 3, 0.5, (said,) * 20) for _ in range(5))
    view = implementing(
        phases=phases, title=said, body=said, outcome=outcome, state="failed", outcome_detail=said,
        tasks=(TaskView(said, said, "completed", said, 1, (said,) * 60, said),) * tasks, approved_by=said,
    )  # fmt: skip
    _assert_whole(render_status(view))
    _assert_whole(render_pull_body(view, None))


@pytest.mark.parametrize(
    "text", ["😀" * 70_000, "`" * 70_000, HOSTILE * 100, "<details " * 9_000, "a\n" * 40_000]
)
def test_longest_texts_leave_the_status_comment_whole(text: str) -> None:
    tasks = (TaskView(text, text, "pending", text, 1, (text,) * 60, text),) * 60
    failed = PhaseView("tasks", "failed", 1.0, 3, None, (text,) * 20)
    view = implementing(
        phases=(failed,) * 5, title=text, body=text, outcome=Outcome.FAILED, state="failed", outcome_detail=text,
        tasks=tasks,
    )  # fmt: skip
    _assert_whole(render_status(view))
    _assert_whole(render_pull_body(view, None))
    quick = replace(view, flow="quick", phases=(), tasks=tasks[:1])
    _assert_whole(render_status(quick))


def _assert_whole(comment: str) -> None:
    assert size(comment) <= MAX_BODY
    assert fences_closed(comment)
    outside = _outside_fences(comment)
    assert outside.count("<details>") == outside.count("</details>")
    assert len(re.findall(r"(?i)<details", outside)) == outside.count("<details>")
    assert comment.rstrip().endswith(("</sub>", "<!-- issuewright:end -->"))
    assert len(re.findall(r"<!-- issuewright:", comment)) == (2 if "part=body" in comment else 1)


def _outside_fences(comment: str) -> str:
    tokens = MarkdownIt("commonmark", {"html": False}).parse(comment)
    spans = [token.map for token in tokens if token.type == "fence" and token.map]
    lines = comment.split("\n")
    return "\n".join(
        line for at, line in enumerate(lines) if not any(begin <= at < end for begin, end in spans)
    )
