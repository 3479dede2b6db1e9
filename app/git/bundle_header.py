"""The readable start of a git bundle, parsed here so that git is shown the pack only when all else is right."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import ResultRefused

_MAX_HEADER_BYTES = 262_144
_SIGNATURES = {b"# v2 git bundle": 2, b"# v3 git bundle": 3}
_REF = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) (\S+)")
_PREREQUISITE = re.compile(rb"-([0-9a-f]{40}(?:[0-9a-f]{24})?)(?: .*)?")
_CAPABILITIES = {b"object-format=sha1", b"object-format=sha256"}


@dataclass(frozen=True)
class BundleHeader:
    """https://git-scm.com/docs/gitformat-bundle. `pack_offset`: where the pack starts, in bytes."""

    refs: tuple[tuple[str, str], ...]
    prerequisites: tuple[str, ...]
    pack_offset: int


@contextmanager
def open_handed_over(path: Path, max_bytes: int) -> Iterator[int]:
    """A descriptor of a regular file that a stranger handed over, links not followed. Raises ResultRefused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ResultRefused("corrupt_bundle", f"the bundle can't be opened: {error.strerror}") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise ResultRefused("corrupt_bundle", "the bundle is not a regular file")
        if facts.st_size > max_bytes:
            raise ResultRefused(
                "too_large", f"the bundle has {facts.st_size} bytes, at most {max_bytes} are allowed"
            )
        yield descriptor
    finally:
        os.close(descriptor)


def digest(descriptor: int) -> str:
    """SHA-256 of the whole file, in hexadecimal."""
    sha256 = hashlib.sha256()
    os.lseek(descriptor, 0, os.SEEK_SET)
    while chunk := os.read(descriptor, 1 << 20):
        sha256.update(chunk)
    return sha256.hexdigest()


def read_header(descriptor: int) -> BundleHeader:
    """Raises ResultRefused(`corrupt_bundle`) for anything but a whole header of version 2 or 3."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    start = os.read(descriptor, _MAX_HEADER_BYTES)
    head, separator, _ = start.partition(b"\n\n")
    signature, *lines = head.split(b"\n")
    if not separator or signature not in _SIGNATURES:
        raise ResultRefused("corrupt_bundle", "that is not a git bundle, or it was cut off")
    refs: list[tuple[str, str]] = []
    prerequisites: list[str] = []
    for line in lines:
        if line.startswith(b"@"):
            if line[1:] not in _CAPABILITIES:
                raise ResultRefused("corrupt_bundle", "the bundle is not complete (it was filtered)")
        elif match := _PREREQUISITE.fullmatch(line):
            prerequisites.append(match[1].decode())
        elif match := _REF.fullmatch(line):
            refs.append((match[2].decode("utf-8", "replace"), match[1].decode()))
        else:
            raise ResultRefused("corrupt_bundle", "the bundle's header is damaged")
    return BundleHeader(tuple(refs), tuple(prerequisites), len(head) + len(separator))
