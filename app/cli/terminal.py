"""Bytes and texts of strangers as a terminal may have them: nothing that it would obey."""

from __future__ import annotations

import codecs
import re

_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, moves
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, links, the clipboard
    r"|\x1b[PX^_][^\x1b]*\x1b\\"
    r"|\x1b[ -/]*[0-~]"
)
_KEPT = "\n\t"


class ReadableLog:
    """A log that comes in pieces, as text. A character that is cut between two pieces is put together."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        return readable(self._decoder.decode(piece))


def readable(text: str) -> str:
    """Lines and tabs stay, terminal sequences go, and what else can't be printed is shown as a mark."""
    text = _SEQUENCE.sub("", text).replace("\r\n", "\n").replace("\r", "\n")
    return "".join(
        char if char.isprintable() or char in _KEPT else "\N{REPLACEMENT CHARACTER}" for char in text
    )


def escape_unprintable(json_text: str) -> str:
    r"""JSON that says the same, with everything a terminal would obey written as `\uXXXX`."""
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in json_text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
