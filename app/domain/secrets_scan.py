"""Finds credentials in text that is about to leave: the last net, not the fence (rule R8).

Known formats are found as they stand, reversed, wrapped in base64 and cut into joined string literals. Exact secrets
of ours (`canaries`) are also found spread over whitespace, quotes and concatenation, and in hexadecimal. What was
shortened or encrypted passes.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from app.domain.secret_formats import SECRET_FORMATS

MIN_CANARY_CHARS = 12
"""Shorter exact secrets are not looked for: they would be found in innocent text."""

# Lines that are base64 as a whole continue the run of the line before.
_BASE64_RUN = re.compile(
    r"[A-Za-z0-9+/_-]{24,}+(?:\r?\n[ \t]*+[A-Za-z0-9+/_-]++(?==*[\"',]?[ \t]*+(?:\r?\n|\Z)))*+"
)
_BASE64_DEPTH = 2
# Possessive throughout: the text is a stranger's, and backtracking over long blanks would take for ever.
_JOINT = re.compile(
    r"""["'`][ \t]*+(?:[+.&,\\]|\|\|)?+[ \t]*+(?:\\?\r?\n[ \t]*+)?+(?:[+.&])?+[ \t]*+[bfru]{0,2}+["'`]"""
)
# What may stand between the pieces of a split secret; removed from text and secret alike.
_SEPARATORS = re.compile(r"[\s\"'`+\\,;&()\[\]{}|.]+")


@dataclass(frozen=True, order=True)
class Finding:
    """Where something that looks like a credential starts (both from 1). Never what it is."""

    line: int
    column: int
    kind: str


@dataclass(frozen=True, order=True)
class _Span:
    start: int
    end: int
    kind: str


def find_secrets(text: str, canaries: Sequence[str] = ()) -> list[Finding]:
    """Every place in `text` that holds a known format or one of the exact secrets `canaries`, in order."""
    spans = _find_spans(text, canaries)
    if not spans:
        return []
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found: list[Finding] = []
    for span in spans:
        line = bisect_right(line_starts, span.start)
        found.append(Finding(line, span.start - line_starts[line - 1] + 1, span.kind))
    return found


def redact(text: str, canaries: Sequence[str] = ()) -> str:
    """`text` with each credential replaced by `[redacted: KIND]`; for logs and comments."""
    pieces: list[str] = []
    position = 0
    for span in _find_spans(text, canaries):
        pieces += (text[position : span.start], f"[redacted: {span.kind}]")
        position = span.end
    pieces.append(text[position:])
    return "".join(pieces)


def _find_spans(text: str, canaries: Sequence[str]) -> list[_Span]:
    """All hits in order; overlapping ones are joined under the first one's kind."""
    spans = [
        *_known(text),
        *_reversed(text),
        *_joined(text),
        *_wrapped(text, _BASE64_DEPTH),
        *_exact(text, canaries),
    ]
    merged: list[_Span] = []
    for span in sorted(spans):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = _Span(last.start, max(last.end, span.end), last.kind)
        else:
            merged.append(span)
    return merged


def _known(text: str) -> Iterator[_Span]:
    for entry in SECRET_FORMATS:
        if any(hint in text for hint in entry.hints):
            for match in entry.pattern.finditer(text):
                yield _Span(match.start(), match.end(), entry.kind)


def _reversed(text: str) -> Iterator[_Span]:
    size = len(text)
    for span in _known(text[::-1]):
        yield _Span(size - span.end, size - span.start, span.kind)


def _joined(text: str) -> Iterator[_Span]:
    """Formats that appear once the joints between string literals are taken out."""
    whole, origins = _without(text, _JOINT)
    if origins:
        for span in _known(whole):
            yield _Span(_origin(origins, span.start), _origin(origins, span.end - 1) + 1, span.kind)


def _wrapped(text: str, depth: int) -> Iterator[_Span]:
    for run in _BASE64_RUN.finditer(text):
        packed = re.sub(r"\s+", "", run.group())
        # A run may begin with characters that only look like its part, which shifts the groups of four.
        for shift in range(4):
            plain = _unwrap(packed[shift:])
            hit = next(_known(plain), None) or (next(_wrapped(plain, depth - 1), None) if depth > 1 else None)
            if hit:
                yield _Span(run.start(), run.end(), hit.kind)
                break


def _unwrap(packed: str) -> str:
    whole = packed[: len(packed) - len(packed) % 4] if len(packed) % 4 == 1 else packed
    try:
        plain = base64.b64decode(whole.replace("-", "+").replace("_", "/") + "=" * (-len(whole) % 4))
    except (binascii.Error, ValueError):
        return ""
    return plain.decode("latin-1")


def _exact(text: str, canaries: Sequence[str]) -> Iterator[_Span]:
    forms = {form for secret in canaries for form in _forms(secret.strip())}
    if not forms:
        return
    compact, origins = _without(text, _SEPARATORS)
    for form in forms:
        for match in re.finditer(re.escape(form), compact):
            yield _Span(
                _origin(origins, match.start()), _origin(origins, match.end() - 1) + 1, "our own secret"
            )


def _forms(secret: str) -> Iterator[str]:
    """The texts, without separators, under which a secret is looked for."""
    if len(secret) < MIN_CANARY_CHARS:
        return
    octets = secret.encode()
    plain = _SEPARATORS.sub("", secret)
    if len(plain) >= MIN_CANARY_CHARS:
        yield plain
        yield plain[::-1]
    yield octets.hex()
    yield octets.hex().upper()
    for shift in range(3):
        # The characters that depend on nothing but the secret, whatever stands before and after it.
        packed = base64.b64encode(b"\0" * shift + octets).decode()
        core = packed[(0, 2, 3)[shift] :].rstrip("=")
        core = core if (shift + len(octets)) % 3 == 0 else core[:-1]
        for form in (core, core.replace("+", "-").replace("/", "_")):
            yield _SEPARATORS.sub("", form)


def _without(text: str, pattern: re.Pattern[str]) -> tuple[str, list[tuple[int, int]]]:
    """`text` without what `pattern` matches, and (position in the rest, position in `text`) after each cut."""
    pieces: list[str] = []
    origins: list[tuple[int, int]] = []
    position = size = 0
    for match in pattern.finditer(text):
        piece = text[position : match.start()]
        pieces.append(piece)
        size += len(piece)
        position = match.end()
        origins.append((size, position))
    pieces.append(text[position:])
    return "".join(pieces), origins


def _origin(origins: list[tuple[int, int]], position: int) -> int:
    """Where in the whole text the character at `position` of the rest stands."""
    index = bisect_right(origins, position, key=lambda cut: cut[0])
    if index == 0:
        return position
    rest, whole = origins[index - 1]
    return whole + (position - rest)
