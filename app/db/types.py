"""Column types that behave the same on SQLite and PostgreSQL."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, cast

import zstandard
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


_ZSTD = b"\x28\xb5\x2f\xfd"
_ZLIB = b"\x01"
"""The first bytes of what is packed, now and by an earlier release. What was stored before begins a JSON text, which
neither does.
"""


_LEVEL = -3


class PackedBytes(TypeDecorator[bytes]):
    """Bytes that are stored packed: a fifth of what GitHub sends, so that the disk has less to write, twice for each
    (log and table), before a delivery is durable. Reads what earlier releases stored, too: unpacked, or zlib's format
    after a byte of ours.
    """

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        del dialect
        return None if value is None else zstandard.ZstdCompressor(level=_LEVEL).compress(value)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> bytes | None:
        del dialect
        if not value:
            return value
        if value.startswith(_ZSTD):
            return zstandard.decompress(value)
        return zlib.decompress(memoryview(value)[1:]) if value.startswith(_ZLIB) else value


def pack(values: Sequence[bytes]) -> Sequence[Any]:
    """As `PackedBytes` stores them: frames of Zstandard (RFC 8878) with their length in them, of the buffer protocol.
    All of them in one call without the interpreter's lock, so a busy event loop neither waits for this nor holds it up;
    at this level as fast as the fastest zlib, and as small.
    """
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    if not all(values):  # what packs many refuses an empty one
        return [compressor.compress(value) for value in values]
    return cast("Sequence[Any]", compressor.multi_compress_to_buffer(list(values)))


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
