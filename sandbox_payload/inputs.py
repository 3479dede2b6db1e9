"""What the host hands in: files in the inputs directory and a few environment variables."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import ValidationError

from sandbox_payload.wire import (
    BRIEF_FILE,
    PROMPT_ANEW_FILE,
    PROMPT_FILE,
    PROTOCOL_VERSION,
    SYSTEM_FILE,
    TRANSCRIPT_FILE,
    Brief,
)

CLI_TUNING = (
    "CLAUDE_CODE_MAX_RETRIES",
    "API_TIMEOUT_MS",
    "CLAUDE_ENABLE_BYTE_WATCHDOG",
    "CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS",
)
"""Knobs of the agent's command line that a host may set (how long it waits for the model); passed on when present."""

MODEL_KEY_FILE = "MODEL_KEY_FILE"
"""Variable that names the file of a model key that the operator lets into the sandbox."""

_NOT_FOR_THE_AGENT = (
    "ANTHROPIC_",
    "CLAUDE",
    "GIT_",
    "PYTHON",
    "VIRTUAL_ENV",
    "LD_PRELOAD",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    MODEL_KEY_FILE,
)


class BadInputs(Exception):
    """The inputs can't be used; the text says which and why."""


@dataclass(frozen=True)
class Inputs:
    brief: Brief
    prompt: str
    prompt_anew: str
    """To an agent that knows nothing of the session it was to go on with."""
    system_file: Path | None
    transcript: Path | None
    token: str
    app_url: str
    model_url: str
    workspace: Path
    state: Path
    cli_tuning: dict[str, str]
    model_key: str
    """What the agent's command line sends to `model_url`: the token, except where the app can't be reached."""
    relayed: bool = False
    """The app can't be reached: a worker carries the calls (`link_files`)."""


def read_inputs(
    directory: Path,
    state: Path,
    workspace: Path,
    environ: MutableMapping[str, str],
    *,
    relayed: bool = False,
) -> Inputs:
    """Reads everything once, before the agent can change any of it. Raises BadInputs."""
    if not (workspace / ".git").exists():
        raise BadInputs(f"{workspace} is not a git work tree")
    brief = _read_brief(directory / BRIEF_FILE)
    prompt = _read_text(directory / PROMPT_FILE)
    if not prompt.strip():
        raise BadInputs(f"{PROMPT_FILE} is empty")
    app_url = environ.get("CALLBACK_URL", "")
    if urlsplit(app_url).scheme not in ("http", "https"):
        raise BadInputs("CALLBACK_URL is not an http(s) address")
    token = _read_text(Path(environ.get("SANDBOX_TOKEN_FILE", ""))).strip()
    system_file, transcript = directory / SYSTEM_FILE, directory / TRANSCRIPT_FILE
    anew = directory / PROMPT_ANEW_FILE
    return Inputs(
        brief=brief,
        prompt=prompt,
        prompt_anew=_read_text(anew) if anew.is_file() else prompt,
        system_file=system_file if system_file.is_file() else None,
        transcript=transcript if transcript.is_file() else None,
        token=token,
        app_url=app_url,
        model_url=environ.get("ANTHROPIC_BASE_URL") or f"{app_url}/api/v1/sandboxes/{brief.sandbox_id}/model",
        workspace=workspace,
        state=state,
        cli_tuning={name: environ[name] for name in CLI_TUNING if name in environ},
        model_key=_read_model_key(environ) if relayed else token,
        relayed=relayed,
    )


def scrub_environment(environ: MutableMapping[str, str], app_url: str) -> None:
    """Takes away what the agent and its commands must not inherit; local addresses go past any proxy."""
    for name in list(environ):
        if name != "ANTHROPIC_BASE_URL" and name.startswith(_NOT_FOR_THE_AGENT):
            del environ[name]
    direct = {"127.0.0.1", "localhost", urlsplit(app_url).hostname or "localhost"}
    direct.update(host for host in environ.get("NO_PROXY", "").split(",") if host)
    environ["NO_PROXY"] = environ["no_proxy"] = ",".join(sorted(direct))
    environ.setdefault("HOME", os.path.expanduser("~"))  # noqa: PTH111 - HOME may be unset
    environ.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    environ.setdefault("LANG", "C.UTF-8")


def _read_model_key(environ: MutableMapping[str, str]) -> str:
    """The key that the operator let in: from a file that is gone afterwards, else from the environment, where a provider
    may have put a stand-in that it replaces on the way out.
    """
    place = environ.get(MODEL_KEY_FILE)
    if place is None:
        return environ.get("ANTHROPIC_API_KEY", "")
    key = _read_text(Path(place)).strip()
    with suppress(OSError):
        Path(place).unlink()
    return key


def _read_brief(path: Path) -> Brief:
    try:
        brief = Brief.model_validate_json(_read_text(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise BadInputs(f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if brief.version != PROTOCOL_VERSION:
        raise BadInputs(f"{path.name} speaks protocol {brief.version}, this payload {PROTOCOL_VERSION}")
    return brief


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise BadInputs(f"{path}: {error.strerror or error}") from error
