"""The simulated GitHub as one ASGI application."""

from pathlib import Path

from starlette.types import Receive, Scope, Send

from simulators.github.control_api import ControlFront
from simulators.github.faults import Faults
from simulators.github.gateway import Gateway, is_api_path
from simulators.github.git_http import GIT_PATH, GitFront
from simulators.github.hooks.install import install_hooks
from simulators.github.journal import Journal
from simulators.github.limits import Limits
from simulators.github.platform import Platform
from simulators.github.rest import load_routes
from simulators.github.web import WebFront

GITHUB_ENTERPRISE = "/api/v3"


class GitHubSimulator:
    """State, faults and log of one simulated GitHub; :attr:`app` is its ASGI application.

    ``directory`` (made when missing) holds the bare repositories. ``base_url`` is where people and programs reach
    it; REST is served at that root and also below ``/api/v3``, GraphQL at ``/graphql`` and ``/api/graphql``.
    """

    def __init__(self, directory: Path, base_url: str = "http://127.0.0.1") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        load_routes()
        self.platform = Platform(directory.resolve(), base_url)
        install_hooks(self.platform.hooks_directory)
        self.journal = Journal()
        self.faults = Faults()
        self.limits = Limits(self.platform.world.clock)
        self.gateway = Gateway(self.platform, self.journal, self.faults, self.limits)
        self.git = GitFront(self.platform, self.journal, self.faults)
        self.control = ControlFront(self)
        self.web = WebFront(self.platform)

    @property
    def base_url(self) -> str:
        """Where it is reached."""
        return self.platform.world.base_url

    @base_url.setter
    def base_url(self, value: str) -> None:
        self.platform.world.base_url = value.rstrip("/")

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI entry."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(without_enterprise_prefix(scope), receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.platform.outbox.close()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path.startswith("/_sim/"):
            await self.control(scope, receive, send)
        elif GIT_PATH.fullmatch(path) and not path.startswith("/repos/"):
            await self.git(scope, receive, send)
        elif is_api_path(scope["raw_path"].decode("ascii", "replace")) or path.startswith(
            ("/repos/", "/repositories/", "/app/", "/user/", "/orgs/", "/installation/")
        ):
            await self.gateway(scope, receive, send)
        else:
            await self.web(scope, receive, send)


def without_enterprise_prefix(scope: Scope) -> Scope:
    """The scope as it would be without ``/api/v3`` (and ``/api/graphql`` as ``/graphql``)."""
    path = scope["path"]
    if path.startswith(f"{GITHUB_ENTERPRISE}/"):
        cut = len(GITHUB_ENTERPRISE)
    elif path == "/api/graphql":
        cut = len("/api")
    else:
        return scope
    return {**scope, "path": path[cut:], "raw_path": scope["raw_path"][cut:]}
