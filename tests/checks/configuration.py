"""docs/configuration.md says of every setting what app/settings.py says. `python -m tests.checks.configuration` writes it.

Who reads a setting is looked up in the code, so the page can't promise an effect that a setting does not have.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from app.settings import Settings
from tests.checks.tree import ROOT, Finding, Source, Tree

PAGE = "docs/configuration.md"
BEGIN, END = "<!-- made by `make docs`: begin -->\n", "<!-- made by `make docs`: end -->\n"

SECTIONS: Mapping[str, Sequence[str]] = {
    "GitHub": (
        "github_app_id",
        "github_app_private_key",
        "github_webhook_secret",
        "github_api_url",
        "github_url",
        "label_agent",
        "label_plan",
        "label_quick",
        "label_approved",
    ),
    "Storage": ("issuewright_home", "database_url", "redis_url", "credentials_key", "retention_days"),
    "Web process": ("host", "port", "public_url", "api_token"),
    "Model": (
        "anthropic_api_key",
        "anthropic_base_url",
        "model",
        "models",
        "model_prices",
        "model_key_in_sandbox",
        "guardian_model",
        "guardian_model_every",
        "guardian_model_budget_usd",
    ),
    "Sandboxes": (
        "sandbox_provider",
        "sandbox_allow_hosts",
        "sandbox_memory_gb",
        "sandbox_cpu",
        "sandbox_disk_gb",
        "sandbox_memory_max_gb",
        "max_sandboxes",
        "max_budget_usd",
        "spec_budget_usd",
        "repository_day_budget_usd",
        "max_turns",
        "task_timeout_s",
        "idle_s",
        "sandbox_silent_s",
        "sandbox_stalled_s",
        "sandbox_phase_gap_s",
        "sandbox_absent_s",
        "sandbox_restarts",
        "permission_mode",
        "daytona_api_key",
        "daytona_api_url",
        "daytona_target",
        "sandbox_snapshot",
        "sandbox_image",
        "sandbox_link",
        "daytona_model_secret",
    ),
    "Logs and tests": ("log_format", "log_level", "lease_s", "crash_points"),
}
EXAMPLES: Mapping[str, str] = {
    "github_app_id": "12345",
    "github_app_private_key": "/etc/issuewright/app.pem",
    "github_webhook_secret": "NEW,OLD",
    "github_api_url": "https://github.example.org/api/v3",
    "github_url": "https://github.example.org",
    "label_agent": "robot",
    "label_plan": "robot:plan",
    "label_quick": "robot:quick",
    "label_approved": "robot:approved",
    "issuewright_home": "/var/lib/issuewright",
    "database_url": "postgresql+asyncpg://issuewright:PASSWORD@db.example.org/issuewright",
    "redis_url": "redis://redis.example.org:6379/0",
    "credentials_key": "NEW-KEY-OF-AT-LEAST-32-CHARACTERS,OLD-KEY-OF-AT-LEAST-32-CHARACTERS",
    "retention_days": "90",
    "host": "0.0.0.0",
    "port": "8080",
    "public_url": "https://issuewright.example.org",
    "api_token": "a long random text",
    "anthropic_api_key": "the-key-of-your-account",
    "anthropic_base_url": "https://models.example.org",
    "model": "claude-sonnet-5-5",
    "models": "claude-haiku-5-5, claude-opus-5-5",
    "model_prices": "my-model=1,5,0.1 my-small-model=0.2,1,0.02",
    "model_key_in_sandbox": "true",
    "guardian_model": "claude-haiku-5-5",
    "guardian_model_every": "50",
    "guardian_model_budget_usd": "0.2",
    "sandbox_provider": "bubblewrap",
    "sandbox_allow_hosts": "packages.example.org, *.mirror.example.org",
    "sandbox_memory_gb": "8",
    "sandbox_cpu": "4",
    "sandbox_disk_gb": "20",
    "sandbox_memory_max_gb": "16",
    "max_sandboxes": "50",
    "max_budget_usd": "2.5",
    "spec_budget_usd": "20",
    "repository_day_budget_usd": "100",
    "max_turns": "80",
    "task_timeout_s": "1800",
    "idle_s": "120",
    "sandbox_silent_s": "300",
    "sandbox_stalled_s": "1200",
    "sandbox_phase_gap_s": "600",
    "sandbox_absent_s": "60",
    "sandbox_restarts": "1",
    "permission_mode": "bypassPermissions",
    "daytona_api_key": "the-key-of-your-account",
    "daytona_api_url": "https://daytona.example.org/api",
    "daytona_target": "eu",
    "sandbox_snapshot": "my-snapshot",
    "sandbox_image": "registry.example.org/agent:1",
    "sandbox_link": "relay",
    "daytona_model_secret": "issuewright-model",
    "log_format": "json",
    "log_level": "debug",
    "lease_s": "30",
    "crash_points": "ref.before",
}


def find_stale_reference(tree: Tree) -> Iterator[Finding]:
    page = next((source.text for source in tree.sources if source.path == PAGE), None)
    if page is not None and page != with_reference(page, render_reference(tree)):
        yield Finding(PAGE, 0, "app/settings.py says otherwise: run `make docs`")


def with_reference(page: str, reference: str) -> str:
    """The page with the part between the two marks replaced. Raises ValueError when a mark is missing."""
    before, _, rest = page.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"{PAGE} has lost its marks")
    return f"{before}{BEGIN}{reference}{END}{after}"


def render_reference(tree: Tree) -> str:
    """One table per section. Raises LookupError when a setting stands in no section, or in two."""
    listed = [name for names in SECTIONS.values() for name in names]
    if sorted(listed) != sorted(Settings.model_fields):
        odd = set(listed) ^ set(Settings.model_fields)
        raise LookupError(f"settings and sections differ: {', '.join(sorted(odd)) or 'one is listed twice'}")
    readers = find_readers(tree)
    sections = (_section(heading, names, readers) for heading, names in SECTIONS.items())
    return "".join(sections) + "\n"


def _section(heading: str, names: Sequence[str], readers: Mapping[str, Sequence[str]]) -> str:
    rows = [_row(name, Settings.model_fields[name], readers[name]) for name in names]
    head = "| variable | meaning | default | example | read by |\n|---|---|---|---|---|\n"
    return f"\n## {heading}\n\n{head}{''.join(rows)}"


def _row(name: str, field: FieldInfo, readers: Sequence[str]) -> str:
    variable = f"`{name.upper()}`" + (" (secret)" if is_secret(field) else "")
    cells = (variable, field.description or "", _default(name, field), f"`{EXAMPLES[name]}`")
    return f"| {' | '.join(cells)} | {', '.join(readers) or 'nobody yet'} |\n"


def is_secret(field: FieldInfo) -> bool:
    return SecretStr in get_args(field.annotation)


def _default(name: str, field: FieldInfo) -> str:
    if name == "issuewright_home":
        return "`~/.local/state/issuewright`"
    value = field.default
    if value is None or value == "":
        return "unset" if "Unset:" in (field.description or "") else "none"
    return f"`{str(value).lower() if isinstance(value, bool) else format(value)}`"


# ------------------------------------------------------------ who reads what

_ROOMS = {
    "app/web/": {"web"},
    "worker/": {"worker"},
    "app/entry.py": {"web", "worker"},
    "app/sandbox/": {"worker"},
    "app/cli/": {"commands"},
}


def find_readers(tree: Tree) -> dict[str, list[str]]:
    """For every setting which processes read it: `web`, `worker`; `commands` only for what neither reads; `all`."""
    behind = _fields_behind_names(next(one for one in tree.sources if one.path == "app/settings.py"))
    found: dict[str, set[str]] = {name: set() for name in Settings.model_fields}
    for source in tree.product:
        readers = next((who for room, who in _ROOMS.items() if source.path.startswith(room)), set[str]())
        for name in _names_read(source.module, "settings"):
            for field in behind.get(name, ()):
                found[field] |= readers
    for field in behind["require_github"]:
        found[field] |= {"web", "worker"}
    for field in ("log_format", "log_level"):
        found[field] = {"all"}
    return {
        name: sorted(who - {"commands"} if who & {"web", "worker"} else who) for name, who in found.items()
    }


def _fields_behind_names(settings: Source) -> dict[str, set[str]]:
    """The settings that stand behind each name of `Settings` (a field, a property) and each function beside it."""
    behind = {name: {name} for name in Settings.model_fields}
    functions = [node for node in ast.walk(settings.module) if isinstance(node, ast.FunctionDef)]
    for _ in range(3):  # properties use properties
        for function in functions:
            names = {*_names_read(function, "self"), *_names_read(function, "settings")}
            reads = {field for name in names for field in behind.get(name, ())}
            behind[function.name] = behind.get(function.name, set()) | reads
    return behind


def _names_read(node: ast.AST, owner: str) -> Iterator[str]:
    """X of every `owner.X` and `….owner.X`."""
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and (
            (isinstance(one.value, ast.Name) and one.value.id == owner)
            or (isinstance(one.value, ast.Attribute) and one.value.attr == owner)
        ):
            yield one.attr


def main() -> None:
    path: Path = ROOT / PAGE
    path.write_text(with_reference(path.read_text(), render_reference(Tree.read())))


if __name__ == "__main__":
    main()
