"""The command and the environment that a keeper starts a sandbox with, for both kinds of isolation.

The payload is started held (`sandbox_payload.held`): it loads while its work tree is made, and is let go with the
variables that only its order brings.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.sandbox import limits, profile
from app.sandbox.interpreter import find_interpreter
from app.sandbox.limits import Limits
from app.sandbox.order import Isolation, KeeperOrder
from app.sandbox.state_dir import StateDir

GATEWAY_SOCKET = "gateway.sock"
PROXY_SOCKET = "proxy.sock"

_GATEWAY_PORT = 29417
_PROXY_PORT = 29418
"""Inside, where nothing else listens yet; below the ephemeral range, away from what developers commonly serve on."""


@dataclass(frozen=True)
class Launch:
    """`app_url` is where the payload reaches the app."""

    argv: list[str]
    environment: Mapping[str, str]
    cwd: Path
    app_url: str


@dataclass(frozen=True)
class _Places:
    """Where the payload finds things, as it sees them, and the two ports it reaches the app by."""

    python: Path
    payload: Path
    packages: Path | None
    inputs: Path
    state: Path
    workspace: Path
    home: Path
    token: Path
    sockets: Path
    path: str
    gateway_port: int
    proxy_port: int

    @property
    def app_url(self) -> str:
        return f"http://127.0.0.1:{self.gateway_port}"


def plan_launch(order: KeeperOrder, directory: StateDir, cgroups: tuple[Path, ...] = ()) -> Launch:
    """The payload behind its forwarder, under limits, in bubblewrap unless `process` was named."""
    interpreter = find_interpreter()
    if order.isolation is Isolation.BUBBLEWRAP:
        places = _Places(
            python=interpreter.executable,
            payload=profile.PAYLOAD,
            packages=profile.PACKAGES if interpreter.packages else None,
            inputs=profile.INPUTS,
            state=profile.STATE,
            workspace=profile.WORKSPACE,
            home=profile.HOME,
            token=profile.TOKEN,
            sockets=profile.SOCKETS,
            path=profile.inside_path(interpreter),
            gateway_port=_GATEWAY_PORT,
            proxy_port=_PROXY_PORT,
        )
        command = profile.bwrap_command(order, directory, interpreter, _payload_command(order, places))
        environment = _environment(order, places)
        argv = _limited(order, cgroups, signal.SIGKILL, command)
        return Launch(argv, environment, Path("/"), places.app_url)
    gateway_port, proxy_port = _free_ports(2)
    places = _Places(
        python=interpreter.executable,
        payload=directory.payload,
        packages=interpreter.packages,
        inputs=directory.inputs,
        state=directory.state,
        workspace=directory.work,
        home=directory.home,
        token=directory.token,
        sockets=Path(order.socket_dir),
        path=os.pathsep.join((os.environ.get("PATH", os.defpath), str(interpreter.executable.parent))),
        gateway_port=gateway_port,
        proxy_port=proxy_port,
    )
    environment = {**_environment(order, places), "TMPDIR": str(directory.tmp)}
    # Without a namespace nothing dies with the forwarder: it is asked to end, and passes that on.
    argv = _limited(order, cgroups, signal.SIGTERM, _payload_command(order, places))
    return Launch(argv, environment, directory.work, places.app_url)


def variables_of(order: KeeperOrder, app_url: str) -> Mapping[str, str]:
    """What the payload of `order` is let go with."""
    model_url = f"{app_url}/api/v1/sandboxes/{order.sandbox_id}/model"
    return {**order.environment, "ANTHROPIC_BASE_URL": model_url}


def _payload_command(order: KeeperOrder, places: _Places) -> list[str]:
    python = str(places.python)
    routes = ["--route", f"{places.gateway_port}={places.sockets / GATEWAY_SOCKET}"]
    if order.allow_hosts:
        routes += ["--route", f"{places.proxy_port}={places.sockets / PROXY_SOCKET}"]
    payload = [python, "-P", "-m", "sandbox_payload", "--held"]
    folders = [
        "--inputs",
        str(places.inputs),
        "--state",
        str(places.state),
        "--workspace",
        str(places.workspace),
    ]
    return [python, "-P", "-m", "sandbox_payload.forwarder", *routes, "--", *payload, *folders]


def _environment(order: KeeperOrder, places: _Places) -> dict[str, str]:
    """Those of the contract's variables (section 5) that are the same for every sandbox, and PATH, HOME, LANG and PYTHON*;
    nothing of the host's own.
    """
    environment = {
        "CALLBACK_URL": places.app_url,
        "SANDBOX_TOKEN_FILE": str(places.token),
        "PATH": places.path,
        "HOME": str(places.home),
        "LANG": "C.UTF-8",
        **profile.python_environment(places.payload, places.packages),
    }
    if order.allow_hosts:
        environment["HTTPS_PROXY"] = f"http://127.0.0.1:{places.proxy_port}"
    return environment


def _limited(
    order: KeeperOrder, cgroups: tuple[Path, ...], death_signal: int, command: list[str]
) -> list[str]:
    wanted = Limits(
        parent=os.getpid(),
        death_signal=death_signal,
        file_bytes=order.disk_gb * order.pace.gb_bytes,
        cpu_s=int(order.time_limit_s + order.pace.wall_margin_s) * max(1, order.cpu),
        cpus=order.cpu,
        processes=limits.user_threads() + order.pace.max_threads,
        cgroups=tuple(str(group) for group in cgroups),
    )
    return [sys.executable, "-I", "-S", str(limits.__file__), wanted.to_json(), *command]


def _free_ports(count: int) -> list[int]:
    """Ports of the host that nobody listens on now; another process may take one before the forwarder does, which
    then says so and the sandbox fails.
    """
    held = [socket.socket() for _ in range(count)]
    try:
        for one in held:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()
