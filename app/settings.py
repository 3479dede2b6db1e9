"""The only reader of the environment, `.env` and YAML.

Priority: command-line parameter > environment > `.env` > YAML (`issuewright.yaml` or `--config`) > what `register`
stored in ISSUEWRIGHT_HOME > default. Names, meanings and defaults are the contract's section 2.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.domain.errors import SettingsError

DEFAULT_YAML = "issuewright.yaml"
REGISTERED_FILE = "github-app.yaml"
"""What `register` stores in ISSUEWRIGHT_HOME, mode 0600: the App's id, key and webhook secret."""

Provider = Literal["daytona", "bubblewrap", "process"]


def default_home() -> Path:
    return Path("~/.local/state/issuewright").expanduser()


class Settings(BaseSettings):
    """All settings of one process, checked. Secrets never show in repr or logs."""

    model_config = SettingsConfigDict(extra="ignore", env_file=".env", frozen=True, env_ignore_empty=True)

    issuewright_home: Path = Field(default_factory=default_home)

    github_app_id: int | None = None
    github_app_private_key: SecretStr | None = None
    github_webhook_secret: SecretStr | None = None
    github_api_url: str = "https://api.github.com"
    github_url: str = "https://github.com"

    database_url: str | None = None
    redis_url: str | None = None

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    public_url: str | None = None
    api_token: SecretStr | None = None

    sandbox_provider: Provider | None = None
    sandbox_allow_hosts: str = ""
    sandbox_memory_gb: int = Field(default=4, ge=1, le=1024)
    sandbox_cpu: int = Field(default=2, ge=1, le=256)
    sandbox_disk_gb: int = Field(default=8, ge=1, le=10_000)
    sandbox_snapshot: str = "ai-agent-dev-light"
    sandbox_image: str | None = None
    daytona_api_key: SecretStr | None = None
    daytona_api_url: str | None = None
    daytona_target: str | None = None

    anthropic_api_key: SecretStr | None = None
    anthropic_base_url: str = "https://api.anthropic.com"
    model: str | None = None
    models: str = ""
    model_prices: str = ""
    model_key_in_sandbox: bool = False

    max_budget_usd: float = Field(default=10.0, gt=0)
    max_turns: int = Field(default=150, ge=1)
    task_timeout_s: int = Field(default=3600, ge=1)
    idle_s: int = Field(default=600, ge=0)

    permission_mode: Literal["acceptEdits", "bypassPermissions"] = "acceptEdits"
    """How the agent's tools are permitted inside the sandbox."""
    crash_points: str = ""
    """For tests: points of the worker to kill, stop or raise at (worker.crashpoints)."""

    credentials_key: SecretStr | None = None
    log_format: Literal["console", "json"] | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # Names people may change; the labels themselves are the contract's.
    label_agent: str = "agent"
    label_plan: str = "agent:plan"
    label_quick: str = "agent:quick"
    label_approved: str = "agent:approved"

    @field_validator("github_api_url", "github_url", "anthropic_base_url", "public_url")
    @classmethod
    def _http_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.netloc:
            raise ValueError("must be an http:// or https:// URL")
        return value.rstrip("/")

    @field_validator("database_url")
    @classmethod
    def _database_driver(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("sqlite+aiosqlite://", "postgresql+asyncpg://")):
            raise ValueError("must start with sqlite+aiosqlite:// or postgresql+asyncpg://")
        return value

    @field_validator("redis_url")
    @classmethod
    def _redis_scheme(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("redis://", "rediss://", "unix://")):
            raise ValueError("must start with redis://, rediss:// or unix://")
        return value

    @field_validator("issuewright_home")
    @classmethod
    def _absolute_home(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @model_validator(mode="after")
    def _prices(self) -> Settings:
        parse_model_prices(self.model_prices)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        del file_secret_settings
        return init_settings, env_settings, dotenv_settings, _FileSettings(settings_cls, _FILES[-1])

    # ------------------------------------------------------------ derived

    @property
    def webhook_secrets(self) -> tuple[bytes, ...]:
        """All secrets accepted now (several while rotating); empty when none is set."""
        text = self.github_webhook_secret.get_secret_value() if self.github_webhook_secret else ""
        return tuple(part.strip().encode() for part in text.split(",") if part.strip())

    @property
    def private_key_pem(self) -> str | None:
        """The App's key as PEM text, read from the named file when the setting is a path.

        Raises SettingsError when that file can't be read.
        """
        if self.github_app_private_key is None:
            return None
        value = self.github_app_private_key.get_secret_value().strip()
        if value.startswith("-----BEGIN"):
            return value.replace("\\n", "\n")
        try:
            return Path(value).expanduser().read_text()
        except (OSError, UnicodeDecodeError, ValueError) as error:
            reason = (
                error.strerror if isinstance(error, OSError) and error.strerror else "not readable as text"
            )
            raise SettingsError(
                f"GITHUB_APP_PRIVATE_KEY: no PEM text, and as a path it can't be read ({reason}); "
                "give the PEM text or the path of the .pem file"
            ) from None

    @property
    def database(self) -> str:
        return self.database_url or f"sqlite+aiosqlite:///{self.issuewright_home / 'issuewright.db'}"

    @property
    def provider(self) -> Provider:
        return self.sandbox_provider or ("daytona" if self.daytona_api_key else "bubblewrap")

    @property
    def base_url(self) -> str:
        """How people reach this app: PUBLIC_URL, else from HOST and PORT."""
        return self.public_url or f"http://{self.host}:{self.port}"

    @property
    def allow_hosts(self) -> tuple[str, ...]:
        return _words(self.sandbox_allow_hosts)

    @property
    def allowed_models(self) -> tuple[str, ...]:
        """Models that repositories and sandboxes may use; () = the SDK's default only, whatever it is."""
        named = _words(self.models)
        if self.model and self.model not in named:
            return (self.model, *named)
        return named

    @property
    def prices(self) -> Mapping[str, ModelPrice]:
        return parse_model_prices(self.model_prices)


@dataclass(frozen=True)
class ModelPrice:
    """USD per million tokens."""

    input_usd: float
    output_usd: float
    cache_usd: float


def parse_model_prices(text: str) -> dict[str, ModelPrice]:
    """`model=in,out,cache` entries, separated by spaces or semicolons. Raises ValueError naming the bad entry."""
    prices: dict[str, ModelPrice] = {}
    for entry in text.replace(";", " ").split():
        name, _, numbers = entry.partition("=")
        parts = numbers.split(",")
        try:
            values = [float(part) for part in parts]
        except ValueError:
            values = []
        if not name or len(values) != 3 or any(not 0 <= value < 1e6 for value in values):
            raise ValueError(f"MODEL_PRICES: `{entry}` is not model=in,out,cache in USD per million tokens")
        prices[name] = ModelPrice(*values)
    return prices


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(",", " ").split() if word)


