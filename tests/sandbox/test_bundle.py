from __future__ import annotations

from pathlib import Path

import pytest

from app.sandbox.bundle import installed_payload, read_bundle


def test_same_files_give_the_same_digest_and_only_python_goes_in(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "sub").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "sub" / "more.py").write_text("x = 1\n")
    first = read_bundle(package)
    (package / "notes.md").write_text("no")
    (package / "link.py").symlink_to("/etc/passwd")
    second = read_bundle(package)
    (package / "sub" / "more.py").write_text("x = 2\n")
    third = read_bundle(package)

    assert first == second
    assert set(first.files) == {"__init__.py", "sub/more.py"}
    assert third.digest != first.digest


def test_bundle_is_laid_out_as_an_importable_package(tmp_path: Path) -> None:
    bundle = read_bundle(installed_payload())

    bundle.write_to(tmp_path)

    assert (tmp_path / "sandbox_payload" / "wire" / "__init__.py").read_bytes() == (
        installed_payload() / "wire" / "__init__.py"
    ).read_bytes()


def test_directory_without_python_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bundle(tmp_path)
