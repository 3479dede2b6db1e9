"""Two tasks that worked side by side: the later result is put onto what the earlier one made of the branch."""

from __future__ import annotations

from app.git.merge import Conflicted, Merged, merge_result
from tests.git.conftest import Bench

APP = "issuewright[bot] <7+issuewright[bot]@users.noreply.github.com>"


async def merge(bench: Bench, onto: str, head: str) -> Merged | Conflicted:
    return await merge_result(bench.quarantine.path, onto, head, author=APP, message="Merge task T2")


async def both(bench: Bench, first: str, second: str) -> None:
    """Both results in one quarantine, as when the mirror has the first."""
    union = bench.work({"a": b"1", "b": b"2"}, first, second, message="Only to bring both along")
    await bench.open(union)


async def test_results_that_touch_different_files_are_merged_under_the_apps_name(bench: Bench) -> None:
    first, second = bench.work({"a": b"1"}), bench.work({"b": b"2"})
    await both(bench, first, second)
    merged = await merge(bench, first, second)
    assert isinstance(merged, Merged)
    assert merged.made
    git = bench.quarantine.git
    assert git("log", "-1", "--format=%P", merged.sha).split() == [first, second]
    assert git("log", "-1", "--format=%an <%ae>|%cn <%ce>", merged.sha) == f"{APP}|{APP}"
    assert git("show", f"{merged.sha}:a") == "1"
    assert git("show", f"{merged.sha}:b") == "2"
    assert await merge(bench, first, second) == merged, "the same again gives the same commit"


async def test_result_that_stands_on_the_branch_already_needs_no_merge(bench: Bench) -> None:
    first = bench.work({"a": b"1"})
    second = bench.work({"a": b"1", "b": b"2"}, first)
    await bench.open(second)
    assert await merge(bench, first, second) == Merged(second, made=False)
    assert await merge(bench, second, first) == Merged(second, made=False)


async def test_results_that_change_the_same_lines_are_not_merged_and_the_paths_are_named(
    bench: Bench,
) -> None:
    first, second = bench.work({"README.md": b"# One\n"}), bench.work({"README.md": b"# Two\n"})
    await both(bench, first, second)
    assert await merge(bench, first, second) == Conflicted(("README.md",))


async def test_repositorys_own_merge_drivers_are_not_run(bench: Bench) -> None:
    attributes: dict[str | bytes, bytes] = {".gitattributes": b"README.md merge=ours\n"}
    start = bench.work(dict(attributes))
    first = bench.work({**attributes, "README.md": b"# One\n"}, start)
    second = bench.work({**attributes, "README.md": b"# Two\n"}, start)
    await both(bench, first, second)
    bench.quarantine.git("config", "merge.ours.driver", "touch ran-by-the-repository")
    await merge(bench, first, second)
    assert not (bench.quarantine.path / "ran-by-the-repository").exists()
