"""The only reader of the environment, `.env` and YAML.

Priority: command-line parameter > environment > `.env` > YAML (`issuewright.yaml` or `--config`) > what `register`
stored in ISSUEWRIGHT_HOME > default. Names, meanings and defaults are the contract's section 2.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from app.domain.errors import SettingsError
from app.domain.model_price import ModelPrice, parse_model_prices
from app.setting_files import (
    check_env_file,
    describe_problem,
    describe_unknown,
    has_usable_port,
    read_address,
    read_key,
    read_pem,
    read_yaml,
    require_database_number,
    require_host_names,
    require_long_keys,
    words,
)

DEFAULT_YAML = "issuewright.yaml"
REGISTERED_FILE = "github-app.yaml"
"""What `register` stores in ISSUEWRIGHT_HOME, mode 0600: the App's id, key and webhook secret."""

MAX_LABEL = 50
"""Characters of a label's name on GitHub."""
WEEK_S = 7 * 24 * 3600
_SCHEMES = {
    "database_url": ("sqlite+aiosqlite://", "postgresql+asyncpg://"),
    "redis_url": ("redis://", "rediss://", "unix://"),
}

Provider = Literal["daytona", "bubblewrap", "process"]


def default_home() -> Path:
    return Path("~/.local/state/issuewright").expanduser()


