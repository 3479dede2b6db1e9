"""Each rule of the guardian: what it finds, and what it lets pass."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from app.domain.guardian import (
    CALLS_WITHOUT_CHANGE,
    MAX_NUDGES,
    READ,
    WARNINGS,
    Answer,
    Finding,
    Job,
    Rule,
    Seen,
    Trail,
    decide_answer,
    find_spending,
    follow,
)
from app.domain.guardian_signs import is_test, normalize_command
from app.domain.guardian_texts import PHRASES, reminder_lines, render_nudge, render_paused

JOB = Job("sbx_1")
Told = tuple[str, dict[str, Any]]


def bash(command: str) -> Told:
    return "agent.tool_use", {"tool": "Bash", "input": {"command": command}, "tool_use_id": "t"}


def read(path: str) -> Told:
    return "agent.tool_use", {"tool": "Read", "input": {"file_path": path}}


def error(text: str) -> Told:
    return "agent.user_tool_result", {"is_error": True, "content": text}


def edited(path: str, *, removed: str = "", added: str = "", change: str = "modified") -> Told:
    minus = "".join(f"-{line}\n" for line in removed.splitlines())
    plus = "".join(f"+{line}\n" for line in added.splitlines())
    diff = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n{minus}{plus}"
    return "agent.file_edited", {"file_path": path, "change": change, "full_diff": diff}


def within(path: str, above: str, added: str) -> Told:
    """A line below one that stood there."""
    diff = f"--- a/{path}\n+++ b/{path}\n@@ -1 +1,2 @@\n {above}\n+{added}\n"
    return "agent.file_edited", {"file_path": path, "change": "modified", "full_diff": diff}


def deleted(path: str, content: str = "def test_it(): ...") -> Told:
    return edited(path, removed=content, change="deleted")


def created(path: str, content: str = "def test_it(): ...") -> Told:
    return edited(path, added=content, change="created")


def find(told: Iterable[Told], job: Job = JOB, trail: Trail | None = None) -> Finding | None:
    events = [Seen(seq, event_type, data) for seq, (event_type, data) in enumerate(told, 1)]
    return follow(Trail() if trail is None else trail, job, events)


def rule_of(told: Iterable[Told], job: Job = JOB) -> Rule | None:
    found = find(told, job)
    return None if found is None else found.rule


# ---------------------------------------------------------------- commands


def test_same_command_five_times_without_a_change_then_found_however_its_output_is_cut() -> None:
    told = [
        "make test",
        "make  test 2>&1",
        "make test | tail -5",
        "cd /w && make test",
        "timeout 60 make test",
    ]
    others = [bash("ls"), bash("pwd"), read("a.py"), read("b.py"), bash("git status")]
    mixed = itertools.chain.from_iterable(zip(map(bash, told), others, strict=True))
    found = find(mixed)
    assert found is not None
    assert (found.rule, found.count, found.detail) == (Rule.COMMAND, 5, "make test")


def test_same_command_with_a_change_in_between_then_nothing_is_found() -> None:
    rounds = [[bash("make test"), edited("a.py", removed=f"{n}", added=f"{n + 1}")] for n in range(30)]
    assert find(itertools.chain.from_iterable(rounds)) is None


@pytest.mark.parametrize(
    "told",
    [
        [bash("make test")] * 4,
        [bash(f"sed -n {n},{n + 99}p big.py") for n in range(1, 900, 100)],
        [read(f"{n}.py") for n in range(30)],
        [("agent.tool_use", {"tool": "BashOutput", "input": {"bash_id": "b1"}})] * 30,
        [bash("make test"), *[bash(f"echo {n}") for n in range(6)]] * 4,
        [bash(f"cd packages/{name} && npm test") for name in "abcdef"],
        [bash(f"cd /workspace/packages/{name} && npm test") for name in "abcdef"],
        [bash(f"make test | tail -5 && cat {name}.log") for name in "abcdef"],
    ],
    ids=[
        "four times",
        "pages of a file",
        "many files",
        "news of a command in the background",
        "far between",
        "in other directories",
        "in others from the root",
        "another command after it",
    ],
)
def test_calls_that_are_no_loop_then_nothing_is_found(told: list[Told]) -> None:
    assert find(told) is None


def test_commands_are_told_apart_by_all_but_how_much_is_shown() -> None:
    assert normalize_command("cat a | grep b") == "cat a | grep b"
    assert normalize_command("cat a | grep b | head -3") == "cat a | grep b"
    assert normalize_command("cat a | tail -n +5") == "cat a"
    assert normalize_command("cat a | head -3; cat b") == "cat a | head -3; cat b"
    assert normalize_command("cd /workspace && make") == "make"
    assert normalize_command("cd web && timeout 60 make") == "cd web && make"
    assert normalize_command("") == normalize_command("| tail") == ""


# ---------------------------------------------------------------- errors


def test_same_error_three_times_then_found_whatever_numbers_stand_in_it() -> None:
    texts = [f"Exit code 1\nE   assert {n} == 10 in 0.{n}s at 0x7f{n}c" for n in (1, 22, 333)]
    found = find([one for text in texts for one in (bash(f"try {len(text)}"), error(text))])
    assert found is not None
    assert found.rule is Rule.ERROR
    assert "assert" in found.detail


def test_same_error_in_blocks_of_text_then_found() -> None:
    blocks = (
        "agent.user_tool_result",
        {"is_error": True, "content": [{"type": "text", "text": "The module has no such name."}]},
    )
    assert rule_of([blocks] * 3) is Rule.ERROR


@pytest.mark.parametrize(
    "told",
    [
        [error("the module has no such name"), error("the file is not there at all"), error("it is neither of these")],
        [error("Exit code 1")] * 9,
        [("agent.user_tool_result", {"is_error": False, "content": "the module has no such name"})] * 9,
        [error("the module has no such name")] * 2,
        [error(f"<tool_use_error>File has {what}</tool_use_error>")
          for what in ("not been read yet. Read it first before writing to it.", "been modified since read, either by "
                       "the user or by a linter. Read it again before attempting to write it.") for _ in range(5)],
    ],
    ids=["others", "says nothing", "no errors", "twice", "files to be read first"],
)  # fmt: skip
def test_errors_that_are_no_loop_then_nothing_is_found(told: list[Told]) -> None:
    assert find(told) is None


# ---------------------------------------------------------------- edits


def test_change_made_and_undone_and_made_and_undone_then_found() -> None:
    forth, back = (
        edited("a.py", removed="x = 1", added="x = 2"),
        edited("a.py", removed="x = 2", added="x = 1"),
    )
    found = find([forth, bash("make"), back, bash("make"), forth, bash("make"), back])
    assert found is not None
    assert (found.rule, found.detail, found.count) == (Rule.EDIT, "a.py", 4)


def test_same_line_added_three_times_then_found() -> None:
    assert rule_of([edited("a.py", added="import os")] * 3) is Rule.EDIT


@pytest.mark.parametrize(
    "told",
    [
        [edited("a.py", removed=f"{n}", added=f"{n + 1}") for n in range(30)],
        [edited(f"{n}.py", removed="x = 1", added="x = 2") for n in range(30)],
        [edited("a.py", removed="x", added="y"), edited("a.py", removed="y", added="x")],
        [("agent.file_edited", {"file_path": "a.png", "change": "modified", "full_diff": ""})] * 9,
    ],
    ids=["others", "other files", "undone once", "binary"],
)
def test_edits_that_are_no_loop_then_nothing_is_found(told: list[Told]) -> None:
    assert find(told) is None


# ---------------------------------------------------------------- no change


def many_reads(count: int) -> list[Told]:
    return [read(f"{n}.py") for n in range(count)]


def test_many_calls_without_a_change_then_found_where_the_task_is_to_change_files() -> None:
    assert rule_of(many_reads(CALLS_WITHOUT_CHANGE)) is Rule.NO_CHANGE
    assert rule_of(many_reads(CALLS_WITHOUT_CHANGE - 1)) is None
    half = many_reads(CALLS_WITHOUT_CHANGE // 2)
    assert rule_of([*half, edited("a.py", added="x"), *half]) is None
    assert rule_of(many_reads(500), Job("sbx_1", changes_files=False)) is None


# ---------------------------------------------------------------- files outside


NAMED = Job("sbx_1", files={"src/count.py": "modify"})


def test_three_files_that_the_task_does_not_name_then_warned_once() -> None:
    trail = Trail()
    told = [edited(f"other/{name}.py", added=name) for name in "abc"]
    found = find(told, NAMED, trail)
    assert found is not None
    assert (found.rule, found.detail, found.count) == (Rule.OUTSIDE, "other/c.py", 3)
    trail.take_in()
    assert find([edited(f"more/{name}.py", added=name) for name in "abcdef"], NAMED, trail) is None


@pytest.mark.parametrize(
    ("job", "paths"),
    [
        (JOB, [f"other/{n}.py" for n in range(9)]),
        (NAMED, [f"src/{n}.py" for n in range(9)]),
        (NAMED, ["tests/test_count.py", "other/test_a.py", "tests/data/a.json", "lib/count_test.go", "spec/b.rb"]),
        (NAMED, ["other/a.py", "other/a.py", "docs/b.md"]),
    ],
    ids=["names no files", "beside them", "tests", "two"],
)  # fmt: skip
def test_files_that_are_well_within_the_task_then_nothing_is_found(job: Job, paths: list[str]) -> None:
    assert find([edited(path, added=f"{n}") for n, path in enumerate(paths)], job) is None


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize(
    "told",
    [
        [deleted("tests/test_a.py")],
        [deleted("src/a.test.ts")],
        [edited("tests/test_a.py", added="@pytest.mark.skip(reason='later')")],
        [edited("tests/test_a.py", added="@pytest.mark.xfail")],
        [edited("tests/test_a.py", added="    self.skipTest('no')")],
        [edited("tests/test_a.py", added="    if True:\n        pytest.skip('no')")],
        [edited("tests/test_a.py", added="    except Exception:\n        pytest.skip('no')")],
        [edited("tests/test_a.py", added="    if f():\n        g()\n    pytest.skip('no')")],
        [within("tests/test_a.py", "def test_it():", "    pytest.skip('no')")],
        [
            edited(
                "tests/test_a.py",
                removed="    if f():\n        pytest.skip('no')",
                added="    pytest.skip('no')",
            )
        ],
        [edited("tests/test_a.py", removed="assert f() == 3", added="    assert True")],
        [edited("a.spec.js", added="it.only('works', () => {")],
        [edited("a.spec.js", added="  describe.skip('all', () => {")],
        [edited("a_test.go", added="\tt.Skip()")],
        [edited("tests/all.rs", added="#[ignore]")],
        [edited("tests/test_a.py", added="    @unittest.expectedFailure")],
        [edited("tests/test_a.py", added="@skip('later')")],
        [edited("tests/test_a.py", added="    @mark.xfail(strict=False)")],
        [edited("a.spec.ts", added="  fit('works', () => {")],
        [edited("a.spec.ts", added="fdescribe('all', () => {")],
        [edited("a.test.ts", added="  test.failing('works', () => {")],
        [edited("spec/a_spec.rb", added="    xit 'works' do")],
        [edited("spec/a_spec.rb", added='    skip "later"')],
        [edited("CountTests.cs", added='    [Fact(Skip = "later")]')],
        [edited("CountTest.php", added="        $this->markTestSkipped('later');")],
        [edited("Tests/CountTests.swift", added='        throw XCTSkip("later")')],
        [edited("count_test.exs", added="  @tag :skip")],
        [edited("tests/count_test.cc", added="  GTEST_SKIP();")],
        [
            edited(
                "tests/test_a.py", removed="@pytest.mark.skip", added="@pytest.mark.skip\n@pytest.mark.skip"
            )
        ],
        [edited("src/test/CountTest.java", added="@Disabled")],
        [created("tests/test_new.py", "def test_it():\n    assert True")],
    ],
)
def test_test_is_deleted_or_taken_out_of_force_then_found_with_the_next_step(told: list[Told]) -> None:
    found = find([bash("mend it"), *told, bash("make test")])
    assert found is not None
    assert found.rule is Rule.TESTS
    path = told[0][1]["file_path"]
    assert path in found.detail


SKIPPED = "@pytest.mark.skip\ndef test_it():\n    assert it()"


def written(*names: str) -> str:
    return "\n".join(f"def test_{name}():\n    assert {name}() == 1\n" for name in names)


@pytest.mark.parametrize(
    ("told", "detail"),
    [
        ([edited("tests/test_a.py", removed=written("a"))], "tests/test_a.py: 1 test fewer"),
        ([edited("tests/test_a.py", removed=written("a", "b", "c"), added=written("b"))], "2 tests fewer"),
        ([edited("tests/test_a.py", removed="def test_a():", added="# def test_a():")], "1 test fewer"),
        ([edited("tests/test_a.py", removed="def test_a():", added="def no_test_a():")], "1 test fewer"),
        ([edited("tests/test_a.py", removed="    async def test_a(self):")], "1 test fewer"),
        ([edited("a.test.ts", removed="  it('adds', () => {\n  })")], "a.test.ts: 1 test fewer"),
        ([edited("a.spec.js", removed="test.each([[1, 2]])('adds', f)")], "a.spec.js: 1 test fewer"),
        ([edited("a_test.go", removed="func TestAdd(t *testing.T) {\n}")], "a_test.go: 1 test fewer"),
        ([edited("src/lib.rs", removed="    #[test]\n    fn adds() {\n    }")], "src/lib.rs: 1 test fewer"),
        ([edited("src/lib.rs", removed="    #[tokio::test]")], "src/lib.rs: 1 test fewer"),
        ([edited("src/test/CountTest.java", removed="    @Test\n    void adds() {")], "1 test fewer"),
        ([edited("spec/a_spec.rb", removed='  it "adds" do')], "1 test fewer"),
        ([edited("tests/test_a.py", removed=written("a")), edited("tests/test_b.py", removed=written("a"))],
         "tests/test_a.py: 1 test fewer"),
        ([deleted("tests/test_a.py"), created("tests/test_b.py", "")], "tests/test_a.py: 1 test fewer"),
        ([deleted("tests/test_a.py"), created("tests/test_b.py", "import pytest")], "tests/test_a.py"),
        ([deleted("tests/test_a.py", written("a", "b", "c")), created("tests/test_b.py")], "2 tests fewer"),
        ([deleted("conftest.py", "import pytest"), created("tests/test_b.py", "")], "conftest.py deleted"),
        ([created("tests/u/test_a.py"), bash("ls"), deleted("tests/test_a.py", written("a", "b"))], "2 tests fewer"),
        ([edited("tests/test_b.py", added=written("b")), bash("ls"), edited("tests/test_a.py", removed=written("a"))],
         "tests/test_a.py: 1 test fewer"),
        ([edited("tests/test_b.py", added=written("a")), edited("tests/test_a.py", removed=written("a")), bash("ls"),
          edited("tests/test_b.py", removed=written("a"))], "tests/test_b.py: 1 test fewer"),
        ([edited("tests/test_a.py", removed=written("a"), added=written("b")), bash("ls"),
          edited("tests/test_a.py", removed=written("b"))], "tests/test_a.py: 1 test fewer"),
        ([edited("tests/test_a.py", removed=written(*(f"t{n}" for n in range(900))), added="x = 1")], "tests fewer"),
    ],
)  # fmt: skip
def test_tests_within_a_file_become_fewer_then_found_with_the_next_step(
    told: list[Told], detail: str
) -> None:
    found = find([bash("mend it"), *told, bash("make test")])
    assert found is not None
    assert found.rule is Rule.TESTS
    assert detail in found.detail


@pytest.mark.parametrize(
    "told",
    [
        [edited("tests/test_a.py", removed=written("a"), added=written("b"))],
        [edited("tests/test_a.py", removed="def test_a():", added="def test_a(tmp_path):")],
        [edited("tests/test_a.py", removed=written("a")), created("tests/test_b.py", written("a"))],
        [created("tests/test_b.py", written("a")), bash("ls"), edited("tests/test_a.py", removed=written("a"))],
        [edited("tests/test_a.py", added=written("a")), bash("ls"), edited("tests/test_a.py", removed=written("a"))],
        [edited("src/test/CountTest.java", removed="  @Test\n  void adds() {", added="  @Test\n  void sums() {")],
        [edited("tests/test_a.py", removed="def helper():\n    it(1)")],
        [edited("src/a.py", removed="def test_connection():")],
        [edited("README.md", removed="def test_a():")],
        [deleted("tests/test_a.py", written("a", "b")), created("tests/unit/test_a.py", written("b", "c"))],
        [created("tests/unit/test_a.py", written("c", "d")), bash("ls"), deleted("tests/test_a.py", written("a"))],
    ],
    ids=[
        "renamed", "other arguments", "moved", "moved, step by step", "its own", "renamed in Java", "no head of a test",
        "no test", "in words", "a file moved", "a file written anew",
    ],
)  # fmt: skip
def test_tests_within_a_file_are_renamed_or_moved_then_nothing_is_found(told: list[Told]) -> None:
    assert find([bash("mend it"), *told, bash("make test")]) is None


@pytest.mark.parametrize(("unseen", "detail"), [(900, ""), (3, ""), (1, "2 tests fewer")])
def test_change_is_not_shown_whole_then_tests_are_missed_that_no_unseen_line_can_stand_for(
    unseen: int, detail: str
) -> None:
    kind, data = edited("tests/test_a.py", removed=written("a", "b", "c"), added="x = 1")
    found = find([(kind, data | {"lines_added": 1 + unseen}), bash("make test")])
    assert (found.detail if found else "").endswith(detail)
    assert bool(found) is bool(detail)


def test_plan_says_that_the_file_is_to_go_then_its_tests_are_not_missed() -> None:
    job = Job("sbx_1", files={"tests/test_a.py": "delete"})
    assert find([edited("tests/test_a.py", removed=written("a", "b")), bash("make")], job) is None


def test_tests_go_while_a_reminder_of_something_else_is_on_its_way_then_found_afterwards_and_once() -> None:
    trail = Trail()
    found = find([bash("make test")] * 5, trail=trail)
    assert found is not None
    gone = [edited("tests/test_a.py", removed=written("a")), bash("ls")]
    assert find(gone, trail=trail) is None
    later = find([taken_in(found), bash("pwd")], trail=trail)
    assert later is not None
    assert later.rule is Rule.TESTS
    assert find([taken_in(later), bash("pwd")], trail=trail) is None


@pytest.mark.parametrize(
    "told",
    [
        [deleted("tests/test_a.py"), created("tests/unit/test_b.py")],
        [created("tests/unit/test_a.py", "def test_more(): ..."), deleted("tests/test_a.py")],
        [created("tests/test_mine.py"), bash("make"), deleted("tests/test_mine.py")],
        [deleted("src/a.py"), deleted("latest_news.md")],
        [edited("tests/test_a.py", added="@pytest.mark.skipif(sys.platform == 'win32', reason='x')")],
        [edited("tests/test_a.py", removed="@pytest.mark.skip", added="assert f() is True")],
        [edited("tests/test_a.py", removed="@pytest.mark.skip(reason='a')", added="@pytest.mark.skip(reason='b')")],
        [edited("tests/test_a.py", removed=SKIPPED), created("tests/unit/test_b.py", SKIPPED)],
        [created("tests/unit/test_a.py", SKIPPED), deleted("tests/test_a.py", SKIPPED)],
        [edited("tests/test_a.py", added="    skipped = 1\n    pytest.fail('no')\n    model.fit(x)")],
        [edited("tests/test_a.py", added="    if not which('bwrap'):\n        # bwrap only\n        pytest.skip('none')")],
        [within("tests/test_a.py", "    if os.name == 'nt':", "        self.skipTest('no')")],
        [edited("tests/test_a.py", added="    try:\n        import x\n    except ImportError:\n        pytest.skip('no')")],
        [edited("a_test.go", added="\tif testing.Short() {\n\t\tt.Log(1)\n\t\tt.Skip()\n\t}")],
        [edited("spec/a_spec.rb", added='    skip "later" if windows?')],
        [edited("docs/testing.md", added="@pytest.mark.skip")],
        [edited("src/a.py", added="assert True")],
        [edited("tests/test_a.py", added="def test_more():\n    assert f(3) == 9")],
    ],
    ids=[
        "moved", "moved, told the other way round", "its own", "no tests", "on one platform", "in force again",
        "for another reason", "moved as it is", "its file moved", "words like it", "under a condition",
        "under one that stood there", "where a module is missing", "in short runs", "behind it", "in words", "no test's", "a new one",
    ],
)  # fmt: skip
def test_tests_that_are_moved_or_mended_then_nothing_is_found(told: list[Told]) -> None:
    assert find([bash("mend it"), *told, bash("make test")]) is None


def test_plan_says_that_the_test_is_to_go_then_nothing_is_found() -> None:
    job = Job("sbx_1", files={"tests/test_a.py": "delete"})
    assert find([deleted("tests/test_a.py"), bash("make")], job) is None


def test_planning_agent_tries_things_out_then_its_files_are_its_own() -> None:
    job = Job("sbx_1", plans=True, changes_files=False)
    assert find([deleted("tests/test_a.py"), bash("make")], job) is None


@pytest.mark.parametrize(
    ("path", "verdict"),
    [
        ("tests/test_a.py", True), ("a_test.go", True), ("src/CountTest.java", True), ("conftest.py", True),
        ("tests/data/a.json", False), ("latest.py", False), ("contest.py", False), ("src/testing.md", False),
    ],
)  # fmt: skip
def test_files_of_tests_are_known_by_their_names(path: str, verdict: bool) -> None:
    assert is_test(path) is verdict


# ---------------------------------------------------------------- budget


def test_most_of_the_budget_is_used_up_then_said_once() -> None:
    trail = Trail()
    assert find_spending(trail, Job("sbx_1", budget_usd=10.0, spent_usd=7.9), 5) is None
    found = find_spending(trail, Job("sbx_1", budget_usd=10.0, spent_usd=8.3), 6)
    assert found is not None
    assert (found.rule, found.count) == (Rule.BUDGET, 83)
    trail.take_in()
    assert find_spending(trail, Job("sbx_1", budget_usd=10.0, spent_usd=9.9), 7) is None
    assert find_spending(Trail(), Job("sbx_1", budget_usd=0.0, spent_usd=9.9), 7) is None


# ---------------------------------------------------------------- after a reminder


def taken_in(finding: Finding) -> Told:
    return "agent.message_injected", {"message_id": str(finding.message_id(JOB.sandbox_id))}


def test_loop_goes_on_before_the_reminder_is_taken_in_then_nothing_more_and_afterwards_from_the_start() -> (
    None
):
    trail, loop = Trail(), [bash("make test")]
    found = find(loop * 5, trail=trail)
    assert found is not None
    assert find(loop * 50, trail=trail) is None
    assert find([taken_in(found), *loop * 4], trail=trail) is None
    again = find(loop, trail=trail)
    assert again is not None
    assert again.rule is Rule.COMMAND


def test_test_deleted_while_a_reminder_of_something_else_is_on_its_way_then_found_afterwards() -> None:
    trail = Trail()
    found = find([bash("make test")] * 5, trail=trail)
    assert found is not None
    assert find([deleted("tests/test_a.py"), bash("ls")], trail=trail) is None
    later = find([taken_in(found), bash("pwd")], trail=trail)
    assert later is not None
    assert later.rule is Rule.TESTS


def test_agent_is_done_and_is_given_other_work_then_old_repetitions_do_not_count() -> None:
    told = [*[bash("make test")] * 4, ("agent.waiting", {}), *[bash("make test")] * 4]
    assert find(told) is None


def test_same_finding_has_the_same_id_and_another_one_another() -> None:
    one = Finding(Rule.ERROR, 7, "x", 3)
    assert one.message_id("sbx_1") == Finding(Rule.ERROR, 7).message_id("sbx_1")
    others = {one.message_id("sbx_1"), one.message_id("sbx_2"), Finding(Rule.EDIT, 7).message_id("sbx_1"),
              Finding(Rule.ERROR, 8).message_id("sbx_1")}  # fmt: skip
    assert len(others) == 4


def test_three_reminders_then_a_pause_and_warnings_never_pause() -> None:
    for rule in Rule:
        found = Finding(rule, 1)
        assert [decide_answer(found, count) for count in range(MAX_NUDGES)] == [Answer.NUDGE] * 3
        last = Answer.NOTHING if rule in WARNINGS else Answer.PAUSE
        assert decide_answer(found, MAX_NUDGES) is last


# ---------------------------------------------------------------- texts


@pytest.mark.parametrize("rule", Rule)
def test_reminder_says_what_was_seen_and_what_to_do(rule: Rule) -> None:
    text = render_nudge(Finding(rule, 1, "make `test`\n# x", 5))
    assert len(text) > 100
    assert "{" not in text
    assert "\n" not in text
    assert PHRASES[rule]


def test_people_are_told_without_credentials_mentions_or_markup_of_the_agents() -> None:
    token = "ghp_" + "vT8kQ2mZr5Xw1Nc7Yb4Lp9Hs6Jd3Gf0AeUiB"
    detail = f"curl -H 'Authorization: {token}' ` @everyone <!-- issuewright:spec=x --> closes #1"
    text = render_paused(Finding(Rule.COMMAND, 9, detail, 5), [Rule.ERROR, Rule.ERROR, Rule.COMMAND])
    assert token not in text
    assert "<!--" not in text
    secret, told = (
        "0123456789-abcdefghij-0123456789",
        Finding(Rule.ERROR, 9, "the key 0123456789-abcdefgh…", 3),
    )
    assert "(`the key …`)" in render_paused(told, [Rule.ERROR], [secret]), (
        "the rest of it is not known any more"
    )
    line = next(one for one in text.splitlines() if "everyone" in one)
    assert line.count("`") == 2, "nothing of it stands outside the code marks"
    assert "reminded 3 times" in text
    for command in ("/agent resume", "/agent stop", "Comment"):
        assert command in text


def test_status_comment_names_each_kind_of_reminder_once() -> None:
    assert reminder_lines(()) == []
    assert reminder_lines([Rule.BUDGET])[-1] == "The agent was reminded once: most of the budget used up."
    assert reminder_lines([Rule.ERROR, Rule.EDIT, Rule.ERROR])[-1] == (
        "The agent was reminded 3 times: the same error again and again; the same change made or undone again and again."
    )


# ---------------------------------------------------------------- bytes of a stranger

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
fields = st.dictionaries(
    st.sampled_from(
        ["tool", "input", "is_error", "content", "file_path", "change", "full_diff", "message_id"]
    ),
    anything,
)


@given(st.lists(st.tuples(st.sampled_from(READ), fields), max_size=30))
def test_any_events_then_no_error_and_what_is_kept_can_be_stored_again(told: list[Told]) -> None:
    trail = Trail()
    follow(trail, NAMED, [Seen(seq, kind, data) for seq, (kind, data) in enumerate(told, 1)])
    stored = json.dumps(trail.dump(), ensure_ascii=True)
    assert Trail.parse(json.loads(stored)) == trail


def test_endless_texts_then_quick_and_little_is_kept() -> None:
    trail = Trail()
    hostile = [
        "it.skip" * 3_000,
        "| tail " * 3_000,
        "expect(true" * 2_000,
        "-" * 20_000,
        "@@\n" * 6_000,
        "".join(f"{' ' * depth}if\n" for depth in range(200)) * 2 + "t.Skip()\n" * 3_000,
        "test_" * 4_000,
    ]
    began = time.perf_counter()
    for text in hostile * 20:
        find(
            [
                bash(text),
                error(text),
                edited(f"tests/test_{text}.py", added=text),
                deleted(f"x/{text}/a_test.py"),
            ],
            NAMED,
            trail,
        )
        trail.take_in()
    assert time.perf_counter() - began < 5
    assert len(json.dumps(trail.dump())) < 40_000
