"""Regular expressions that come from outside are compiled here, so that a bad one is refused at once."""

import re


def check_pattern(pattern: str) -> str:
    """Return `pattern` unchanged, or raise ValueError when it is no regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return pattern


def first_group(pattern: str, text: str) -> str | None:
    """The last occurrence's first group (or the whole match when there is none); None without a match.

    The last one, because a number printed at the end of a tool's output is the one meant.
    """
    found = None
    for found in re.finditer(pattern, text, re.MULTILINE):  # noqa: B007 (the last one is wanted)
        pass
    if found is None:
        return None
    return found.group(1) if found.re.groups else found.group(0)
