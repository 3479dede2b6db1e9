"""Keeps what GitHub gave out for an App, in one private file of ISSUEWRIGHT_HOME that `app.settings` reads."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from app.domain.errors import IssuewrightError, SettingsError
from app.domain.yaml_plain import BadYaml, parse_yaml
from app.setting_files import read_text
from app.settings import REGISTERED_FILE

_HEAD = "# Made by `issuewright register`. These are secrets: whoever reads this file acts as the App.\n"


def find_stored(home: Path) -> str | None:
    """A name for the App stored here; None when there is none. A file that can't be read counts as one."""
    path = home / REGISTERED_FILE
    try:
        text = read_text(path)
        if text is None:
            return None
        values = parse_yaml(text).data
    except (SettingsError, BadYaml):
        return "an App whose file can't be read"
    if not isinstance(values, dict):
        return "something else"
    return f"the App {values.get('github_app_slug') or ''} (id {values.get('github_app_id')})".replace(
        "  ", " "
    )


def store_app(home: Path, values: Mapping[str, Any], *, replace: bool) -> Path | None:
    """Whole or not at all, 0600. With `replace` an older file is kept beside it; returns where, None without one.

    Raises IssuewrightError naming the file that was written instead, when another App came in between: GitHub gives
    out an App's key only once, so it is never thrown away.
    """
    target = home / REGISTERED_FILE
    fresh = _write_private(home, _HEAD + yaml.safe_dump(dict(values), sort_keys=False))
    try:
        if replace:
            backup = _keep_older(target)
            fresh.replace(target)
            _sync(home)
            return backup
        try:
            # A link, unlike a rename, fails when the name is taken.
            os.link(fresh, target)
        except FileExistsError:
            aside = _free_name(home, f"github-app-{values['github_app_id']}")
            os.link(fresh, aside)
            raise IssuewrightError(
                f"another App was stored in {target} meanwhile; this one is in {aside}: rename it to use it"
            ) from None
        _sync(home)
        return None
    finally:
        fresh.unlink(missing_ok=True)


def _write_private(home: Path, text: str) -> Path:
    path = home / f".github-app-{secrets.token_hex(6)}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return path


def _keep_older(target: Path) -> Path | None:
    if not target.exists():
        return None
    backup = _free_name(target.parent, f"{target.stem}-replaced")
    os.link(target, backup)
    backup.chmod(0o600)
    return backup


def _free_name(home: Path, stem: str) -> Path:
    number = 1
    while (path := home / f"{stem}-{number}.yaml").exists():
        number += 1
    return path


def _sync(home: Path) -> None:
    """So that the file's name survives a power cut too."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
