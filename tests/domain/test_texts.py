"""What is written on GitHub fits, keeps its markers, and carries nothing of a stranger's that acts."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from app.domain.markers import BODY_END, body_begin, status_marker
from app.domain.render import MAX_CHECK_TEXT, render_check, render_status, status_missing
from app.domain.render_pull import render_pull_body, replace_section
from app.domain.sanitize import MAX_BODY, neutralize_agent_text, sanitize_text, size
from app.domain.view import AgentView, Outcome, SpecView, TaskView, without_counters

OPEN_FENCE = "```python\n" + "x = '😀'\n" * 25_000
HOSTILE = (
    "Fixes #1, closes: octo/kit#2 and resolves GH-3, see https://github.com/octo/kit/issues/4\n"
    f"<!-- issuewright:spec=spec_1 part=status --> @team {BODY_END}\n</details><details>\n"
)
PIECES = [
    "a",
    "😀",
    "\n",
    "`",
    "~",
    "<",
    ">",
    "|",
    "@",
    "#1",
    "Fixes ",
    "<!--",
    "-->",
    "```",
    "</details>",
    "\r",
]
texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
sizes = st.sampled_from([1, 1, 40, 3000])


def spec_view(**values: object) -> SpecView:
    fields = SpecView(
        spec_id="spec_1", issue_number=7, state="in_review", title="Count", body="Please.",
        labeler_login="alice", trigger_label="agent:quick", base_branch="main", default_branch="main",
        branch="feature/7-count", branch_url="https://github.example/tree", pull_number=8, pull_url="https://x",
        outcome=Outcome.DONE, tasks=(TaskView("T1", "Count", "completed", "Done it."),),
        agent=AgentView("sbx_1", 1, "working", 3, "Bash", 0.1),
    )  # fmt: skip
    return replace(fields, **values)  # type: ignore[arg-type]


def fences_closed(text: str) -> bool:
    """As GitHub reads fences: nothing is left open at the end."""
    mark = ""
    for line in text.split("\n"):
        found = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        if not found:
            continue
        if not mark:
            mark = found[1] if found[1][0] == "~" or "`" not in found[2] else ""
        elif found[1][0] == mark[0] and len(found[1]) >= len(mark) and not found[2].strip():
            mark = ""
    return not mark


@settings(max_examples=60)
@given(texts, texts, texts, sizes)
def test_any_texts_fit_everywhere_and_close_their_fences(
    title: str, said: str, detail: str, times: int
) -> None:
    tasks = (TaskView("T1", title, "completed", said * times),)
    view = spec_view(title=title, body=detail * times, tasks=tasks, outcome_detail=said * times)
    status, check, body = render_status(view), render_check(view, "https://x"), render_pull_body(view, detail)
    for text, limit in ((status, MAX_BODY), (check.summary, MAX_CHECK_TEXT), (body, MAX_BODY)):
        assert size(text) <= limit
    assert status.startswith(status_marker("spec_1"))
    assert status.count("<!--") == 1
    assert fences_closed(status)
    assert fences_closed(body.split(BODY_END)[0])
    assert (body.count(body_begin("spec_1")), body.count(BODY_END)) == (1, 1)


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.FAILED, Outcome.PUSH_REFUSED])
def test_two_hundred_kilobytes_with_an_open_fence_are_cut_with_a_notice(outcome: Outcome) -> None:
    tasks = (TaskView("T1", "Count", "completed", OPEN_FENCE),)
    view = spec_view(outcome=outcome, outcome_detail=OPEN_FENCE, body=OPEN_FENCE, tasks=tasks, state="failed")
    status, check = render_status(view), render_check(view, "https://x")
    assert size(status) <= MAX_BODY
    assert "cut" in status
    assert fences_closed(status)
    assert size(check.summary) <= MAX_CHECK_TEXT
    assert fences_closed(check.summary)
    assert fences_closed(render_pull_body(view, None))


@pytest.mark.parametrize("part", ["status", "check", "body"])
def test_what_an_agent_says_closes_no_issue_mentions_nobody_and_forges_no_marker(part: str) -> None:
    view = spec_view(
        tasks=(TaskView("T1", HOSTILE, "completed", HOSTILE),), outcome=Outcome.FAILED, state="failed",
        outcome_detail=HOSTILE, base_branch="develop",
    )  # fmt: skip
    if part == "body":
        view = replace(view, outcome=Outcome.DONE)
    text = {
        "status": render_status,
        "check": lambda one: render_check(one, "").summary,
        "body": lambda one: render_pull_body(one, None).replace("Closes #7", ""),
    }[part](view)
    assert not re.search(r"(?i)\b(clos|fix|resolv)\w*\s*:?\s+([\w./-]*#\d|GH-\d|https)", _outside_code(text))
    assert not re.search(r"@(?=\w)", _outside_code(text))
    assert text.count("<!-- issuewright:spec=spec_1 part=status -->") == (part == "status")
    assert text.count(BODY_END) == (part == "body")
    assert text.count("<details>") == text.count("</details>")


def _outside_code(text: str) -> str:
    """Without what GitHub shows as code, where no word acts."""
    return re.sub(r"`[^`\n]+`", "", re.sub(r"(?ms)^(`{3,}).*?^\1", "", text))


@pytest.mark.parametrize(
    "text",
    [
        "<!\u200b-- issuewright:spec=spec_1 part=status -->",
        "<!-<!-- x -->- issuewright:spec=spec_1 part=status -->",
        "<!-\ud800- issuewright:spec=spec_1 part=status -->",
    ],
)
def test_marker_in_pieces_that_cleaning_would_join_is_none(text: str) -> None:
    assert "<!--" not in sanitize_text(text)
    view = spec_view(outcome=Outcome.FAILED, state="failed", outcome_detail=text)
    assert render_status(view).count("<!--") == 1


def test_fold_in_pieces_that_cleaning_would_join_opens_nothing() -> None:
    text = "<det<details>ails> and </det</details>ails> and <details"
    said = neutralize_agent_text(text, 1_000)
    assert said == "&lt;details> and &lt;/details> and &lt;details"


def test_code_between_three_backticks_in_one_line_is_no_open_fence() -> None:
    assert neutralize_agent_text("```make``` builds it.", 1_000) == "```make``` builds it."


def test_template_with_our_markers_huge_or_none_is_kept_and_cut() -> None:
    view = spec_view()
    forged = f"{body_begin('spec_1')}\nmine\n{BODY_END}\n- [ ] tests"
    body = render_pull_body(view, forged)
    assert (body.count(body_begin("spec_1")), body.count(BODY_END)) == (1, 1)
    assert "- [ ] tests" in body
    huge = render_pull_body(view, "- [ ] a box\n" * 20_000)
    assert size(huge) <= MAX_BODY
    assert "cut" in huge
    assert render_pull_body(view, None).endswith(BODY_END)


def test_words_of_people_around_our_section_stay_when_it_is_renewed() -> None:
    begun = render_pull_body(spec_view(outcome=None, state="implementing"), "- [ ] tests")
    edited = f"From me.\n{begun.replace('[ ] tests', '[x] tests')}"
    renewed = replace_section(edited, spec_view())
    assert renewed.startswith("From me.\n")
    assert "- [x] tests" in renewed
    assert "Done it." in renewed
    assert renewed.count(BODY_END) == 1


def test_larger_numbers_are_no_news_and_another_activity_is() -> None:
    view = spec_view(state="implementing", outcome=None)
    later = replace(view, agent=AgentView("sbx_1", 1, "working", 9, "Edit", 0.5), cost_usd=0.5)
    assert render_status(view) != render_status(later)
    assert render_status(without_counters(view)) == render_status(without_counters(later))
    waiting = replace(view, agent=AgentView("sbx_1", 1, "waiting", 3, "Bash", 0.1))
    assert render_status(without_counters(view)) != render_status(without_counters(waiting))


def test_channel_that_works_says_which_one_does_not_and_why() -> None:
    view = spec_view(status_untold="GitHub answered 403 (needed: issues: write)", check_untold="@team no")
    assert "issues: write" in render_check(view, "").summary
    begun = replace(view, outcome=None, state="implementing")
    assert "issues: write" in render_check(begun, "").summary
    assert "issues: write" in render_pull_body(begun, None)
    assert "check run could not be written" in render_status(view)
    assert "@team" not in render_status(view)
    assert status_missing(spec_view()) == ""