class _FileSettings(InitSettingsSource):
    """YAML settings; a separate source so that the environment wins over it."""


_FILES: list[dict[str, Any]] = [{}]


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read and check everything. Raises SettingsError with one line per problem, naming the variable and the cure."""
    given = {key: value for key, value in overrides.items() if value is not None}
    values = _read_yaml(config or Path(DEFAULT_YAML), required=config is not None)
    unknown = sorted(set(values) - set(Settings.model_fields))
    if unknown:
        raise SettingsError(
            *(f"{name}: no such setting in the configuration file; remove it" for name in unknown)
        )
    home = (
        given.get("issuewright_home") or os.environ.get("ISSUEWRIGHT_HOME") or values.get("issuewright_home")
    )
    registered = _read_yaml(Path(str(home or default_home())).expanduser() / REGISTERED_FILE, required=False)
    _FILES.append({**registered, **values})
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError(*(_problem(dict(one)) for one in error.errors())) from None
    finally:
        _FILES.pop()


def _read_yaml(path: Path, *, required: bool) -> dict[str, Any]:
    try:
        text = path.read_text()
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise SettingsError(f"--config {path}: no such file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: can't be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise SettingsError(f"{path}: not valid YAML{where}") from None
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise SettingsError(f"{path}: must be a mapping of setting names (lower case) to values")
    return {
        key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in values.items()
    }


def _problem(error: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in error.get("loc", ())).upper()
    text = str(error.get("msg", "is wrong")).removeprefix("Value error, ")
    return text if not where or text.startswith("MODEL_PRICES") else f"{where}: {text[0].lower()}{text[1:]}"


def require_github(settings: Settings) -> None:
    """For commands that can't work without the App. Raises SettingsError naming each missing variable."""
    problems = [
        f"{name}: not set; run `issuewright register`, or set it"
        for name, value in (
            ("GITHUB_APP_ID", settings.github_app_id),
            ("GITHUB_APP_PRIVATE_KEY", settings.github_app_private_key),
            ("GITHUB_WEBHOOK_SECRET", settings.webhook_secrets),
        )
        if not value
    ]
    if settings.github_app_private_key is not None:
        pem = settings.private_key_pem or ""
        if "PRIVATE KEY-----" not in pem:
            problems.append(
                "GITHUB_APP_PRIVATE_KEY: not a PEM private key; use the .pem file GitHub gave you"
            )
    if problems:
        raise SettingsError(*problems)


def ensure_home(settings: Settings) -> Path:
    """Make ISSUEWRIGHT_HOME (0700). Raises SettingsError when it can't be made or written."""
    home = settings.issuewright_home
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = home / f".write-probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise SettingsError(
            f"ISSUEWRIGHT_HOME: {home} can't be written ({error.strerror}); name a directory of your own"
        ) from None
    return home


def child_environment() -> dict[str, str]:
    """The environment for our own child processes (web, worker): this process's, unchanged."""
    return dict(os.environ)
