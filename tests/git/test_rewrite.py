"""Commits made anew under the App's name."""

from __future__ import annotations

import pytest

from app.domain.commit_message import sanitize_commit_message
from app.git.rewrite import rewrite_authors
from tests.git.conftest import BASE_FILES, Bench
from tests.git.crafting import Repository, trailers_of

APP = "issuewright[bot] <7+issuewright[bot]@users.noreply.github.com>"
TRAILERS = ("Co-authored-by: carol <3+carol@users.noreply.github.com>",)


async def rewrite(bench: Bench, head: str) -> str:
    return await rewrite_authors(
        bench.quarantine.path, bench.start, head, APP, TRAILERS, sanitize_commit_message
    )


def shape(repository: Repository, start: str, head: str) -> list[tuple[int, str]]:
    lines = repository.git("log", "--topo-order", "--format=%T %P", f"{start}..{head}").splitlines()
    return [(len(line.split()) - 1, line.split()[0]) for line in lines]


async def test_authors_are_the_apps_and_trees_shape_and_dates_stay(bench: Bench) -> None:
    one = bench.work(
        {"a": b"1"}, author="Mallory <alice@example.org>", message="One\n\nSigned-off-by: Alice <a@b>"
    )
    two = bench.work({"b": b"2"})
    head = bench.work({"a": b"1", "b": b"2"}, one, two, message="Merge")
    await bench.open(head)
    new = await rewrite(bench, head)
    repository = bench.quarantine
    assert shape(repository, bench.start, new) == shape(repository, bench.start, head)
    people = repository.git("log", "--format=%an <%ae>|%cn <%ce>", f"{bench.start}..{new}").splitlines()
    assert set(people) == {f"{APP}|{APP}"}
    assert repository.git("log", "-1", "--format=%at %ct %ai", new) == repository.git(
        "log", "-1", "--format=%at %ct %ai", head
    )
    assert trailers_of(repository, new) == list(TRAILERS)
    assert "Alice" not in repository.git("log", "--format=%B", f"{bench.start}..{new}")
    assert repository.git("merge-base", bench.start, new) == bench.start


async def test_same_input_gives_the_same_commits_and_later_rounds_continue_them(bench: Bench) -> None:
    first = bench.work({"a": b"1"})
    await bench.open(first)
    once, twice = await rewrite(bench, first), await rewrite(bench, first)
    assert once == twice
    second = bench.work({"a": b"2"}, first)
    await bench.open(second)
    later = await rewrite(bench, second)
    assert bench.quarantine.git("rev-parse", f"{later}^") == once


async def test_merged_base_commits_keep_their_ids(bench: Bench) -> None:
    base = ""
    for repository in (bench.mirror, bench.sandbox):
        base = repository.commit({**BASE_FILES, "n": b"n"}, bench.base, author="Alice <alice@example.org>")
        repository.branch("main", base)
    work = bench.work({"a": b"1"})
    head = bench.sandbox.commit({**BASE_FILES, "n": b"n", "a": b"1"}, work, base, message="Merge main")
    await bench.open(head, base=base)
    new = await rewrite(bench, head)
    assert bench.quarantine.git("rev-parse", f"{new}^2") == base


async def test_nothing_to_rewrite_gives_the_same_head(bench: Bench) -> None:
    await bench.open(bench.work({"a": b"1"}))
    assert await rewrite(bench, bench.start) == bench.start


async def test_odd_headers_and_encodings_are_read_and_dropped(bench: Bench) -> None:
    tree = bench.sandbox.tree({**BASE_FILES, "a": b"1"})
    raw = f"tree {tree}\nparent {bench.start}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\nencoding ISO-8859-1\n"
    raw += "gpgsig -----BEGIN PGP SIGNATURE-----\n \n parent 0000\n -----END PGP SIGNATURE-----\n\n"
    head = bench.sandbox.object("commit", raw.encode() + b"Caf\xe9\n")
    await bench.open(head)
    new = await rewrite(bench, head)
    text = bench.quarantine.git("cat-file", "commit", new)
    assert "Café" in text
    assert "gpgsig" not in text
    assert "encoding" not in text


@pytest.mark.parametrize(
    ("author", "trailer"), [("Name", "A: b"), ("A <a@b>\nx", "A: b"), (APP, "A: b\nC: d")]
)
async def test_author_or_trailer_over_several_lines_is_an_error(
    bench: Bench, author: str, trailer: str
) -> None:
    await bench.open(bench.work({"a": b"1"}))
    with pytest.raises(ValueError, match=r"author|trailer"):
        await rewrite_authors(bench.quarantine.path, bench.start, bench.start, author, (trailer,), str)
