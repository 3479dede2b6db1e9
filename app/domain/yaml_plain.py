"""YAML of a stranger, or of the operator, as plain data: only mappings, lists and scalars of the core kind, small, and
every key's line.

Anchors, aliases, tags, merge keys, duplicate keys and several documents are refused: each has been a way to make a
small file large, or to make it say something else than what a reviewer sees.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import yaml

MAX_BYTES = 64_000
MAX_DEPTH = 8

Plain = dict[str, object] | list[object] | str | int | float | bool | None
Place = tuple[str | int, ...]


class BadYaml(Exception):
    """`reason` is a clause for people; `line` counts from 1, None where there is none."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


@dataclass
class Document:
    data: object = None
    lines: dict[Place, int] = field(default_factory=dict)
    """Where each key and list item stands, counted from 1."""


def parse_yaml(text: str) -> Document:
    """The one document in `text`; data is None when it is empty. Raises BadYaml, and nothing else, on any text."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise BadYaml(f"it is larger than {MAX_BYTES:,} bytes")
    try:
        _check_events(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadYaml(
            f"it is not valid YAML: {error.problem or 'unreadable'}", mark.line + 1 if mark else None
        ) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        # The reader's complaint about characters; a `\U` escape beyond Unicode's end is a bare error of Python's `chr`.
        raise BadYaml("it contains characters that YAML does not allow") from None
    document = Document()
    if root is not None:
        document.data = _plain(root, (), document.lines)
    return document


def _check_events(text: str) -> None:
    """What would be dangerous to build. Reading events keeps no state that grows with what they mean."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else None
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadYaml("anchors and aliases (`&`, `*`) are not allowed", line)
        if getattr(event, "tag", None):
            raise BadYaml("tags (`!`) are not allowed", line)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadYaml("it is nested too deeply", line)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _plain(node: yaml.Node, path: Place, lines: dict[Place, int]) -> object:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, lines)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, at), lines) for at, item in enumerate(node.value)]
    return _scalar(node)


def _mapping(node: yaml.MappingNode, path: Place, lines: dict[Place, int]) -> dict[str, object]:
    data: dict[str, object] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise BadYaml("a key must be a plain word", line)
        # As written: a key `on` or `1` is a word as well, not YAML's truth or number.
        key = str(key_node.value)
        if key in data:
            raise BadYaml(f"`{key}` stands there twice", line)
        lines[*path, key] = line
        data[key] = _plain(value_node, (*path, key), lines)
    return data


def _scalar(node: yaml.Node) -> object:
    try:
        value: object = yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, TypeError, OverflowError):
        return str(node.value)  # looks like a date or number and is none (2026-99-99): text, then
    return value if value is None or isinstance(value, str | bool | int | float) else str(node.value)
