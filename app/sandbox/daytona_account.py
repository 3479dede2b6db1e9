"""Whose Daytona account is used, and what sandboxes there start from: plain values, read once from the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from app.domain.errors import SettingsError

SIZES = ("sandbox_memory_gb", "sandbox_cpu", "sandbox_disk_gb")


class _Secret(Protocol):
    def get_secret_value(self) -> str: ...


class DaytonaSettings(Protocol):
    """What is read of the settings."""

    @property
    def daytona_api_key(self) -> _Secret | None: ...
    @property
    def daytona_api_url(self) -> str | None: ...
    @property
    def daytona_target(self) -> str | None: ...
    @property
    def sandbox_snapshot(self) -> str: ...
    @property
    def sandbox_image(self) -> str | None: ...
    @property
    def sandbox_memory_gb(self) -> int: ...
    @property
    def sandbox_cpu(self) -> int: ...
    @property
    def sandbox_disk_gb(self) -> int: ...
    @property
    def sandbox_link(self) -> str: ...
    @property
    def daytona_model_secret(self) -> str | None: ...
    @property
    def base_url(self) -> str: ...
    @property
    def model_fields_set(self) -> set[str]: ...


@dataclass(frozen=True)
class Size:
    memory_gb: int
    cpu: int
    disk_gb: int

    def __str__(self) -> str:
        return f"{self.cpu} CPU, {self.memory_gb} GB memory, {self.disk_gb} GB disk"


@dataclass(frozen=True)
class DaytonaAccount:
    """`api_url` and `target` None mean Daytona's own choice. `app_url` is the base URL by which sandboxes reach the web
    process. Exactly one of `snapshot` and `image` is not empty. `asked_size` is set when an operator spelled a size
    out. `instance` is the value of the owner label; empty where nothing is to be listed. `link`: auto, http or relay.
    `model_secret`: the name of a secret at Daytona that holds the operator's model key; empty when there is none.
    """

    api_key: str
    api_url: str | None
    target: str | None
    app_url: str
    snapshot: str
    image: str
    asked_size: Size | None = None
    instance: str = ""
    link: str = "http"
    model_secret: str = ""


def daytona_account(settings: DaytonaSettings, instance: str = "") -> DaytonaAccount:
    """Raises SettingsError when the key is missing or both a snapshot and an image are named."""
    key = settings.daytona_api_key.get_secret_value() if settings.daytona_api_key else ""
    given = settings.model_fields_set
    if not key:
        raise SettingsError("DAYTONA_API_KEY: not set; make a key in Daytona's dashboard, or use bubblewrap")
    if settings.sandbox_image and "sandbox_snapshot" in given:
        raise SettingsError(
            "SANDBOX_SNAPSHOT, SANDBOX_IMAGE: only one of them; a snapshot brings its own size, another size needs an image"
        )
    size = Size(settings.sandbox_memory_gb, settings.sandbox_cpu, settings.sandbox_disk_gb)
    return DaytonaAccount(
        api_key=key,
        api_url=settings.daytona_api_url,
        target=settings.daytona_target,
        app_url=settings.base_url,
        snapshot="" if settings.sandbox_image else settings.sandbox_snapshot,
        image=settings.sandbox_image or "",
        asked_size=size if given.intersection(SIZES) else None,
        instance=instance,
        link=settings.sandbox_link,
        model_secret=settings.daytona_model_secret or "",
    )