class Settings(BaseSettings):
    """All settings of one process, checked. Secrets never show in repr or logs."""

    model_config = SettingsConfigDict(
        extra="ignore", env_file=".env", frozen=True, env_ignore_empty=True, use_attribute_docstrings=True
    )
    # The texts below the settings are their descriptions in docs/configuration.md, which is made from this class.

    issuewright_home: Path = Field(default_factory=default_home)
    """Directory for everything this machine keeps: database, mirrors of repositories, local sandboxes, sockets."""

    github_app_id: int | None = Field(default=None, ge=1, lt=2**63)
    """The GitHub App's id, a number. `register` stores it."""
    github_app_private_key: SecretStr | None = None
    """The App's private key: the PEM text, or the path of the `.pem` file. `register` stores it."""
    github_webhook_secret: SecretStr | None = None
    """What GitHub signs webhooks with; while it is changed several, separated by commas. `register` stores it."""
    github_api_url: str = "https://api.github.com"
    """GitHub's REST API; on GitHub Enterprise Server `https://HOST/api/v3`."""
    github_url: str = "https://github.com"
    """GitHub as people and git reach it."""

    database_url: str | None = None
    """`sqlite+aiosqlite:///PATH` or `postgresql+asyncpg://USER:PASSWORD@HOST/NAME`. Unset: an SQLite file in ISSUEWRIGHT_HOME."""
    redis_url: str | None = None
    """`redis://`, `rediss://` or `unix://`. Unset: the embedded server that `up` runs in ISSUEWRIGHT_HOME."""

    host: str = "127.0.0.1"
    """Address the web process listens on."""
    port: int = Field(default=8000, ge=0, le=65535)
    """Port the web process listens on; 0 takes a free one."""
    public_url: str | None = None
    """Base URL by which people, GitHub and remote sandboxes reach the web process. Unset: made from HOST and PORT."""
    api_token: SecretStr | None = None
    """Bearer token of the operator API. Unset: the operator API answers 403 to everyone."""

    sandbox_provider: Provider | None = None
    """Where agents run: `daytona`, `bubblewrap`, or `process`, which isolates nothing. Unset: `daytona` when DAYTONA_API_KEY is set, else `bubblewrap`."""
    sandbox_allow_hosts: str = ""
    """Hosts that sandboxes may reach by HTTPS, separated by commas or spaces; `*.example.org` names everything below."""
    sandbox_memory_gb: int = Field(default=4, ge=1, le=1024)
    """Memory of a sandbox in GB."""
    sandbox_cpu: int = Field(default=2, ge=1, le=256)
    """Processor cores of a sandbox."""
    sandbox_disk_gb: int = Field(default=8, ge=1, le=10_000)
    """Disk of a sandbox in GB."""
    sandbox_snapshot: str = "ai-agent-dev-light"
    """Daytona: the snapshot that sandboxes start from; it brings its own size."""
    sandbox_image: str | None = None
    """Daytona: the image that sandboxes start from, instead of a snapshot, when another size is wanted."""
    daytona_api_key: SecretStr | None = None
    """Daytona: the API key."""
    daytona_api_url: str | None = None
    """Daytona: the API's address. Unset: Daytona's own."""
    daytona_target: str | None = None
    """Daytona: the region."""
    daytona_model_secret: str | None = None
    """Daytona: the name of a secret there that holds the model key, for sandboxes that can't reach the web process. Unset: none."""
    sandbox_link: Literal["auto", "http", "relay"] = "auto"
    """Daytona: how sandboxes and the web process talk. `http`: they call PUBLIC_URL; `relay`: the worker carries everything; `auto`: the first one tries PUBLIC_URL."""

    anthropic_api_key: SecretStr | None = None
    """Key of the model's API. Sandboxes never see it: the web process puts it in outside."""
    anthropic_base_url: str = "https://api.anthropic.com"
    """Base URL of the model's API: any that speaks the Messages API."""
    model: str | None = None
    """The model agents use. Unset: the agent SDK's default."""
    models: str = ""
    """Further models that may be used, separated by commas or spaces. Unset: only MODEL."""
    model_prices: str = ""
    """`model=in,out,cache` in USD per million tokens, separated by spaces: prices of models that are not known here. Without one such a model counts at the dearest known price."""
    model_key_in_sandbox: bool = False
    """`true` lets the real model key into Daytona sandboxes that can't reach the web process."""

    max_budget_usd: float = Field(default=10.0, gt=0, le=100_000)
    """What the model calls of one sandbox may cost, in USD."""
    max_turns: int = Field(default=150, ge=1, le=100_000)
    """Turns an agent may take."""
    task_timeout_s: int = Field(default=3600, ge=1, le=WEEK_S)
    """Seconds an agent may work."""
    idle_s: int = Field(default=600, ge=0, le=WEEK_S)
    """Seconds a sandbox that has finished waits for messages before it is removed."""
    spec_budget_usd: float | None = Field(default=None, gt=0, le=1_000_000)
    """What all model calls for one issue may cost, in USD. Unset: each sandbox's own budget is the only limit."""
    repository_day_budget_usd: float | None = Field(default=None, gt=0, le=1_000_000)
    """What the sandboxes that one repository starts on one day (UTC) may spend, in USD; further work waits for the next day. Unset: no limit."""
    max_sandboxes: int = Field(default=20, ge=1, le=100_000)
    """Sandboxes at once, of all repositories together; further work waits its turn, repository by repository."""
    guardian_model: str | None = None
    """A model that is asked now and then whether an agent works on its task, and may remind it. Unset: none is asked."""
    guardian_model_every: int = Field(default=25, ge=5, le=10_000)
    """Calls of tools by an agent after which GUARDIAN_MODEL is asked about it (again)."""
    guardian_model_budget_usd: float = Field(default=0.5, gt=0, le=100_000)
    """What asking GUARDIAN_MODEL may cost for one issue, in USD. It is paid out of the budgets of the sandboxes."""
    sandbox_memory_max_gb: int | None = Field(default=None, ge=1, le=1024)
    """Up to this, a sandbox that ran out of memory is started again with twice as much. Unset: SANDBOX_MEMORY_GB."""
    sandbox_silent_s: int = Field(default=120, ge=60, le=WEEK_S)
    """Seconds without a heartbeat after which a sandbox counts as dead; they come every 30."""
    sandbox_stalled_s: int = Field(default=600, ge=60, le=WEEK_S)
    """Seconds in which a living sandbox neither works nor runs a tool, after which it is started again."""
    sandbox_phase_gap_s: int = Field(default=300, ge=60, le=WEEK_S)
    """Seconds between two phases of a plan after which its sandbox is started again."""
    sandbox_absent_s: int = Field(default=180, ge=30, le=WEEK_S)
    """Seconds after which a sandbox that was ordered and is not there is ordered anew."""
    sandbox_restarts: int = Field(default=2, ge=0, le=20)
    """How often a task whose sandbox was lost starts again, from its last checkpoint."""

    permission_mode: Literal["acceptEdits", "bypassPermissions"] = "acceptEdits"
    """How the agent's tools are permitted inside the sandbox."""
    crash_points: str = ""
    """For tests only: points of worker and web to kill, stop or raise at."""
    lease_s: int = Field(default=90, ge=3, le=3600)
    """Seconds a worker that says nothing keeps its work to itself; it says so three times as often."""

    credentials_key: SecretStr | None = None
    """Key that encrypts stored credentials; several, separated by commas: the first encrypts, all decrypt. Unset: credentials can't be stored."""
    retention_days: int = Field(default=30, ge=0, le=36_500)
    """Days after the end of a spec that the events and transcripts of its sandboxes stay in the database; then they go to files in `archive/` of ISSUEWRIGHT_HOME. 0 keeps them for ever."""
    log_format: Literal["console", "json"] | None = None
    """`console` or `json`. Unset: `console` on a terminal, else `json`."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""

    label_agent: str = "agent"
    """Label that asks for a plan and its implementation."""
    label_plan: str = "agent:plan"
    """Label that asks for a plan, which then waits for approval."""
    label_quick: str = "agent:quick"
    """Label that asks for one task without planning."""
    label_approved: str = "agent:approved"
    """Label that approves a plan."""

    _addresses = field_validator(
        "github_api_url", "github_url", "anthropic_base_url", "public_url", "daytona_api_url"
    )(read_address)
    _keys = field_validator("anthropic_api_key", "daytona_api_key")(read_key)

    @field_validator("database_url", "redis_url")
    @classmethod
    def _server(cls, value: str | None, info: ValidationInfo) -> str | None:
        schemes = _SCHEMES[info.field_name or ""]
        if value is not None and not value.startswith(schemes):
            raise ValueError(f"must start with {', '.join(schemes[:-1])} or {schemes[-1]}")
        if value is not None and not has_usable_port(urlsplit(value)):
            raise ValueError("its port is no number")
        return value

    _database_number = field_validator("redis_url")(require_database_number)

    @field_validator("sandbox_allow_hosts")
    @classmethod
    def _host_names(cls, value: str) -> str:
        require_host_names(words(value))
        return value

    @field_validator("issuewright_home")
    @classmethod
    def _absolute_home(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("label_agent", "label_plan", "label_quick", "label_approved")
    @classmethod
    def _label(cls, value: str) -> str:
        if not value.strip() or len(value) > MAX_LABEL or "," in value:
            raise ValueError(f"must be a label's name: 1 to {MAX_LABEL} characters, without commas")
        return value.strip()

    @model_validator(mode="after")
    def _labels_differ(self) -> Settings:
        names = (self.label_agent, self.label_plan, self.label_quick, self.label_approved)
        if len({name.casefold() for name in names}) < len(names):
            raise ValueError(
                "LABEL_AGENT, LABEL_PLAN, LABEL_QUICK, LABEL_APPROVED: must be four different names"
            )
        return self

    @model_validator(mode="after")
    def _long_keys(self) -> Settings:
        require_long_keys(self.credential_keys)
        return self

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
        files = _FileSettings(settings_cls, _FILES[-1])
        return init_settings, env_settings, dotenv_settings, files, _RegisteredSettings(settings_cls, {})

    # ------------------------------------------------------------ derived

    @property
    def webhook_secrets(self) -> tuple[bytes, ...]:
        """All secrets accepted now (several while rotating); empty when none is set."""
        text = self.github_webhook_secret.get_secret_value() if self.github_webhook_secret else ""
        return tuple(part.strip().encode() for part in text.split(",") if part.strip())

    @property
    def credential_keys(self) -> tuple[str, ...]:
        """The keys of stored credentials: the first encrypts, all decrypt; empty when none is set."""
        text = self.credentials_key.get_secret_value() if self.credentials_key else ""
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def private_key_pem(self) -> str | None:
        """The App's key as PEM text, read from the named file when the setting is a path.

        Raises SettingsError when that file can't be read.
        """
        if self.github_app_private_key is None:
            return None
        return read_pem("GITHUB_APP_PRIVATE_KEY", self.github_app_private_key.get_secret_value().strip())

    @property
    def database(self) -> str:
        path = str(self.issuewright_home / "issuewright.db").replace("%", "%25").replace("?", "%3F")
        return self.database_url or f"sqlite+aiosqlite:///{path}"

    @property
    def provider(self) -> Provider:
        return self.sandbox_provider or ("daytona" if self.daytona_api_key else "bubblewrap")

    @property
    def base_url(self) -> str:
        """How people reach this app: PUBLIC_URL, else from HOST and PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.public_url or f"http://{host}:{self.port}"

    @property
    def allow_hosts(self) -> tuple[str, ...]:
        return words(self.sandbox_allow_hosts)

    @property
    def allowed_models(self) -> tuple[str, ...]:
        """Models that repositories and sandboxes may use; () = the SDK's default only, whatever it is."""
        named = words(self.models)
        if self.model and self.model not in named:
            return (self.model, *named)
        return named

    @property
    def prices(self) -> Mapping[str, ModelPrice]:
        return parse_model_prices(self.model_prices)


