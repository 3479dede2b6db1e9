"""What stands in settings files: YAML, and what is wrong with `.env`; and single values that need looks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from dotenv.parser import parse_stream
from pydantic import SecretStr

from app.domain.credentials import check_secret
from app.domain.errors import SettingsError
from app.domain.yaml_plain import BadYaml, parse_yaml

HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?",
    re.IGNORECASE,
)
"""A name with at least one dot whose last part is none of an address; `*.` stands for everything below it."""
MIN_KEY = 32
"""Characters of a key that encrypts: it is used as it is, not stretched, so it must be long and random."""

MAX_PEM = 65_536
"""Characters of a key's file that are read; the longest keys have a fourth of them."""


def read_yaml(path: Path, *, required: bool) -> dict[str, Any]:
    """The settings in a YAML file; none when it may be missing and is. A list becomes words separated by commas, and
    what is empty is left out, as an empty variable is.

    Raises SettingsError when it is missing, unreadable, says something twice, or is no mapping of names to values.
    """
    text = read_text(path)
    if text is None:
        if required:
            raise SettingsError(f"--config {path}: no such file")
        return {}
    try:
        values = parse_yaml(text).data
    except BadYaml as bad:
        where = f", line {bad.line}" if bad.line else ""
        raise SettingsError(f"{path}{where}: {bad.reason}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: must be a mapping of setting names (lower case) to values")
    plain = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else value for key, value in values.items()
    }
    return {key: value for key, value in plain.items() if value not in (None, "")}


def check_env_file(path: Path, known: frozenset[str]) -> None:
    """Raises SettingsError when the file can't be read as text, or says one of the `known` settings twice, in whatever
    case: its reader would fail with a traceback, or take the last. Other programs' variables are not looked at.
    """
    seen: dict[str, int] = {}
    for binding in parse_stream(StringIO(read_text(path) or "")):
        name = (binding.key or "").lower()
        # Line ends before the variable belong to it.
        before = len(binding.original.string) - len(binding.original.string.lstrip())
        line = binding.original.line + binding.original.string[:before].count("\n")
        if name in known and name in seen:
            raise SettingsError(
                f"{path}, line {line}: `{name.upper()}` stands there twice (line {seen[name]}, too); remove one"
            )
        seen[name] = line


def read_text(path: Path) -> str | None:
    """The file's text; None when there is no such file. Raises SettingsError when it can't be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SettingsError(f"{path}: can't be read ({error.strerror})") from None


def read_pem(name: str, value: str) -> str:
    """PEM text, from the file that `value` names where it is no such text itself. Raises SettingsError when that file
    can't be read.
    """
    if value.startswith("-----BEGIN"):
        return value.replace("\\n", "\n")
    try:
        # No further than a key goes: what is no key may have no end, as a device has none.
        with Path(value).expanduser().open(encoding="utf-8") as file:
            return file.read(MAX_PEM)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not readable as text"
        raise SettingsError(
            f"{name}: no PEM text, and as a path it can't be read ({reason}); "
            "give the PEM text or the path of the .pem file"
        ) from None


def read_key(value: SecretStr | None) -> SecretStr | None:
    """An API key without the line end that a file may have brought along; None where there is nothing else.

    Raises ValueError for what would make each call with it fail.
    """
    text = value.get_secret_value() if value is not None else ""
    return SecretStr(check_secret(text)) if text.strip() else None


def read_address(value: str | None) -> str | None:
    """An address by HTTP without a slash at its end. Raises ValueError for what is none, or is more than that."""
    if value is None:
        return None
    parts = urlsplit(value)
    is_url = parts.scheme in {"http", "https"} and parts.hostname and has_usable_port(parts)
    if not is_url or any(char.isspace() for char in value):
        raise ValueError("must be an http:// or https:// URL")
    if parts.query or parts.fragment or parts.username is not None:
        raise ValueError("must be an address alone, without user, query or fragment")
    return value.rstrip("/")


def describe_unknown(name: str, known: frozenset[str]) -> str:
    """One line for a key that is no setting, with the one that was meant where only its case differs."""
    if name.lower() in known:
        return f"{name}: in the configuration file names are in lower case; write {name.lower()}"
    return f"{name}: no such setting in the configuration file; remove it"


def describe_problem(error: Mapping[str, Any]) -> str:
    """One line for a value that validation refused, as pydantic describes it."""
    where = ".".join(str(part) for part in error.get("loc", ())).upper()
    text = str(error.get("msg", "is wrong")).removeprefix("Value error, ")
    if error.get("type") == "string_type":
        text = "must be text; in the YAML file write it in quotes"
    return text if not where or text.startswith("MODEL_PRICES") else f"{where}: {text[0].lower()}{text[1:]}"


def has_usable_port(parts: SplitResult) -> bool:
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False


def words(text: str) -> tuple[str, ...]:
    """Separated by commas or white space."""
    return tuple(word for word in text.replace(",", " ").split() if word)


def require_database_number(redis_url: str | None) -> str | None:
    """The URL as it is. Raises ValueError when something else stands at its database's place. A socket's path is none."""
    if redis_url is None or redis_url.startswith("unix://"):
        return redis_url
    path = urlsplit(redis_url).path
    if not re.fullmatch(r"/?[0-9]{0,9}", path):
        raise ValueError(f"its database is a number, as in redis://HOST/0, not {path[:80]!r}")
    return redis_url


def require_host_names(names: Sequence[str]) -> None:
    """Raises ValueError."""
    for name in names:
        if not HOST_NAME.fullmatch(name):
            raise ValueError(
                f"{name[:80]!r} is no host name; give names like example.org or *.example.org, without https:// or port"
            )


def require_long_keys(keys: Sequence[str]) -> None:
    """Raises ValueError."""
    if any(len(key) < MIN_KEY for key in keys):
        raise ValueError(
            f"CREDENTIALS_KEY: each key must have at least {MIN_KEY} characters; make one with `openssl rand -hex 32`"
        )
