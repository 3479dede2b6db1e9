"""Packs `sandbox_payload` for a sandbox: its Python files, under a digest that names exactly these bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "sandbox_payload"


@dataclass(frozen=True)
class PayloadBundle:
    """`files` maps paths relative to the package (with /) to their bytes; `digest` is a SHA-256 over both, in hex."""

    files: Mapping[str, bytes]
    digest: str

    def write_to(self, directory: Path) -> None:
        """Lays the package out below `directory`, which then works as an entry of PYTHONPATH."""
        for relative, data in self.files.items():
            path = directory / PACKAGE / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def installed_payload() -> Path:
    """The package directory that this installation brings. Nothing of it is imported."""
    return Path(__file__).resolve().parents[2] / PACKAGE


def read_bundle(package: Path) -> PayloadBundle:
    """Only .py files go in: no caches, no links. Raises FileNotFoundError when there are none."""
    files = {
        path.relative_to(package).as_posix(): path.read_bytes()
        for path in sorted(package.rglob("*.py"))
        if path.is_file() and not path.is_symlink()
    }
    if not files:
        raise FileNotFoundError(f"no Python files in {package}")
    digest = hashlib.sha256()
    for relative, data in files.items():
        digest.update(f"{relative}\0{len(data)}\0".encode())
        digest.update(data)
    return PayloadBundle(files, digest.hexdigest())