class _FileSettings(InitSettingsSource):
    """YAML settings; a separate source so that the environment wins over it."""


class _RegisteredSettings(InitSettingsSource):
    """What `register` stored in ISSUEWRIGHT_HOME, wherever that was said."""

    def __call__(self) -> dict[str, Any]:
        home = self.current_state.get("issuewright_home") or default_home()
        return read_yaml(Path(str(home)).expanduser() / REGISTERED_FILE, required=False)


_FILES: list[dict[str, Any]] = [{}]


def load_settings(config: Path | None = None, **overrides: Any) -> Settings:
    """Read and check everything. Raises SettingsError with one line per problem, naming the variable and the cure."""
    given = {key: value for key, value in overrides.items() if value is not None}
    values = read_yaml(config or Path(DEFAULT_YAML), required=config is not None)
    unknown = sorted(set(values) - set(Settings.model_fields))
    if unknown:
        known = frozenset(Settings.model_fields)
        raise SettingsError(*(describe_unknown(name, known) for name in unknown))
    check_env_file(Path(".env"), frozenset(Settings.model_fields))
    _FILES.append(values)
    try:
        return Settings(**given)
    except ValidationError as error:
        raise SettingsError(*(describe_problem(dict(one)) for one in error.errors())) from None
    finally:
        _FILES.pop()


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
        if "ENCRYPTED" in pem:
            problems.append(
                "GITHUB_APP_PRIVATE_KEY: locked by a password, so it can't be read; unlock it first"
            )
        elif "PRIVATE KEY-----" not in pem:
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
