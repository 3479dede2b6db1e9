"""Branch names and bases by the GitFlow rules (contract, section 4). Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_BRANCH = 60
MAX_SUFFIX = 20
"""How many taken names are tried before giving up."""

_NEVER = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{")
_DASHES = re.compile(r"[^a-z0-9]+")


def branch_kind(labels: Iterable[str]) -> str:
    """`hotfix` for a label hotfix, or bug with critical; `bugfix` for bug; else `feature`."""
    names = {label.casefold() for label in labels}
    if "hotfix" in names or {"bug", "critical"} <= names:
        return "hotfix"
    return "bugfix" if "bug" in names else "feature"


def slug(title: str) -> str:
    """Lower-case ASCII words joined by dashes; `issue` when nothing is left of the title."""
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    return _DASHES.sub("-", text).strip("-") or "issue"


def branch_name(kind: str, issue_number: int, title: str, attempt: int = 0) -> str:
    """`feature/12-add-a-thing`, with `-2`, `-3`… for attempt 1, 2… ; at most 60 characters, always a legal ref.

    See git-check-ref-format: the slug has only a-z, 0-9 and single dashes, so `..`, `.lock` and `@{` can't occur.
    """
    suffix = f"-{attempt + 1}" if attempt else ""
    head = f"{kind}/{issue_number}-"
    room = MAX_BRANCH - len(head) - len(suffix)
    words = slug(title)
    if len(words) > room:
        cut = words[:room]
        # Cut between words when that keeps most of it, so that names stay readable.
        shorter = cut.rsplit("-", 1)[0]
        words = (shorter if len(shorter) >= room // 2 else cut).strip("-") or "issue"[:room]
    return f"{head}{words}{suffix}"


def is_branch_name(name: str) -> bool:
    """Whether Git takes it as the name of a branch (git-check-ref-format), at most 255 characters."""
    parts = name.split("/")
    return (
        0 < len(name) <= 255
        and not name.startswith("-")
        and not name.endswith(".")
        and name not in {"@", "HEAD"}
        and not _NEVER.search(name)
        and all(part and not part.startswith(".") and not part.endswith(".lock") for part in parts)
    )


def base_candidates(
    kind: str, default_branch: str, asked: str | None = None, configured: str | None = None
) -> list[str]:
    """Base branches to look for, best first. `asked` comes from `/agent base`, `configured` from the repository."""
    if asked:
        return [asked]
    if kind == "hotfix":
        return [default_branch]
    candidates = [configured] if configured else []
    return [*dict.fromkeys([*candidates, "develop", default_branch])]
