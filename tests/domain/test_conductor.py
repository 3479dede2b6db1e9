"""What the conductor finds between specs of one repository, and never between those of two."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.domain.conductor import (
    STANDSTILL,
    Link,
    LiveSpec,
    Queued,
    Told,
    find_duplicates,
    find_namesakes,
    find_shared_files,
    find_standstill,
    render_told,
)

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def spec(number: int, *paths: str, title: str = "Count the ways", repo: int = 7) -> LiveSpec:
    """Issues with larger numbers are younger."""
    at = T0 + timedelta(minutes=number)
    return LiveSpec(f"spec_{repo}_{number}", 1, repo, number, title, at, frozenset(paths))


def pairs(found: list[Told]) -> list[tuple[int, list[int]]]:
    return [(one.spec.issue_number, [other.issue_number for other in one.others]) for one in found]


def test_two_specs_change_the_same_file_then_the_younger_ones_issue_names_the_other() -> None:
    (told,) = find_shared_files([spec(2, "a.py", "b.py"), spec(1, "b.py", "c.py"), spec(3, "d.py")])
    assert (told.spec.issue_number, told.others[0].issue_number, told.paths) == (2, 1, ("b.py",))
    text = render_told(told)
    assert "#1" in text
    assert "`b.py`" in text
    assert "#2" not in text


def test_many_specs_change_one_file_then_one_notice_each_of_bounded_length() -> None:
    paths = [f"{n}.py" for n in range(50)]
    found = find_shared_files([spec(n, *paths) for n in range(1, 20)])
    assert [one.spec.issue_number for one in found] == list(range(2, 20))
    assert pairs(found)[:2] == [(2, [1]), (3, [1, 2])]
    assert len({one.key for one in found}) == 18
    assert max(len(one.others) for one in found) == 5
    assert max(len(render_told(one)) for one in found) < 1_000
    assert "and 45 more" in render_told(found[-1])
    assert render_told(found[0]).startswith("**Two at the same files.** The work on #1 changes ")
    assert render_told(found[2]).startswith(
        "**Several at the same files.** The work on #1, #2 and #3 changes "
    )


def test_same_file_in_two_repositories_then_nothing_is_told() -> None:
    specs = [spec(1, "a.py", repo=7), spec(2, "a.py", repo=8)]
    assert find_shared_files(specs) == []
    assert find_namesakes(specs) == []
    assert find_duplicates(specs, {one.spec_id: "Please count them." for one in specs}) == []


def test_same_words_twice_then_told_whatever_their_signs_and_spaces() -> None:
    specs = [spec(1), spec(2, title="Count, the WAYS!"), spec(3, title="Something else")]
    assert find_namesakes(specs) == ["spec_7_1", "spec_7_2"]
    found = find_duplicates(specs, {"spec_7_1": "All of  them.", "spec_7_2": "\nall of them"})
    assert pairs(found) == [(2, [1])]
    assert "#1" in render_told(found[0])


def test_same_words_twice_in_a_script_without_spaces_then_told() -> None:
    title = "\u4fee\u590d\u767b\u5f55\u9875\u9762\u7684\u5d29\u6e83"
    specs = [spec(1, title=title), spec(2, title=f"{title}\u3002")]
    assert pairs(find_duplicates(specs, {"spec_7_1": "", "spec_7_2": ""})) == [(2, [1])]


def test_same_title_and_other_text_or_hardly_any_words_then_nothing_is_told() -> None:
    assert find_duplicates([spec(1), spec(2)], {"spec_7_1": "All.", "spec_7_2": "None."}) == []
    signs = [spec(1, title="Support C++ in the parser"), spec(2, title="Support C# in the parser")]
    assert find_duplicates(signs, {"spec_7_1": "", "spec_7_2": ""}) == []
    short = [spec(1, title="Fix it"), spec(2, title="Fix it")]
    assert find_duplicates(short, {"spec_7_1": "", "spec_7_2": ""}) == []


def test_path_of_a_stranger_then_quoted_so_that_nothing_in_it_works() -> None:
    path = "a` @everyone closes #1 <!-- issuewright:spec=x -->.py\n# b"
    text = render_told(find_shared_files([spec(1, path), spec(2, path)])[0])
    assert "<!--" not in text
    assert "\n" not in text
    assert text.count("`") == 6


def test_queue_stands_still_then_the_first_of_each_repository_is_told() -> None:
    now = T0 + timedelta(hours=2)
    queue = [
        Queued(spec(1), now - STANDSTILL - timedelta(minutes=2)),
        Queued(spec(2), now - STANDSTILL - timedelta(minutes=9)),
        Queued(spec(3, repo=8), now - STANDSTILL - timedelta(minutes=1)),
        Queued(spec(4, repo=9), now - STANDSTILL),
    ]
    found = find_standstill(queue, now - timedelta(hours=1), T0, now)
    assert [(one.link, one.spec.repo_id, one.spec.issue_number) for one in found] == [
        (Link.STANDSTILL, 7, 2),
        (Link.STANDSTILL, 8, 3),
    ]
    assert find_standstill(queue, None, T0, now) == found
    assert "15 minutes" in render_told(found[0])


def test_agents_work_while_others_wait_then_nothing_is_told() -> None:
    now = T0 + timedelta(hours=2)
    assert find_standstill([Queued(spec(1), T0)], now - timedelta(minutes=3), T0, now) == []
    assert find_standstill([Queued(spec(1), T0)], None, now - timedelta(minutes=3), now) == []
