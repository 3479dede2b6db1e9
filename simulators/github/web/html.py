"""HTML that can't be forgotten to escape: plain strings are text, :class:`Html` is markup."""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Html(str):
    """Markup that is safe to send."""

    __slots__ = ()


Child = str | Html | int | None | Iterable["Child"]


def join(children: Iterable[Child]) -> Html:
    """Children one after the other; text is escaped, None is nothing."""
    parts = []
    for child in children:
        if isinstance(child, Html):
            parts.append(str(child))
        elif isinstance(child, str | int):
            parts.append(escape(str(child)))
        elif child is not None:
            parts.append(str(join(child)))
    return Html("".join(parts))


def el(tag: str, *children: Child, cls: str | None = None, **attributes: str | None) -> Html:
    """An element; attribute names take ``_`` for ``-``, None leaves one out."""
    given = {"class": cls, **attributes}
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in given.items()
        if value is not None
    )
    if tag in VOID:
        return Html(f"<{tag}{shown}>")
    return Html(f"<{tag}{shown}>{join(children)}</{tag}>")


def link(href: str, *children: Child, cls: str | None = None) -> Html:
    """A link; only http(s) and local addresses."""
    safe = href if href.startswith(("/", "http://", "https://", "#")) else "#"
    return el("a", *children, cls=cls, href=safe)
