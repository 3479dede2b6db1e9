"""Parsing of GraphQL documents: operations, fields, arguments, variables, fragments."""

import json
import re
from dataclasses import dataclass, field, replace
from typing import Any

TOKEN = re.compile(
    r'(?P<skip>[\s,\ufeff]+|#[^\n]*)|(?P<block>"""(?:[^"\\]|\\.|"(?!""))*""")|(?P<string>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<name>[_A-Za-z]\w*)|(?P<punct>\.\.\.|[!$&()\[\]{}:=@|])",
    re.DOTALL,
)
WORDS = {"true": True, "false": False, "null": None}


class GraphQLSyntaxError(Exception):
    """The text is no document of the supported kind."""


@dataclass(frozen=True)
class Variable:
    """A ``$name`` where a value stands."""

    name: str


@dataclass
class Field:
    """A selected field; ``on`` narrows it to a type (inline fragment or spread)."""

    name: str
    alias: str
    arguments: dict[str, Any]
    fields: list["Field"]
    position: int
    on: str | None = None


@dataclass
class Document:
    """The operation to run."""

    operation: str
    fields: list[Field]
    defaults: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """A named fragment, not yet put in."""

    name: str


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found or found.lastgroup is None:
                raise GraphQLSyntaxError(f"Parse error on {text[at]!r} at offset {at}")
            if found.lastgroup != "skip":
                self.tokens.append((found.lastgroup, found[0], at))
            at = found.end()
        self.tokens.append(("end", "", at))
        self.index = 0

    def peek(self) -> str:
        return self.tokens[self.index][1]

    def next(self, expected: str | None = None) -> str:
        kind, text, at = self.tokens[self.index]
        if (expected is not None and text != expected) or kind == "end":
            raise GraphQLSyntaxError(f"Parse error on {text!r} at offset {at}, expecting {expected!r}")
        self.index += 1
        return text

    def accept(self, text: str) -> bool:
        if self.peek() == text:
            self.index += 1
            return True
        return False

    def value(self) -> Any:
        kind, text, _ = self.tokens[self.index]
        if self.accept("$"):
            return Variable(self.next())
        if self.accept("["):
            items = []
            while not self.accept("]"):
                items.append(self.value())
            return items
        if self.accept("{"):
            return self.pairs("}")
        self.next()
        if kind == "block":
            return text[3:-3].strip("\n")
        if kind == "string":
            return json.loads(text)
        if kind == "number":
            return float(text) if re.search(r"[.eE]", text) else int(text)
        return WORDS.get(text, text)

    def pairs(self, end: str) -> dict[str, Any]:
        found = {}
        while not self.accept(end):
            name = self.next()
            self.next(":")
            found[name] = self.value()
        return found

    def directives(self) -> None:
        while self.accept("@"):
            self.next()
            if self.accept("("):
                self.pairs(")")

    def selection(self) -> list[Field | Spread]:
        found: list[Field | Spread] = []
        self.next("{")
        while not self.accept("}"):
            position = self.tokens[self.index][2]
            if self.accept("..."):
                found.extend(self.fragment_use())
                continue
            alias = name = self.next()
            if self.accept(":"):
                name = self.next()
            arguments = self.pairs(")") if self.accept("(") else {}
            self.directives()
            inner = self.selection() if self.peek() == "{" else []
            found.append(Field(name, alias, arguments, inner, position))  # type: ignore[arg-type]
        return found

    def fragment_use(self) -> list[Field | Spread]:
        if self.peek() not in ("on", "{", "@"):
            name = self.next()
            self.directives()
            return [Spread(name)]
        kind = self.next() and self.next() if self.peek() == "on" else None
        self.directives()
        inner = self.selection()
        for item in inner:
            if isinstance(item, Field) and item.on is None:
                item.on = kind
        return inner

    def type_name(self) -> None:
        if self.accept("["):
            self.type_name()
            self.next("]")
        else:
            self.next()
        self.accept("!")

    def variables(self) -> dict[str, Any]:
        defaults = {}
        while not self.accept(")"):
            self.next("$")
            name = self.next()
            self.next(":")
            self.type_name()
            if self.accept("="):
                defaults[name] = self.value()
        return defaults


def parse(text: str, operation_name: str | None = None) -> Document:
    """The (named) operation of a document with its fragments put in; GraphQLSyntaxError otherwise."""
    parser = _Parser(text)
    operations: dict[str, Document] = {}
    fragments: dict[str, tuple[str, list[Field | Spread]]] = {}
    while parser.peek():
        kind = "query" if parser.peek() == "{" else parser.next()
        if kind == "fragment":
            name = parser.next()
            parser.next("on")
            on = parser.next()
            parser.directives()
            fragments[name] = (on, parser.selection())
            continue
        if kind not in ("query", "mutation"):
            raise GraphQLSyntaxError(f"Parse error on {kind!r}")
        name = parser.next() if parser.peek() not in ("{", "(", "@") else ""
        defaults = parser.variables() if parser.accept("(") else {}
        parser.directives()
        operations[name] = Document(kind, parser.selection(), defaults)  # type: ignore[arg-type]
    found = operations.get(operation_name) if operation_name else next(iter(operations.values()), None)
    if found is None:
        raise GraphQLSyntaxError("No operation to run")
    found.fields = _put_in(found.fields, fragments, 0)
    return found


def _put_in(
    fields: list[Any], fragments: dict[str, tuple[str, list[Field | Spread]]], depth: int
) -> list[Field]:
    found: list[Field] = []
    if depth > 20:
        raise GraphQLSyntaxError("Too deep")
    for item in fields:
        if isinstance(item, Spread):
            if item.name not in fragments:
                raise GraphQLSyntaxError(f"Fragment {item.name} was used, but not defined")
            on, inner = fragments[item.name]
            found.extend(replace(one, on=one.on or on) for one in _put_in(inner, fragments, depth + 1))
        else:
            item.fields = _put_in(item.fields, fragments, depth + 1)
            found.append(item)
    return found
