"""Column types that behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from isal import isal_zlib
from sqlalchemy import JSON, DateTime, Dialect, Enum, LargeBinary, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeDecorator, TypeEngine

Json = JSON().with_variant(JSONB(), "postgresql")


class UtcTime(TypeDecorator[datetime]):
    """An aware time in UTC. Refuses naive values; one text format on SQLite, so that texts compare as times."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "sqlite":
            return dialect.type_descriptor(String(27))
        return dialect.type_descriptor(DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("naive time: every time in the database is aware UTC")
        if value.tzinfo is not UTC:
            value = value.astimezone(UTC)
        if dialect.name != "sqlite":
            return value
        return value.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        del dialect
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value)  # its Z is UTC
        return value.astimezone(UTC)  # type: ignore[no-any-return]


_PACKED = b"\x01"
"""The first byte of what is packed. What was stored before begins a JSON text, which no such byte does."""


class PackedBytes(TypeDecorator[bytes]):
    """Bytes that are stored packed: a fifth of what GitHub sends, so that the disk has less to write, twice for each
    (log and table), before a delivery is durable. Reads what earlier releases stored unpacked, too.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        del dialect
        return None if value is None else pack(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        del dialect
        return zlib.decompress(memoryview(value)[1:]) if value and value.startswith(_PACKED) else value


def pack(value: bytes) -> bytes:
    """As `PackedBytes` stores it: zlib's format, which anything can read, written in a sixth of the time zlib takes for
    a usual delivery. The lowest level: the next ones take longer for nearly the same.
    """
    return _PACKED + isal_zlib.compress(value, isal_zlib.ISAL_BEST_SPEED)


def state_column(kind: type[StrEnum], name: str) -> Enum:
    """VARCHAR with a CHECK made from the Python enum, so that a misspelt state can't be stored."""
    return Enum(
        kind,
        native_enum=False,
        create_constraint=True,
        length=32,
        name=name,
        values_callable=lambda members: [member.value for member in members],
    )
