"""The plan comment fits, stays whole whatever stands in a plan, and says what people need to answer."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from markdown_it import MarkdownIt

from app.domain.markers import plan_marker, questions_marker
from app.domain.render_plan import diff_plans, render_plan, render_questions
from app.domain.sanitize import MAX_BODY, size
from app.domain.view import (
    ComponentView,
    DesignView,
    PlanTaskView,
    PlanView,
    QuestionView,
    RequirementView,
)
from tests.domain.plan_samples import sample_outputs

HOSTILE = (
    "Closes #1, fixes octo/kit#2, GH-3, https://github.com/octo/kit/issues/4 @team\n"
    "<!-- issuewright:spec=spec_1 part=plan --><!\u200b-- issuewright:spec=spec_1 part=plan -->\n"
    "<!-<!-- x -->- issuewright:spec=spec_1 part=plan -->\n"
    "</details><details><summary>x</det<details>ails>\n```\nopen\n</details>\n~~~~\n| a | b |\n|---|---|\n# Title\n"
    "<pre>\n<?php\n<script>\n[x](javascript:y) ![i](http://h/i.png) &lt;details&gt;\n==="
)
PIECES = [
    "a", "😀", "\n", "\n\n", " ", "    ", "- ", "1. ", "# ", "> ", "`", "```", "~~~", "<", ">", "|", "@bob", "#1", "GH-1",
    "Closes ", "<!--", "-->", "<details>", "</details>", "<summary>", "\r", "\u200b", "\\", "&", "*", "_", "[x](y)", "<pre>",
    "===", "---", "http://h/", "\ud800", "\t",
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join), st.just(HOSTILE), st.text(max_size=40)
)


def a_plan(text: str, tasks: int = 3, **values: Any) -> PlanView:
    """A plan that says `text` wherever a model may say something."""
    files, keys = ((text, text),) * 3, (text,) * 3
    design = DesignView(
        text, (ComponentView(text, text, files, keys),) * 3, keys, keys, text, text, text, ((text, text),) * 2
    )
    plan = PlanView(
        spec_id="spec_1", issue_number=7, revision=2, full_hash="ab12cd34" * 8,
        requirements=(RequirementView(text, text, ((text, text),) * 3),) * max(tasks, 1),
        design=design,
        tasks=(PlanTaskView(text, text, text, text, keys, keys, keys, files, 2.0),) * tasks,
        assumptions=keys, out_of_scope=keys, scores=((text, 0.5),), coverage=((text, keys), (text, ())),
        conflicts=keys, changes=keys, approval_awaited=True, approved_by=text,
    )  # fmt: skip
    return replace(plan, **values)


def assert_whole(comment: str) -> None:
    """As GitHub reads it: it fits, every fold and fence is closed, and it carries one marker."""
    assert size(comment) <= MAX_BODY
    assert comment.startswith(plan_marker("spec_1"))
    assert comment.count("<!--") == 1
    opened, closed = len(re.findall(r"(?i)<details", comment)), len(re.findall(r"(?i)</details", comment))
    assert opened == closed == comment.count("<details><summary>") + comment.count("<details open><summary>")
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(comment)
    folds = [token.content.strip() for token in tokens if token.type == "html_block"]
    assert folds[0] == plan_marker("spec_1")
    # Each fold's two ends are seen as HTML of their own, at the top level: nothing between swallowed them.
    assert [fold.startswith("<details") for fold in folds[1:]] == [True, False] * opened
    assert all(fold == "</details>" for fold in folds[2::2])
    assert all(token.level == 0 for token in tokens if token.type == "html_block")
    assert not [token for token in tokens if token.type == "table_open"]
    assert [token.tag for token in tokens if token.type == "heading_open"] == ["h3"]
    # No fence runs on: the last line is text of its own.
    assert [token.type for token in tokens[-3:]] == ["paragraph_open", "inline", "paragraph_close"]
    assert tokens[-2].content.startswith("<sub>")
    _assert_nothing_acts(tokens)


def _assert_nothing_acts(tokens: list[Any]) -> None:
    for token in tokens:
        for child in token.children or ():
            assert child.type not in {"link_open", "image"}
            if child.type == "html_inline":
                assert child.content in {"<sub>", "</sub>"}
            if child.type == "text":
                assert not re.search(r"@[\w-]", child.content)
                assert not re.search(r"(?i)(#|GH-)\d", child.content)


@settings(max_examples=150)
@given(texts, st.integers(0, 4), st.booleans())
def test_any_text_in_any_field_leaves_the_comment_whole(text: str, tasks: int, waits: bool) -> None:
    assert_whole(render_plan(a_plan(text, tasks, approval_awaited=waits)))


@settings(max_examples=25)
@given(texts, st.sampled_from([400, 8_000]))
def test_sixty_tasks_of_maximal_length_fit(text: str, length: int) -> None:
    longest = ((text or "x") * length)[:length]
    comment = render_plan(a_plan(longest, 60))
    assert_whole(comment)


@pytest.mark.parametrize(
    "text", [HOSTILE * 30, "😀" * 8_000, "`" * 8_000, "\n```aa" * 57 + "\n", "<" * 8_000, "a\n" * 4_000]
)
def test_long_texts_of_one_kind_fit(text: str) -> None:
    assert_whole(render_plan(a_plan(text, 60)))
    assert_whole(render_plan(a_plan(text, 400)))


def test_plan_too_long_loses_descriptions_before_titles() -> None:
    tasks = tuple(
        PlanTaskView(f"T{n}", f"Title of {n}", "test", f"Description {n}. " + "word " * 700, estimate_hours=1)
        for n in range(1, 61)
    )
    comment = render_plan(replace(a_plan("short", 1), tasks=tasks))
    assert_whole(comment)
    assert all(f"**T{n}** Title of {n}" in comment for n in range(1, 61))
    shown = [n for n in range(1, 61) if f"Description {n}. " in comment]
    assert shown == list(range(1, len(shown) + 1))
    assert f"{60 - len(shown)} more task descriptions are left out here" in comment
    assert comment.count("word ") == 700 * len(shown) - len(shown)  # each whole, but for the blank at its end


def test_sixty_tasks_render_in_well_below_fifty_milliseconds() -> None:
    plan = a_plan("A sentence with `code` and more words. " * 20, 60)
    best = min(_seconds(plan) for _ in range(5))
    assert best < 0.05


def _seconds(plan: PlanView) -> float:
    begin = time.process_time()
    render_plan(plan)
    return time.process_time() - begin


def test_plan_is_read_from_the_phases_in_the_order_of_sync() -> None:
    sync = {
        "order": ["T2", "T1"],
        "depends_on": {"T1": ["T2"], "T2": []},
        "coverage": {"R1": ["T2", "T1"], "R2": []},
        "conflicts": [{"first": "T2", "second": "T1", "paths": ["README.md"]}],
    }
    plan = PlanView.of(
        sample_outputs(), sync, spec_id="spec_1", issue_number=7, revision=1, full_hash="ab12cd34" * 8,
        scores={"design": 0.756}, approval_awaited=True,
    )  # fmt: skip
    comment = render_plan(plan)
    assert_whole(comment)
    assert comment.index("- [ ] **T2** Tell of it\n") < comment.index("- [ ] **T1** Add choose (after T2)\n")
    assert "  ```python\n  def choose(n, k): ...\n  ```" in comment
    assert (
        "**R1** WHEN `choose(n, k)` is called, THE library SHALL return the exact number. → T2, T1" in comment
    )
    assert "  - R1.1: `choose(4, 2)` is 6" in comment
    assert "No task serves R2." in comment
    assert "T1 waits for T2, since both change `README.md`." in comment
    assert "`kit/choose.py` (create)" in comment
    assert "2 tasks, about 2.5 h of a person's work, 2 requirements." in comment
    assert "design 0.76" in comment
    assert f"`{'ab12cd34' * 8}`" in comment


def test_without_a_sync_output_the_plans_own_order_and_references_count() -> None:
    plan = PlanView.of(sample_outputs(), {}, spec_id="spec_1", issue_number=7, revision=1, full_hash="0" * 64)
    assert [task.key for task in plan.tasks] == ["T1", "T2"]
    assert dict(plan.coverage) == {"R1": ("T1", "T2"), "R2": ()}


def test_comment_says_how_to_answer_who_approved_or_that_it_goes_on() -> None:
    waits = render_plan(a_plan("x", approved_label="ok:go"))
    assert "comment `/agent approve ab12cd34` or set the label `ok:go`" in waits
    approved = render_plan(a_plan("x", approval_awaited=False, approved_by="carol"))
    assert "Approved by carol." in approved
    assert "/agent approve" not in approved
    assert "the work goes on" in render_plan(a_plan("x", approval_awaited=False, approved_by=""))


def test_what_the_model_wrote_stays_readable() -> None:
    text = "Use `a_b` in C(n, k).\n\n- first\n  - second\n1) third\n\n2026. A year."
    html = MarkdownIt("gfm-like", {"linkify": False}).render(render_plan(a_plan(text, 1)))
    assert "Use <code>a_b</code> in C(n, k)." in html
    assert re.search(r"<ul>\s*<li>first\s*<ul>\s*<li>second</li>", html)
    assert "2026\u2060. A year." in html


def test_questions_are_asked_in_one_comment_that_fits() -> None:
    asked = (QuestionView("Q1", "Which port?"), QuestionView("Q2", "Which name?", blocking=False))
    comment = render_questions("spec_1", asked, ("Port 80.",))
    assert comment.startswith(questions_marker("spec_1"))
    assert "**Q1** Which port?\n" in comment
    assert "Which name? *(the agent can go on without)*" in comment
    assert "- Port 80." in comment
    long = render_questions("spec_1", (QuestionView(HOSTILE, HOSTILE * 20),) * 400, (HOSTILE * 20,) * 400)
    assert size(long) <= MAX_BODY
    assert (long.count("<!--"), long.count("<details>"), long.count("</details>")) == (1, 1, 1)
    assert " more: `issuewright specs show spec_1`" in long


def test_same_plan_has_no_differences() -> None:
    assert diff_plans(sample_outputs(), sample_outputs()) == ()


def test_differences_are_told_in_sentences() -> None:
    new = sample_outputs()
    new["requirements"]["requirements"][0]["criteria"][0]["text"] = "`choose(4, 2)` is 6, exactly"
    new["requirements"]["requirements"][1] |= {"id": "R3"}
    new["requirements"]["assumptions"] = ["Integers\nonly."]
    new["design"]["security"] = "Checked."
    new["tasks"]["tasks"][0] |= {"title": "Add choose()", "depends_on": ["T2"]}
    assert diff_plans(sample_outputs(), new) == (
        "Requirement R3 is new: IF k > n, THE library SHALL raise.",
        "Requirement R2 is gone: IF k > n, THE library SHALL raise.",
        "Requirement R1 changed (acceptance criteria): WHEN `choose(n, k)` is called, THE library SHALL return the "
        "exact number.",
        "Task T1 changed (title, what it waits for): Add choose()",
        "The design changed: security.",
        "New under assumptions: Integers only.",
        "No longer under assumptions: Whole numbers only.",
    )


def test_tasks_that_only_moved_are_told_once() -> None:
    new = sample_outputs()
    new["tasks"]["tasks"].reverse()
    assert diff_plans(sample_outputs(), new) == ("The tasks stand in another order.",)


@settings(max_examples=50)
@given(texts, texts)
def test_differences_with_any_text_are_single_lines(one: str, other: str) -> None:
    old, new = sample_outputs(), sample_outputs()
    for outputs, text in ((old, one), (new, other)):
        outputs["requirements"]["requirements"][0]["statement"] = text
        outputs["requirements"]["assumptions"] = [text]
        outputs["tasks"]["tasks"][0] |= {"id": text, "title": text}
    assert all("\n" not in sentence and len(sentence) < 500 for sentence in diff_plans(old, new))
