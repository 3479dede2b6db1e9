"""Checks of the machine itself: settings, state directory, git, sandboxes."""

from __future__ import annotations

import asyncio
import re
import shutil
import stat
from pathlib import Path

from app.cli.doctor.daytona import check_daytona
from app.cli.doctor.verdict import Verdict, failed, ok, warning, worst
from app.cli.preflight import require_app
from app.domain.errors import SettingsError
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.daytona import DaytonaSandboxes
from app.sandbox.select import make_sandboxes
from app.sandbox.walls import probe_walls
from app.settings import REGISTERED_FILE, Settings, ensure_home
from app.web.sockets import gateway_dir

GIT_NEEDED = (2, 38)
"""For `merge-tree --write-tree`."""
_SMALL_DISK = 2 * 1024**3
_FULL_DISK = 200 * 1024**2


async def check_configuration(settings: Settings) -> Verdict:
    try:
        require_app(settings)
    except SettingsError as error:
        return failed("; ".join(error.problems))
    return ok("complete")


async def check_home(settings: Settings, config: Path) -> Verdict:
    """The state directory, and whoever else may read the secrets in it and in the files of the settings (`config`:
    the YAML file, which need not exist). Raises SettingsError when the directory can't be made or written.
    """
    return await asyncio.to_thread(_look_at_home, settings, config)


def _look_at_home(settings: Settings, config: Path) -> Verdict:
    home = ensure_home(settings)
    findings = [_private(home, f"chmod 700 {home}")]
    findings += [
        _private(path, f"chmod 600 {path}")
        for path in sorted({home / REGISTERED_FILE, *home.glob("github-app-*.yaml")})
        if path.exists()
    ]
    findings += [_no_surprise(path) for path in _own_secrets(settings, config) if path.is_file()]
    free = shutil.disk_usage(home).free
    text = f"{free / 1024**3:.1f} GB free for {home}"
    if free < _FULL_DISK:
        findings.append(failed(f"only {text}", "make room"))
    elif free < _SMALL_DISK:
        findings.append(warning(f"only {text}", "make room"))
    else:
        findings.append(ok(text))
    return worst([one for one in findings if one.detail])


def _private(path: Path, cure: str) -> Verdict:
    mode = stat.S_IMODE(path.stat().st_mode)
    return failed(f"others may enter or read {path} ({mode:04o})", cure) if mode & 0o077 else ok("")


def _no_surprise(path: Path) -> Verdict:
    """For files that an operator made: some are meant to be readable in a container."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return warning(f"everybody may read {path} ({mode:04o})", f"chmod 600 {path}") if mode & 0o004 else ok("")


def _own_secrets(settings: Settings, config: Path) -> list[Path]:
    key = settings.github_app_private_key
    text = key.get_secret_value().strip() if key else ""
    named = [] if not text or text.startswith("-----BEGIN") else [Path(text).expanduser()]
    return [*named, Path(".env"), config]


async def check_git() -> Verdict:
    program = shutil.which("git")
    if program is None:
        return failed("git is not installed", f"install git {_dotted(GIT_NEEDED)} or newer")
    process = await asyncio.create_subprocess_exec(
        program, "--version", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    text = output.decode("utf-8", "replace").strip()
    version = tuple(int(number) for number in re.findall(r"\d+", text)[:2])
    if version < GIT_NEEDED:
        return failed(f"{text} is too old", f"install git {_dotted(GIT_NEEDED)} or newer")
    return ok(text)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in version)


async def check_sandboxes(settings: Settings) -> Verdict:
    """Starts a sandbox in which a program tries to get out. Raises SettingsError for a provider that is not there."""
    home = ensure_home(settings)
    sandboxes = make_sandboxes(settings.provider, home, gateway_dir(home), settings)
    try:
        if isinstance(sandboxes, DaytonaSandboxes):
            return await check_daytona(
                sandboxes,
                settings.allow_hosts,
                model_url=settings.anthropic_base_url,
                key_may_enter=settings.model_key_in_sandbox,
            )
        if isinstance(sandboxes, BubblewrapSandboxes):
            seen = await probe_walls(sandboxes, home)
        else:
            seen = await sandboxes.probe()
    finally:
        await sandboxes.aclose()
    if not seen.ok:
        return failed(seen.detail)
    return warning(seen.detail) if settings.provider == "process" else ok(seen.detail)
