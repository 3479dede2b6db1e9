"""From a label to a plan, from a plan to its tasks, one after another, to one pull request."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.db.retries import record_retry
from app.db.sandboxes import set_sandbox
from app.db.tasks import move_task
from app.domain.errors import RetryAt
from app.domain.ports import SandboxOrder, SandboxSight
from app.domain.states import PhaseState, SandboxState, SpecState, TaskState
from tests.worker.bench import Bench
from tests.worker.planning import (
    OUTPUTS,
    PHASES,
    brief,
    end_round,
    hand_in_phase,
    outputs,
    phases,
    plan,
    plan_comment,
    report,
    start,
    tasks,
)
from tests.worker.test_told import newest_check

PROMPT = "prompt.md"


def prompt(bench: Bench) -> str:
    return bench.sandboxes.newest.inputs[PROMPT].decode()


EVIDENCE = [
    {"criterion": "R1.1", "met": True, "evidence": "test_binomial.py: test_small | values"},
    {"criterion": "R2.1", "met": False, "evidence": "there is no test"},
]


async def finish_task(bench: Bench, text: str, **manifest: object) -> None:
    await bench.hand_in(text=text, **manifest)
    await bench.rest()


async def close(bench: Bench) -> None:
    """The closing task, which comes last."""
    assert "closing" in prompt(bench)
    assert [one.id for one in brief(bench).criteria] == ["R1.1", "R2.1"]
    test = {"command": "python3 -m unittest", "exit_code": 0, "seconds": 1.0, "output": "OK"}
    await finish_task(bench, "closed\n", evidence=EVIDENCE, test=test)


async def test_labeled_agent_then_a_sandbox_plans_and_nothing_else_is_made_yet(bench: Bench) -> None:
    number = start(bench)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.PLANNING
    order = bench.sandboxes.newest
    assert (order.environment["SPEC_PHASE"], order.environment["TASK_ID"]) == ("explore", "")
    assert [one.name for one in brief(bench).phases] == list(PHASES)
    assert brief(bench).outputs == {}
    assert "Add binomial coefficients" in prompt(bench)
    assert bench.branches() == {"main"}
    assert bench.github.pulls(bench.name) == []
    assert "Planning" in bench.status(number)


async def test_plan_is_made_then_its_tasks_run_in_order_and_end_in_one_pull_request(bench: Bench) -> None:
    number = start(bench)
    await bench.rest()
    planning = bench.sandboxes.newest.name
    await plan(bench)
    assert {name: row.state for name, row in (await phases(bench)).items()} == dict.fromkeys(
        [*PHASES, "sync"], PhaseState.COMPLETED
    )
    assert "Write binomial" in plan_comment(bench, number)
    assert planning in bench.sandboxes.deleted
    states = [task.state for task in (await tasks(bench)).values()]
    assert states == [TaskState.RUNNING, TaskState.PENDING, TaskState.PENDING]
    first = bench.sandboxes.newest
    assert first.environment["TASK_ID"] == (await tasks(bench))["T1"].id
    assert "Write binomial" in prompt(bench)
    assert brief(bench).test_command == "python3 -m unittest"
    assert brief(bench).idle_s == 0
    assert "- [ ] **T1**" in plan_comment(bench, number)
    assert "⏳" not in bench.github.pulls(bench.name)[0]["body"], "it is not written again until the end"
    await finish_task(bench, "one\n")
    assert "- [x] **T1**" in plan_comment(bench, number)
    assert "- [ ] **T2**" in plan_comment(bench, number)
    second = bench.sandboxes.newest
    assert second.environment["TASK_ID"] == (await tasks(bench))["T2"].id
    assert first.name in bench.sandboxes.deleted
    assert "Done it." in prompt(bench), "what came of the task before is told"
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    assert second.start_sha == head != first.start_sha
    await finish_task(bench, "two\n")
    assert brief(bench).idle_s > 0, "the last one waits for what people say"
    await close(bench)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    pull = bench.github.pulls(bench.name)[0]
    assert not pull["draft"]
    assert "- [x]" in pull["body"]
    assert "Write binomial" in pull["body"]
    assert "1 of 2 met" in pull["body"]
    assert "| ❌ no | there is no test |" in pull["body"]
    assert "`python3 -m unittest` passed" in pull["body"]
    assert "Done" in bench.status(number)


async def test_planning_sandbox_is_lost_then_the_next_starts_at_the_first_unfinished_phase(
    bench: Bench,
) -> None:
    start(bench)
    await bench.rest()
    await hand_in_phase(bench, "explore")
    await hand_in_phase(bench, "requirements")
    bench.sandboxes.lose(bench.sandboxes.newest.name)
    await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 2
    order = bench.sandboxes.newest
    assert order.environment["SPEC_PHASE"] == "design"
    assert [one.name for one in brief(bench).phases] == list(PHASES), "what is done may be revised"
    assert set(brief(bench).outputs) == {"explore", "requirements"}
    await hand_in_phase(bench, "design")
    await hand_in_phase(bench, "tasks")
    await end_round(bench)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


async def test_planning_sandbox_is_lost_three_times_without_progress_then_it_is_told(bench: Bench) -> None:
    number = start(bench)
    await bench.rest()
    for _ in range(3):
        bench.sandboxes.end(bench.sandboxes.newest.name, 137)
        await bench.pass_time(30)
    assert len(bench.sandboxes.orders) == 3
    assert (await bench.spec()).state is SpecState.FAILED
    assert "exit code 137" in bench.status(number)


async def test_output_that_does_not_pass_here_fails_the_spec_whatever_the_sandbox_said(bench: Bench) -> None:
    number = start(bench)
    await bench.rest()
    bad = outputs()
    bad["explore"]["key_files"] = [{"path": "nowhere.py", "purpose": "is not there"}]
    await hand_in_phase(bench, "explore", bad["explore"])
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "nowhere.py" in bench.status(number)
    assert (await phases(bench))["explore"].state is PhaseState.FAILED
    assert bench.sandboxes.sights == {}, "the sandbox is gone"


async def test_phase_fails_in_the_sandbox_then_people_read_what_is_missing_and_a_retry_goes_on_there(
    bench: Bench,
) -> None:
    number = start(bench)
    await bench.rest()
    await hand_in_phase(bench, "explore")
    finding = {"rule": "cycle", "message": "T1 and T2 wait for each other", "where": "tasks"}
    await report(bench, "spec.phase_started", phase="requirements", attempt=1)
    await report(bench, "spec.phase_failed", phase="requirements", attempts=3, findings=[finding])
    await end_round(bench, status="failed", reason="phase_failed", detail="requirements")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "T1 and T2 wait for each other" in bench.status(number)
    assert "after 3 attempts" in bench.status(number)


async def test_phase_fails_before_its_result_comes_then_the_first_retry_starts_a_new_sandbox(
    bench: Bench,
) -> None:
    number = start(bench)
    await bench.rest()
    await hand_in_phase(bench, "explore")
    await report(bench, "spec.phase_failed", phase="requirements", attempts=3, findings=["No criteria."])
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    await end_round(bench, status="failed", reason="phase_failed", detail="requirements")
    await bench.rest()
    before = bench.sandboxes.newest.sandbox_id
    async with bench.db.write() as session:
        assert await record_retry(session, (await bench.spec()).id, bench.clock()) is None
    await bench.rest()
    assert (await bench.spec()).state is SpecState.PLANNING, bench.status(number)
    assert bench.sandboxes.newest.sandbox_id != before
    assert (await phases(bench))["explore"].state is PhaseState.COMPLETED


async def test_asked_to_wait_then_nothing_is_built_before_somebody_approves(bench: Bench) -> None:
    number = start(bench, "agent:plan")
    await bench.rest()
    await plan(bench)
    spec = await bench.spec()
    assert spec.state is SpecState.AWAITING_APPROVAL
    assert spec.plan_shown_hash == spec.plan_hash is not None
    assert spec.plan_hash[:8] in plan_comment(bench, number)
    assert f"/agent approve {spec.plan_hash[:8]}" in bench.status(number)
    bench.sandboxes.end(bench.sandboxes.newest.name, 0)
    await bench.pass_time(3600, 300)
    assert (await bench.spec()).state is SpecState.AWAITING_APPROVAL
    assert bench.branches() == {"main"}
    bench.github.comment(bench.name, number, "alice", f"/agent approve {spec.plan_hash[:8]}")
    await bench.rest()
    spec = await bench.spec()
    assert (spec.state, spec.approved_by) == (SpecState.IMPLEMENTING, "alice")
    assert "Approved by alice" in plan_comment(bench, number)
    assert "waits for" not in plan_comment(bench, number)
    assert [task.state for task in (await tasks(bench)).values()][:2] == [
        TaskState.RUNNING,
        TaskState.PENDING,
    ]


async def test_plan_is_revised_before_approval_then_it_is_shown_anew_with_what_changed(bench: Bench) -> None:
    number = start(bench, "agent:plan")
    await bench.rest()
    await plan(bench)
    old = (await bench.spec()).plan_hash
    revised = outputs()
    revised["tasks"]["tasks"].append(
        {**OUTPUTS["tasks"]["tasks"][1], "id": "T3", "title": "Document it", "kind": "documentation",
         "files": [{"path": "README.md", "change": "modify"}]}
    )  # fmt: skip
    await hand_in_phase(bench, "tasks", revised["tasks"], revision=2)
    await end_round(bench, 2)
    await bench.rest()
    spec = await bench.spec()
    assert spec.state is SpecState.AWAITING_APPROVAL
    assert spec.plan_hash not in {None, old}
    assert spec.plan_shown_hash == spec.plan_hash
    assert "Document it" in plan_comment(bench, number)
    assert list(await tasks(bench)) == ["T1", "T2", "T3", "closing"]


async def test_agent_is_asked_something_about_its_plan_and_changes_nothing_then_its_answer_is_told(
    bench: Bench,
) -> None:
    number = start(bench, "agent:plan")
    await bench.rest()
    await plan(bench)
    bench.github.comment(bench.name, number, "alice", "Why not math.comb?")
    await bench.rest()
    await end_round(bench, 2, summary="Because @acme/team said so.")
    await bench.rest()
    await bench.pass_time(60)
    assert "Because" in bench.status(number)
    assert "@acme/team" not in bench.status(number)
    assert (await bench.spec()).plan_revision == 1


@pytest.mark.parametrize("label", ["agent:plan", "agent"])
async def test_questions_only_people_can_answer_are_asked_once_if_somebody_is_to_approve(
    bench: Bench, label: str
) -> None:
    number = start(bench, label)
    await bench.rest()
    asking = outputs()
    asking["explore"]["open_questions"] = [
        {"id": "Q1", "question": "Which rounding?", "blocking": True},
        {"id": "Q2", "question": "Which font?", "blocking": False},
    ]
    await plan(bench, asking)
    comments = [text for text in bench.comments(number) if "part=questions" in text]
    if label == "agent":
        assert comments == [], "nobody would answer in time"
        return
    assert len(comments) == 1
    assert "Which rounding?" in comments[0]
    assert "Which font?" not in comments[0]
    asking["tasks"]["tasks"][0]["title"] = "Write binomial anew"
    await hand_in_phase(bench, "tasks", asking["tasks"], revision=2)
    await end_round(bench, 2)
    await bench.rest()
    assert "Write binomial anew" in plan_comment(bench, number)
    assert len([text for text in bench.comments(number) if "part=questions" in text]) == 1


async def test_issue_is_edited_after_labeling_then_the_text_of_the_label_event_is_kept_and_shown(
    bench: Bench,
) -> None:
    number = start(bench)
    bench.github.edit_issue(bench.name, number, "alice", body="Something else entirely.")
    await bench.rest()
    assert "Something else" not in prompt(bench)
    assert "Please." in bench.status(number)
    assert "Something else" not in bench.status(number)


async def test_half_of_a_revision_is_no_plan_yet_and_a_revision_that_fails_leaves_the_plan_as_shown(
    bench: Bench,
) -> None:
    number = start(bench, "agent:plan")
    await bench.rest()
    await plan(bench)
    before = await bench.spec()
    revised = outputs()
    revised["requirements"]["requirements"].append(
        {"id": "R3", "statement": "THE library SHALL be fast.", "criteria": [{"id": "R3.1", "text": "It is fast."}]}
    )  # fmt: skip
    await report(bench, "agent.assistant_message", text="Revising.")
    await hand_in_phase(bench, "requirements", revised["requirements"], revision=2)
    await bench.rest()
    spec = await bench.spec()
    assert (spec.state, spec.plan_hash) == (SpecState.AWAITING_APPROVAL, before.plan_hash)
    finding = {"rule": "uncovered", "message": "no task serves R3", "where": "tasks"}
    await report(bench, "spec.phase_failed", phase="tasks", attempts=3, findings=[finding])
    await end_round(bench, 2, status="failed", reason="phase_failed")
    await bench.rest()
    spec = await bench.spec()
    assert (spec.state, spec.plan_hash) == (SpecState.AWAITING_APPROVAL, before.plan_hash)
    assert "no task serves R3" in bench.status(number)
    assert (await phases(bench))["requirements"].output == (before.plan_shown or {})["requirements"]


@pytest.mark.parametrize("at", ["explore", "design", "awaiting"])
async def test_label_is_removed_while_planning_then_it_ends_without_a_trace_but_the_comment(
    bench: Bench, at: str
) -> None:
    number = start(bench, "agent:plan")
    await bench.rest()
    if at == "awaiting":
        await plan(bench)
    else:
        for phase in PHASES[: PHASES.index(at)]:
            await hand_in_phase(bench, phase)
        await bench.rest()
    bench.github.remove_label(bench.name, number, "alice", "agent:plan")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.CANCELLED
    assert bench.sandboxes.sights == {}
    assert bench.branches() == {"main"}
    assert "Cancelled" in bench.status(number)


async def test_planning_worker_saw_nothing_run_before_the_result_came(bench: Bench) -> None:
    start(bench)
    await bench.rest()
    async with bench.db.write() as session:
        await set_sandbox(
            session, bench.sandboxes.newest.sandbox_id, bench.clock(), state=SandboxState.CREATING
        )
    await plan(bench)
    assert (await bench.spec()).state is SpecState.IMPLEMENTING


SIDE_BY_SIDE = ".github/issuewright.yml", "max_parallel_tasks: 2\n"


def independent() -> dict[str, dict[str, object]]:
    """Two tasks that need nothing of one another and name different files."""
    plan_outputs = outputs()
    plan_outputs["tasks"]["tasks"][1]["depends_on"] = []
    return plan_outputs


async def at_work_side_by_side(bench: Bench) -> tuple[int, str, str]:
    """The issue, and the sandboxes of T1 and T2, both running from the same commit."""
    path, text = SIDE_BY_SIDE
    bench.github.push(bench.name, "alice", "main", {path: text})
    number = start(bench)
    await bench.rest()
    await plan(bench, independent())
    by_task = {order.environment["TASK_ID"]: order for order in bench.sandboxes.orders.values()}
    rows = await tasks(bench)
    assert [row.state for row in rows.values()] == [TaskState.RUNNING, TaskState.RUNNING, TaskState.PENDING]
    first, second = (by_task[rows[key].id] for key in ("T1", "T2"))
    assert first.start_sha == second.start_sha
    return number, first.name, second.name


async def test_independent_tasks_run_side_by_side_and_their_results_are_merged(bench: Bench) -> None:
    number, first, second = await at_work_side_by_side(bench)
    await bench.hand_in(of=second, file="two.txt")
    await bench.rest()
    await bench.hand_in(of=first, file="one.txt")
    await bench.rest()
    await close(bench)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    pulls = bench.github.pulls(bench.name)
    assert len(pulls) == 1
    files = bench.git("ls-tree", "--name-only", pulls[0]["head"]["sha"]).split()
    assert {"one.txt", "two.txt"} <= set(files)
    assert "Done" in bench.status(number)


@pytest.mark.parametrize("how", ["at work", "handed in", "refused"])
async def test_one_fails_for_good_then_what_the_other_had_committed_is_kept_and_told(
    bench: Bench, how: str
) -> None:
    number, first, second = await at_work_side_by_side(bench)
    file = "CODEOWNERS" if how == "refused" else "two.txt"
    _, bundle = bench.commit("half", of=second, file=file)
    await bench.upload("checkpoint.bundle", bundle, of=second)
    await bench.hand_in(of=first, file="one.txt", status="failed", reason="max_turns")
    if how == "handed in":
        await bench.hand_in(of=second, file="two.txt")
    await bench.rest()
    await bench.pass_time(60)
    assert (await bench.spec()).state is SpecState.FAILED
    assert bench.sandboxes.sights == {}
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    files = set(bench.git("ls-tree", "-r", "--name-only", head).split())
    assert {"one.txt", *([] if how == "refused" else ["two.txt"])} <= files
    assert ("specs bundle" if how == "refused" else "on the branch") in bench.status(number)
    runs = [run for run in bench.github.check_runs(bench.name) if run["head_sha"] == head]
    assert [run["conclusion"] for run in runs] == ["failure"]


async def test_one_of_several_runs_out_of_time_then_the_check_says_so_whatever_tasks_are_called(
    bench: Bench,
) -> None:
    _, first, _ = await at_work_side_by_side(bench)
    await bench.hand_in(of=first, file="one.txt", status="failed", reason="time_limit")
    await bench.rest()
    assert newest_check(bench)["conclusion"] == "timed_out"


async def test_other_hands_in_while_the_work_that_failed_is_taken_down_then_that_counts(bench: Bench) -> None:
    _, first, second = await at_work_side_by_side(bench)
    _, bundle = bench.commit("half\n", of=second, file="two.txt")
    await bench.upload("checkpoint.bundle", bundle, of=second)
    delete = bench.sandboxes.ensure_deleted

    async def hands_in_meanwhile(name: str) -> None:
        if name == first:
            await bench.hand_in(of=second, text="whole\n", file="two.txt")
        await delete(name)

    bench.sandboxes.ensure_deleted = hands_in_meanwhile  # type: ignore[method-assign]
    await bench.hand_in(of=first, file="one.txt", status="failed", reason="max_turns")
    await bench.rest()
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    assert bench.git("show", f"{head}:two.txt") == "whole\n"


async def test_one_waits_for_the_provider_then_the_other_is_still_looked_after(bench: Bench) -> None:
    number, first, second = await at_work_side_by_side(bench)

    async def refuses(order: SandboxOrder) -> SandboxSight:
        raise RetryAt("the quota is used up", bench.clock() + timedelta(seconds=60))

    create = bench.sandboxes.ensure_created
    bench.sandboxes.ensure_created = refuses  # type: ignore[method-assign]
    bench.sandboxes.end(first, 1)
    await bench.pass_time(120, 10)
    assert "room at the sandbox provider" in bench.status(number)
    bench.sandboxes.end(second, 1)
    await bench.pass_time(120, 10)
    states = {box.provider_name: box.state for box in await bench.boxes()}
    assert states[second] is SandboxState.FAILED
    bench.sandboxes.ensure_created = create  # type: ignore[method-assign]
    await bench.pass_time(90, 10)
    assert len(bench.sandboxes.orders) == 5
    rows = await tasks(bench)
    assert [rows[key].state for key in ("T1", "T2")] == [TaskState.RUNNING, TaskState.RUNNING]
    assert "Waits for" not in bench.status(number)


async def test_conflict_goes_back_to_the_agent_that_came_later_with_its_session(bench: Bench) -> None:
    number, first, second = await at_work_side_by_side(bench)
    await bench.hand_in(of=first, text="one\n")
    await bench.rest()
    head = bench.github.pulls(bench.name)[0]["head"]["sha"]
    await bench.upload("transcript.tar.gz", b"session", of=second)
    await bench.hand_in(of=second, text="two\n", session_id="s-2")
    await bench.rest()
    again = bench.sandboxes.newest
    assert again.name not in {first, second}
    assert again.start_sha == head
    assert brief(bench).resume_session_id == "s-2"
    assert "work.txt" in prompt(bench)
    assert (await tasks(bench))["T2"].state is TaskState.RUNNING
    await bench.hand_in(text="both\n")
    await bench.rest()
    await close(bench)
    assert (await bench.spec()).state is SpecState.IN_REVIEW
    assert "Done" in bench.status(number)


async def test_conflict_comes_again_and_again_then_it_is_told_and_the_result_kept(bench: Bench) -> None:
    number, first, second = await at_work_side_by_side(bench)
    await bench.hand_in(of=first, text="one\n")
    await bench.rest()
    async with bench.db.write() as session:
        await move_task(session, (await tasks(bench))["T2"].id, TaskState.RUNNING, bench.clock(), attempts=3)
    await bench.hand_in(of=second, text="two\n")
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert "work.txt" in bench.status(number)
    assert "specs bundle" in bench.status(number)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("aproval: required\n", "aproval"),
        ("max_parallel_tasks: many\n", "max_parallel_tasks"),
        ("labels: [\n", "line"),
    ],
)
async def test_settings_file_that_cannot_be_used_is_told_in_one_comment_and_nothing_starts(
    bench: Bench, text: str, said: str
) -> None:
    bench.github.push(bench.name, "alice", "main", {".github/issuewright.yml": text})
    number = start(bench)
    await bench.rest()
    assert (await bench.spec()).state is SpecState.FAILED
    assert len(bench.comments(number)) == 1
    assert said in bench.status(number)
    assert bench.sandboxes.orders == {}
    assert bench.branches() == {"main"}


async def test_settings_count_from_the_default_branch_only_and_higher_limits_are_cut_and_said(
    bench: Bench,
) -> None:
    text = "approval: required\nbudget_usd: 5000\ntest: make check\nmodel: another\n"
    bench.github.push(bench.name, "alice", "main", {".github/issuewright.yml": text})
    number = start(bench)
    await bench.rest()
    assert brief(bench).max_budget_usd == 10.0
    assert brief(bench).model == "model"
    assert "budget_usd" in bench.status(number)
    assert "another" in bench.status(number)
    await plan(bench)
    assert (await bench.spec()).state is SpecState.AWAITING_APPROVAL
    assert (await bench.spec()).settings_sha is not None
