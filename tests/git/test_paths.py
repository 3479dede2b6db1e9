"""Rules about paths, as properties."""

from __future__ import annotations

import errno
import os
import posixpath
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

from app.domain.result_policy import DEFAULT_PROTECTED
from app.domain.tree_path import escaping_links, fold_path, hostile_reason, is_protected, twin_paths

NAME = st.text(alphabet=st.sampled_from("abcXYZ019._-é "), min_size=1, max_size=8).filter(
    lambda name: name.strip(". ") == name and name
)
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
PROTECTED = ["CODEOWNERS", "docs/CODEOWNERS", ".github/CODEOWNERS", ".gitmodules", ".github/issuewright.yml",
             ".github/workflows/a.yml", ".github/workflows/a/b/c", ".github/workflows", ".github"]  # fmt: skip


@given(PATH)
def test_ordinary_names_are_not_hostile(path: str) -> None:
    assert hostile_reason(path) is None


@given(
    PATH,
    PATH,
    st.sampled_from(["..", ".", "", ".git", ".GIT", ".Git", "git~1", "GIT~1", ".git.", ".git ", ".git. .",
                     ".g\u200dit", "\ufeff.git", ".git::$INDEX_ALLOCATION", ".git:x", "a\\b", "a\0b", "a\nb", "é" * 128]),
)  # fmt: skip
def test_one_hostile_component_anywhere_makes_the_path_hostile(
    before: str, after: str, component: str
) -> None:
    assert hostile_reason(component or "/x")
    assert hostile_reason(f"{before}/{component}/{after}")
    assert hostile_reason(f"{before}/{component}")


@pytest.mark.parametrize("path", ["/etc/passwd", "C:x", "c:/x", "\\\\host\\share", "a/" * 2100 + "b"])
def test_absolute_and_overlong_paths_are_hostile(path: str) -> None:
    assert hostile_reason(path)


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x", "a.git/x", "gitfoo", "..a", "a..", "...", "git~x"]
)
def test_names_that_only_look_similar_are_not_hostile(path: str) -> None:
    assert hostile_reason(path) is None


@given(st.sampled_from(PROTECTED), st.data())
def test_protected_paths_are_recognised_in_every_disguise(path: str, data: st.DataObject) -> None:
    disguised = "".join(data.draw(st.sampled_from([character, character.upper()])) for character in path)
    names = [name + data.draw(st.sampled_from(["", ".", " "])) for name in disguised.split("/")]
    assert is_protected("/".join(names), DEFAULT_PROTECTED)


@pytest.mark.parametrize(
    "path",
    ["src/CODEOWNERS", "src/CODEOWNERS.md", "CODEOWNERS.md", "tools/CODEOWNERS_parser.py", "docs/CODEOWNERSX",
     ".github/workflow/x.yml", "x/.github/workflows/a.yml", ".github/issuewright.yml.bak", "gitmodules", "docs"],
)  # fmt: skip
def test_other_paths_are_not_protected(path: str) -> None:
    assert (path == "docs") is is_protected(path, DEFAULT_PROTECTED)


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*.lock", ["a.lock", "b/c.lock", "B/C.LOCK"], ["lock", "a.lock.md"]),
        ("deploy/", ["deploy/x", "a/deploy/x", "deploy"], ["deployment/x"]),
        ("/infra/*.tf", ["infra/a.tf"], ["infra/b/a.tf", "x/infra/a.tf"]),
        ("infra/**/secret.txt", ["infra/secret.txt", "infra/a/b/secret.txt"], ["secret.txt"]),
        ("**/x?z", ["xyz", "a/xyz"], ["xz"]),
        ("a+b(c)", ["a+b(c)"], ["aab(c)"]),
    ],
)
def test_pattern_means_what_gitignore_means(pattern: str, inside: list[str], outside: list[str]) -> None:
    assert all(is_protected(path, [pattern]) for path in inside)
    assert not any(is_protected(path, [pattern]) for path in outside)


def test_empty_pattern_protects_nothing() -> None:
    assert not is_protected("a", ["", " ", "/"])


LINKS = st.dictionaries(
    st.sampled_from(["a", "b", "d/c", "d/e", "d/f/g"]),
    st.lists(
        st.sampled_from(["..", ".", "a", "b", "c", "d", "e", "f", "g", "new"]), min_size=1, max_size=5
    ).map("/".join),
    max_size=5,
)


def is_loop(path: Path) -> bool:
    """Whether the kernel gives up on following it: then nothing is reached, wherever a name may seem to lead."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


@settings(max_examples=60)
@given(links=LINKS)
@example(links={"a": "a/../.."})
def test_links_are_judged_as_the_kernel_follows_them(
    links: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    top = tmp_path_factory.mktemp("links").resolve()
    tree = top / "tree"
    (tree / "d" / "f").mkdir(parents=True)
    for path, target in links.items():
        (tree / path).symlink_to(target)
    escaping = set(escaping_links(links, frozenset(links)))
    for path in links:
        # What the kernel reaches without escaping in between is inside, so the end point must be too.
        if path not in escaping and not is_loop(tree / path):
            real = Path(os.path.realpath(tree / path))
            assert real == tree or tree in real.parents


def test_unchanged_link_that_always_led_out_is_nobodys_fault() -> None:
    links = {"old": "/usr", "new": "old/x", "fine": "a"}
    assert escaping_links(links, frozenset({"fine"})) == []
    assert escaping_links(links, frozenset({"new"})) == ["new"]


def test_unchanged_link_that_a_changed_one_bends_is_found() -> None:
    assert escaping_links({"d/a": "..", "old": "d/a/.."}, frozenset({"d/a"})) == ["old"]


def test_cycle_of_links_ends() -> None:
    assert escaping_links({"a": "b", "b": "a"}, frozenset({"a"})) == []


@given(PATH)
def test_folding_is_stable_and_blind_to_case_and_composition(path: str) -> None:
    assert fold_path(path) == fold_path(fold_path(path))
    assert fold_path(path) == fold_path(path.upper()) == fold_path(unicodedata.normalize("NFD", path))
    assert posixpath.normpath(path) == path


def test_twins_that_stood_before_are_nobodys_fault() -> None:
    before = ["A", "a", "a/x"]
    assert twin_paths(["a/y"], [*before, "a/y"], before) == []
    assert twin_paths(["b"], ["B", "b"], ["B"]) == [("B", "b")]
