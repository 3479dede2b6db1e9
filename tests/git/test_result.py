"""Results as bundles, from the outside: crafted bytes in, a decision out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from app.domain.errors import ResultRefused
from app.domain.result_policy import (
    Accepted,
    NoChanges,
    PushRefused,
    ResultLimits,
    ResultPolicy,
    decide_result,
)
from app.git.command import GitFailed
from app.git.diff import render_patch
from app.git.result import Expected, open_result
from tests.git.conftest import BASE_FILES, Bench
from tests.git.crafting import EXECUTABLE, GITLINK, LINK, FileLike, manifest_for

SECRET = "ghp_" + "aB3d" * 9


async def test_ordinary_change_is_accepted_with_plain_facts(bench: Bench) -> None:
    head = bench.work({"win.txt": b"one\r\nTWO\r\nthree\r\n", "run.sh": (EXECUTABLE, b"#!/bin/sh\n")})
    facts = await bench.open(head)
    assert decide_result(facts, ResultPolicy()) == Accepted()
    assert [(e.path, e.old_mode, e.new_mode) for e in facts.entries] == [
        ("run.sh", "000000", "100755"),
        ("win.txt", "100644", "100644"),
    ]
    assert [(a.path, a.text) for a in facts.added if a.path == "win.txt"] == [("win.txt", "\nTWO\r\n\n")]
    assert (facts.start_sha, facts.head_sha, facts.base_sha) == (bench.start, head, bench.base)
    assert (
        bench.quarantine.git("cat-file", "blob", f"{head}:win.txt", check=True).encode()
        == b"one\r\nTWO\r\nthree"
    )


async def test_opening_twice_gives_the_same_facts(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    assert await bench.open(head) == await bench.open(head)


async def test_residue_of_a_dead_attempt_in_the_quarantine_is_replaced(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bench.quarantine.path.mkdir()
    (bench.quarantine.path / "HEAD.lock").write_text("x")
    (bench.quarantine.path / "config").write_text("[core]\n\tgarbage")
    assert decide_result(await bench.open(head), ResultPolicy()) == Accepted()


async def test_checkpoint_without_manifest_is_read_by_its_own_head(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "c.bundle", f"^{bench.start}", head=head)
    facts = await open_result(
        bundle,
        None,
        expected=Expected(bench.start),
        mirror=bench.mirror.path,
        quarantine=bench.quarantine.path,
        limits=ResultLimits(),
    )
    assert facts.head_sha == head


# ------------------------------------------------------------------ nothing to push (F132)


async def test_no_bundle_and_head_at_start_is_no_change(bench: Bench) -> None:
    facts = await bench.open_bundle(None, bench.start)
    assert decide_result(facts, ResultPolicy()) == NoChanges("same_tree")


async def test_commits_that_cancel_out_are_no_change(bench: Bench) -> None:
    first = bench.work({"a.txt": b"a\n"})
    assert await bench.decide(bench.work({}, first)) == NoChanges("same_tree")


async def test_undoing_what_was_delivered_before_is_a_change(bench: Bench) -> None:
    first = bench.work({"a.txt": b"a\n"})
    back = bench.work({}, first)
    assert await bench.decide(back, ResultPolicy(delivered=True)) == Accepted()
    facts = await bench.open_bundle(None, bench.start)
    assert decide_result(facts, ResultPolicy(delivered=True)) == NoChanges("same_tree")


async def test_secret_in_commits_that_cancel_out_is_not_delivered(bench: Bench) -> None:
    head = bench.work({}, bench.work({"a.env": SECRET.encode()}))
    decision = await bench.decide(head, ResultPolicy(delivered=True))
    assert isinstance(decision, PushRefused)
    assert decision.code == "secret"


async def test_blank_lines_and_trailing_space_alone_are_no_change(bench: Bench) -> None:
    head = bench.work({"src/app.py": b"def main():  \n\n    return 1\n\n"})
    assert await bench.decide(head) == NoChanges("whitespace_only")


async def test_changed_indentation_is_a_change(bench: Bench) -> None:
    assert await bench.decide(bench.work({"src/app.py": b"def main():\n\treturn 1\n"})) == Accepted()


# ------------------------------------------------------------------ not a result at all (F133, F134)


async def refusal(
    bench: Bench, bundle: Path | None, head: str, limits: ResultLimits | None = None
) -> ResultRefused:
    with pytest.raises(ResultRefused) as caught:
        await bench.open_bundle(bundle, head, limits)
    return caught.value


async def test_extra_ref_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bench.sandbox.branch("my-fix", head)
    bundle = bench.sandbox.bundle(bench.directory / "b", "refs/heads/my-fix", f"^{bench.start}", head=head)
    assert (await refusal(bench, bundle, head)).code == "wrong_refs"


async def test_other_ref_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head, ref="refs/heads/main")
    assert (await refusal(bench, bundle, head)).code == "wrong_refs"


async def test_head_that_disagrees_with_the_manifest_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    assert (await refusal(bench, bundle, "f" * 40)).code == "manifest_mismatch"


async def test_bundle_that_disagrees_with_the_manifests_hash_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    manifest = manifest_for(bundle, bench.start, head)
    bundle.write_bytes(bundle.read_bytes() + b"x")
    with pytest.raises(ResultRefused, match="manifest_mismatch"):
        await open_result(
            bundle,
            manifest,
            expected=Expected(bench.start),
            mirror=bench.mirror.path,
            quarantine=bench.quarantine.path,
            limits=ResultLimits(),
        )


async def test_missing_bundle_is_refused(bench: Bench) -> None:
    assert (await refusal(bench, None, "e" * 40)).code == "bundle_missing"


@pytest.mark.parametrize("keep", [0, 10, 60, 200, -30, -1])
async def test_truncated_bundle_is_refused(bench: Bench, keep: int) -> None:
    head = bench.work({"a.txt": os.urandom(500)})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    bundle.write_bytes(bundle.read_bytes()[:keep])
    assert (await refusal(bench, bundle, head)).code == "corrupt_bundle"


async def test_flipped_byte_in_the_pack_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": os.urandom(500)})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    data = bytearray(bundle.read_bytes())
    data[-200] ^= 0xFF
    bundle.write_bytes(bytes(data))
    assert (await refusal(bench, bundle, head)).code == "corrupt_bundle"


async def test_rewritten_history_is_refused(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"}, bench.base)
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.base}", head=head)
    assert (await refusal(bench, bundle, head)).code == "not_descendant"


async def test_unrelated_history_is_refused(bench: Bench) -> None:
    head = bench.sandbox.commit({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "b", head=head)
    assert (await refusal(bench, bundle, head)).code == "not_descendant"


async def test_unknown_prerequisite_is_refused(bench: Bench) -> None:
    middle = bench.work({"a.txt": b"a\n"})
    head = bench.work({"a.txt": b"b\n"}, middle)
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{middle}", head=head)
    assert (await refusal(bench, bundle, head)).code == "unknown_prerequisite"


async def test_link_in_place_of_the_bundle_is_not_followed(bench: Bench) -> None:
    head = bench.work({"a.txt": b"a\n"})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    link = bench.directory / "link.bundle"
    link.symlink_to(bundle)
    assert (await refusal(bench, link, head)).code == "corrupt_bundle"


async def test_start_that_the_mirror_lacks_is_refused(bench: Bench) -> None:
    with pytest.raises(ResultRefused, match="unknown_start"):
        await open_result(
            None,
            manifest_for(None, "d" * 40, "d" * 40),
            expected=Expected("d" * 40),
            mirror=bench.mirror.path,
            quarantine=bench.quarantine.path,
            limits=ResultLimits(),
        )


# ------------------------------------------------------------------ limits (F129)


async def test_bundle_over_the_limit_is_refused_unread(bench: Bench) -> None:
    head = bench.work({"a.bin": os.urandom(50_000)})
    bundle = bench.sandbox.bundle(bench.directory / "b", f"^{bench.start}", head=head)
    assert (await refusal(bench, bundle, head, ResultLimits(max_bundle_bytes=10_000))).code == "too_large"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (ResultLimits(max_files=3), "too_many_files"),
        (ResultLimits(max_file_bytes=900), "too_large"),
        (ResultLimits(max_total_bytes=2_000), "too_large"),
        (ResultLimits(max_commits=1), "too_many_commits"),
    ],
)
async def test_result_over_a_limit_is_refused(bench: Bench, limits: ResultLimits, code: str) -> None:
    files: dict[str | bytes, FileLike | None] = {
        f"f{number}.txt": bytes([65 + number]) * 1000 for number in range(4)
    }
    head = bench.work({**files, "z": b"z"}, bench.work(files))
    decision = await bench.decide(head, ResultPolicy(limits=limits))
    assert isinstance(decision, PushRefused)
    assert decision.code == code


async def test_large_file_that_was_taken_out_again_counts(bench: Bench) -> None:
    head = bench.work({"b": b"b"}, bench.work({"big": b"x" * 5000}))
    decision = await bench.decide(head, ResultPolicy(limits=ResultLimits(max_file_bytes=4000)))
    assert decision == PushRefused("too_large", "a file is larger than 0.004 MB", ("big",))


async def test_huge_blob_of_zeros_in_a_small_pack_is_refused_by_its_size(bench: Bench) -> None:
    head = bench.work({"zeros": bytes(60_000_000)})
    decision = await bench.decide(head)
    assert isinstance(decision, PushRefused)
    assert (decision.code, decision.paths) == ("too_large", ("zeros",))


async def test_binary_and_non_utf8_files_pass_untouched_and_are_listed(bench: Bench) -> None:
    head = bench.work({"x.bin": b"\0\1\2", "latin.txt": b"caf\xe9\n", b"n\xe4me.txt": b"x\n"})
    assert await bench.decide(head) == Accepted(("Binary files are changed: x.bin",))


# ------------------------------------------------------------------ paths and links (F126, F127)


async def code_of(bench: Bench, head: str) -> tuple[str, tuple[str, ...]]:
    try:
        decision = await bench.decide(head)
    except ResultRefused as refused:
        return refused.code, refused.paths
    return (decision.code, decision.paths) if isinstance(decision, PushRefused) else ("", ())


@pytest.mark.parametrize(
    "path",
    [
        "../evil", "a/../../evil", ".git/hooks/post-checkout", "sub/.git/config", ".GIT/config", "git~1/config",
        ".git /config", ".git./config", ".g\u200cit/config", "C:\\evil", "a\\..\\b", "C:/evil", "NUL", "a/aux.txt",
        "x" * 300, "a\tb",
    ],
)  # fmt: skip
async def test_hostile_path_is_refused(bench: Bench, path: str) -> None:
    code, _ = await code_of(bench, bench.work({path: b"x\n"}))
    assert code in {"hostile_path", "corrupt_bundle"}


@pytest.mark.parametrize(
    ("name", "twin"),
    [("Readme.md", "README.md"), ("Src/other.py", "src/app.py"), ("DOCS/latest", "docs/latest")],
)
async def test_twin_of_an_existing_name_is_refused(bench: Bench, name: str, twin: str) -> None:
    assert (await code_of(bench, bench.work({name: b"x\n"})))[0] == "twin_paths"
    assert twin in BASE_FILES


async def test_composed_and_decomposed_twins_are_refused(bench: Bench) -> None:
    head = bench.work({"caf\u00e9.txt": b"1\n", "cafe\u0301.txt": b"2\n"})
    assert (await code_of(bench, head))[0] == "twin_paths"


@pytest.mark.parametrize(
    "links",
    [
        {"l": "/etc/passwd"}, {"l": "../x"}, {"docs/l": "../../x"}, {"l": "docs/../../x"}, {"l": ".git/config"},
        {"l": "C:\\x"}, {"src/up": "..", "evil": "src/up/.."}, {"docs/latest": "../.."}, {"l": "x" * 5000},
    ],
)  # fmt: skip
async def test_link_that_leaves_the_tree_is_refused(bench: Bench, links: dict[str, str]) -> None:
    head = bench.work({path: (LINK, target) for path, target in links.items()})
    assert (await code_of(bench, head))[0] == "symlink"


@pytest.mark.parametrize("target", ["v2/index.md", "../README.md", "missing", "latest/../../README.md"])
async def test_link_inside_the_tree_is_accepted(bench: Bench, target: str) -> None:
    assert await bench.decide(bench.work({"docs/l": (LINK, target)})) == Accepted()


async def test_file_below_a_link_of_the_same_name_is_refused(bench: Bench) -> None:
    inner = bench.sandbox.tree({"x": b"x\n"})
    link = bench.sandbox.object("blob", b"docs")
    entries = [(b"l", b"120000", link), (b"l", b"40000", inner)]
    tree = b"".join(mode + b" " + name + b"\0" + bytes.fromhex(sha) for name, mode, sha in entries)
    sha = bench.sandbox.object("tree", tree)
    commit = f"tree {sha}\nparent {bench.start}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx"
    head = bench.sandbox.object("commit", commit.encode())
    assert (await code_of(bench, head))[0] == "corrupt_bundle"


async def test_submodule_is_refused(bench: Bench) -> None:
    assert await code_of(bench, bench.work({"lib": (GITLINK, "a" * 40)})) == ("submodule", ("lib",))


# ------------------------------------------------------------------ protected paths (F131, field case 11)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({".github/workflows/ci.yml": None, "ci.yml": b"on: push\n"}, ".github/workflows/ci.yml"),
        ({"docs/CODEOWNERS": None}, "docs/CODEOWNERS"),
        ({".gitmodules": (EXECUTABLE, b"# none\n")}, ".gitmodules"),
        ({"CODEOWNERS": b"* @bob\n"}, "CODEOWNERS"),
        ({".github/codeowners": b"* @bob\n"}, ".github/codeowners"),
        ({".github/Workflows/x.yml": b"on: push\n"}, ".github/Workflows/x.yml"),
        ({".github/issuewright.yml": b"budget_usd: 1\n"}, ".github/issuewright.yml"),
    ],
)
async def test_change_of_a_protected_path_is_refused_by_its_name(
    bench: Bench, changes: dict[str | bytes, FileLike | None], named: str
) -> None:
    code, paths = await code_of(bench, bench.work(changes))
    assert code == "protected_paths"
    assert named in paths


async def test_names_that_merely_begin_like_a_protected_one_are_accepted(bench: Bench) -> None:
    head = bench.work(
        {"src/CODEOWNERS.md": b"x\n", "tools/CODEOWNERS_parser.py": b"x = 1\n", "src/CODEOWNERS": b"x\n"}
    )
    assert await bench.decide(head) == Accepted()


async def test_protected_path_changed_on_the_base_and_merged_in_is_no_change_of_the_result(
    bench: Bench,
) -> None:
    newer = {**BASE_FILES, ".github/workflows/ci.yml": b"on: [push, pull_request]\n"}
    base = ""
    for repository in (bench.mirror, bench.sandbox):
        base = repository.commit(newer, bench.base, message="CI", author="Alice <alice@example.org>")
        repository.branch("main", base)
    work = bench.work({"a.txt": b"a\n"})
    head = bench.sandbox.commit({**newer, "a.txt": b"a\n"}, work, base, message="Merge main")
    facts = await bench.open(head, base=base)
    assert decide_result(facts, ResultPolicy()) == Accepted()
    assert [entry.path for entry in facts.entries] == ["a.txt"]
    assert [commit.sha for commit in facts.commits] == [head, work]


# ------------------------------------------------------------------ secrets (F130)


async def test_secret_in_a_file_is_refused_by_place_and_never_shown(bench: Bench) -> None:
    decision = await bench.decide(
        bench.work({"src/app.py": f"def main():\n    return 1\nTOKEN = '{SECRET}'\n".encode()})
    )
    assert decision == PushRefused(
        "secret", "what looks like a credential would be published", ("src/app.py:3 (GitHub token)",)
    )


async def test_secret_that_a_later_commit_removes_is_refused(bench: Bench) -> None:
    head = bench.work({"b": b"b"}, bench.work({"a.env": SECRET.encode()}))
    assert await code_of(bench, head) == ("secret", ("a.env:1 (GitHub token)",))


async def test_secret_in_a_commit_message_is_refused(bench: Bench) -> None:
    head = bench.work({"b": b"b"}, message=f"Use {SECRET}")
    assert await code_of(bench, head) == ("secret", (f"message of commit {head[:12]}",))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
async def test_secret_in_a_utf16_or_binary_file_is_refused(bench: Bench, encoding: str) -> None:
    code, _ = await code_of(bench, bench.work({"x.txt": f"key {SECRET}".encode(encoding)}))
    assert code == "secret"


async def test_secret_that_stood_in_the_file_before_is_not_the_results_fault(bench: Bench) -> None:
    for repository in (bench.mirror, bench.sandbox):
        bench.base = repository.commit({**BASE_FILES, "old.env": SECRET.encode() + b"\n"})
        bench.start = repository.commit(
            {**BASE_FILES, "old.env": SECRET.encode() + b"\n"}, bench.base, message="Start"
        )
        repository.branch("main", bench.start)
    head = bench.work({"old.env": SECRET.encode() + b"\nB=1\n"})
    assert await bench.decide(head) == Accepted()


async def test_canary_split_over_strings_is_refused(bench: Bench) -> None:
    canary = "kJ8-plain-model-key-71"
    head = bench.work({"x.py": b"k = 'kJ8-plain' + '-model' \\\n  '-key-71'\n"})
    decision = await bench.decide(head, ResultPolicy(canaries=(canary,)))
    assert isinstance(decision, PushRefused)
    assert decision.paths == ("x.py:1 (our own secret)",)


# ------------------------------------------------------------------ nothing of the repository runs (F128)


async def test_hooks_filters_and_attributes_of_a_result_never_run(bench: Bench) -> None:
    canary = bench.directory / "RAN"
    script = f"#!/bin/sh\ntouch {canary}\n".encode()
    head = bench.work(
        {
            ".gitattributes": b"* filter=evil diff=evil merge=evil\n*.bin filter=lfs diff=lfs merge=lfs -text\n",
            ".hooks/post-checkout": (EXECUTABLE, script),
            "hooks/pre-push": (EXECUTABLE, script),
            "data/model.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        }
    )
    decision = await bench.decide(head)
    assert isinstance(decision, Accepted)
    assert "data/model.bin" in decision.notes[0]
    assert not canary.exists()


async def test_hooks_and_programs_in_the_mirrors_directory_never_run(bench: Bench) -> None:
    canary = bench.directory / "RAN"
    for name in ("reference-transaction", "post-index-change", "pre-push", "update"):
        hook = bench.mirror.path / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
        hook.chmod(0o755)
    bench.mirror.git("config", "diff.external", f"touch {canary}")
    assert await bench.decide(bench.work({"a": b"a"})) == Accepted()
    assert not canary.exists()


async def test_replaced_objects_have_no_say(bench: Bench) -> None:
    bad = bench.work({".github/workflows/ci.yml": b"evil\n"})
    await bench.open(bad)
    bench.quarantine.git("replace", bad, bench.start)
    text, truncated = await render_patch(bench.quarantine.path, bench.start, bad, 10_000)
    assert "+evil" in text
    assert not truncated


async def test_patch_over_the_limit_is_cut_at_a_line_and_says_so(bench: Bench) -> None:
    head = bench.work({"a.txt": b"line\n" * 1000, "k": SECRET.encode()})
    await bench.open(head)
    text, truncated = await render_patch(bench.quarantine.path, bench.start, head, 1000)
    assert truncated
    assert text.endswith("+line\n")
    whole, truncated = await render_patch(bench.quarantine.path, bench.start, head, 100_000)
    assert not truncated
    assert SECRET not in whole
    with pytest.raises(GitFailed):
        await render_patch(bench.quarantine.path, bench.start, "a" * 40, 1000)
