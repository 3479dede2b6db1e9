"""The JSON of GitHub's answers as the plain data of `parts`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from app.domain.errors import Unexpected

Shape = TypeVar("Shape")

_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(shape: Any) -> TypeAdapter[Any]:
    if shape not in _adapters:
        _adapters[shape] = TypeAdapter(shape)
    return _adapters[shape]


def parse_answer(shape: type[Shape], response: httpx.Response) -> Shape:
    """The JSON of an answer as `shape` (of `parts`); Unexpected when it is something else or cut off."""
    try:
        parsed: Shape = _adapter(shape).validate_json(response.content, strict=True)
    except ValidationError as error:
        raise _unlike(shape, error) from None
    return parsed


def parse_entries(shape: type[Shape], response: httpx.Response, key: str | None) -> list[Shape]:
    """One page of a listing; `key` names the list inside an object. Unexpected as above."""
    if key is None:
        return parse_answer(list[shape], response)  # type: ignore[valid-type]
    listed = parse_answer(dict[str, Any], response).get(key)
    try:
        entries: list[Shape] = _adapter(list[shape]).validate_python(listed)  # type: ignore[valid-type]
    except ValidationError as error:
        raise _unlike(shape, error) from None
    return entries


def parse_fields(shape: type[Shape], data: Mapping[str, Any]) -> Shape:
    """What GraphQL answered, already out of its envelope, as `shape`; Unexpected as above."""
    try:
        parsed: Shape = _adapter(shape).validate_python(data)
    except ValidationError as error:
        raise _unlike(shape, error) from None
    return parsed


def parse_time(text: str) -> datetime:
    """GitHub's text of a time, aware; Unexpected when it is none."""
    moment: datetime | None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Unexpected("GitHub's answer holds a time that is none")
    return moment


def _unlike(shape: Any, error: ValidationError) -> Unexpected:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    name = getattr(shape, "__name__", str(shape))
    return Unexpected(f"GitHub's answer is not a {name}: {where} {first['msg']}"[:300])
