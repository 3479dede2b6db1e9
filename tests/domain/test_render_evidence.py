"""The table of acceptance criteria in a pull request's body."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings, strategies as st

from app.domain.render_evidence import evidence_lines, outcome_of_tests
from app.domain.sanitize import size
from app.domain.view import CriterionView, RunOfTests, SpecView

VIEW = SpecView("spec_1", 7, "in_review", "Title", "", "alice", "agent", flow="full")


def test_each_criterion_is_a_row_that_says_whether_it_is_met() -> None:
    criteria = (
        CriterionView("R1.1", "binomial(5, 2) is 10", met=True, evidence="test_small"),
        CriterionView("R1.2", "It is fast", met=False, evidence="took 9 s"),
        CriterionView("R2.1", "It is documented"),
    )
    lines = evidence_lines(replace(VIEW, criteria=criteria), 10_000)
    assert any("1 of 3 met" in line for line in lines)
    assert [line.split("|")[2].strip() for line in lines[-3:]] == ["✅ yes", "❌ no", "❔ not shown"]


def test_nothing_is_said_where_nobody_has_looked() -> None:
    assert evidence_lines(VIEW, 10_000) == []
    assert outcome_of_tests(VIEW) == []


def test_how_the_test_command_went_is_said_honestly() -> None:
    for exit_code, said in ((0, "passed"), (1, "exit code 1"), (None, "time limit")):
        assert said in outcome_of_tests(replace(VIEW, test=RunOfTests("make `test`", exit_code, 2.0)))[-1]


def test_what_does_not_fit_is_counted() -> None:
    many = tuple(CriterionView(f"R{n}.1", "x" * 200, met=True, evidence="y" * 200) for n in range(60))
    lines = evidence_lines(replace(VIEW, criteria=many), 5_000)
    assert size("\n".join(lines)) <= 5_000
    assert "more: `issuewright specs show spec_1`" in lines[-1]


@settings(max_examples=100)
@given(st.text(max_size=80), st.text(max_size=400), st.sampled_from([True, False, None]))
def test_no_text_breaks_out_of_its_cell(text: str, evidence: str, met: bool | None) -> None:
    rows = evidence_lines(replace(VIEW, criteria=(CriterionView("R1.1", text, met, evidence),)), 50_000)
    row = rows[-1]
    assert "\n" not in row
    assert row.replace("\\|", "").count("|") == 4
    assert "<!--" not in row
