"""What is done inside a machine through Daytona's toolbox: upload, the agent's session, its end, its output.

Every toolbox call resets the machine's idle timer. Commands hold no secret and no text of the work: Daytona keeps them.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from app.domain.errors import Gone, RetryAt, Unexpected
from app.sandbox.daytona_client import DaytonaClient
from app.sandbox.daytona_parcel import PARCEL, REPOSITORY, Parcel
from sandbox_payload.wire.left import LEFT_FILES, SPOOL_DIR, SPOOL_FILE, SPOOL_FILES

SESSION = "agent"
FOLDER = "issuewright"
LOG = "agent.log"
RELAY = "--relay"
"""Of the payload: what it says and asks is carried by a worker. Its command says so to every later worker."""
_EXEC_S = 8


@dataclass(frozen=True)
class AgentSight:
    """`launched` False: the session has no command yet. `exit_code` None: it runs, or nobody knows how it ended.
    `relayed` as it was launched.
    """

    launched: bool
    exit_code: int | None = None
    relayed: bool = False
    cut_off: bool = False
    """The machine was stopped under it."""


async def fetch_base(client: DaytonaClient, machine: Any) -> PurePosixPath:
    """The directory in the machine that everything of ours is in."""
    return PurePosixPath(await client.call(lambda _: machine.get_work_dir())) / FOLDER


async def fetch_agent(client: DaytonaClient, machine: Any) -> AgentSight:
    """Raises what `DaytonaClient.call` does, but no Gone."""
    try:
        session = await client.call(lambda _: machine.process.get_session(SESSION))
    except Gone:
        return await _find_without_session(client, machine)
    commands = session.commands or []
    if not commands:
        return AgentSight(launched=False)
    return AgentSight(True, commands[0].exit_code, RELAY in str(commands[0].command))


async def _find_without_session(client: DaytonaClient, machine: Any) -> AgentSight:
    """Sessions go with a stop of the machine, or with a crash of Daytona's own program in it, which an agent may survive."""
    try:
        base = shlex.quote(str(await fetch_base(client, machine)))
        said = await _run(
            client,
            machine,
            f"cd {base} 2>/dev/null && test -d launched || exit 0; echo launched; "
            "tr '\\0' ' ' 2>/dev/null </proc/$(cat state/pid)/cmdline",
        )
    except Gone:  # the machine itself
        return AgentSight(launched=False)
    words = said.split()
    if "launched" not in words[:1]:
        return AgentSight(launched=False)
    runs = "sandbox_payload" in words or "sandbox_payload.boot" in words
    return AgentSight(True, None, RELAY in words, cut_off=not runs)


async def upload(
    client: DaytonaClient, machine: Any, parcel: Parcel, secrets: Mapping[str, str], limit_s: float
) -> None:
    """Both files and the secrets (by file name), which are readable by their owner alone before the agent starts.
    Overwrites.
    """
    sdk = await client.sdk()
    base = await fetch_base(client, machine)
    files = [
        sdk.FileUpload(source=str(parcel.tar), destination=str(base / PARCEL)),
        sdk.FileUpload(source=str(parcel.repository), destination=str(base / REPOSITORY)),
        *(
            sdk.FileUpload(source=secret.encode(), destination=str(base / name))
            for name, secret in secrets.items()
        ),
    ]
    await client.call(lambda _: machine.fs.upload_files(files, timeout=int(limit_s)), limit_s)
    for name in secrets:
        place = str(base / name)
        await client.call(partial(_make_private, machine, place))


async def _make_private(machine: Any, place: str, _client: Any) -> None:
    await machine.fs.set_file_permissions(place, mode="600")


async def launch(client: DaytonaClient, machine: Any, *, relayed: bool) -> None:
    """Starts the agent once, whoever else starts it at the same moment: only one makes the directory `launched`."""
    sdk = await client.sdk()
    base = await fetch_base(client, machine)
    try:
        await client.call(lambda _: machine.process.create_session(SESSION))
    except RetryAt:
        # 409: it is there already, with or without its command.
        if (await fetch_agent(client, machine)).launched:
            return
    run = (
        f"cd {shlex.quote(str(base))} && mkdir launched && tar -xzf {PARCEL} && "
        f'export PYTHONPATH="$PWD/payload" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUTF8=1 && '
        f'exec python3 -u -P -m sandbox_payload.boot "$PWD"{f" {RELAY}" if relayed else ""} >>{LOG} 2>&1'
    )
    # In a shell of its own: an `exec` in the session's shell would end the session without an exit code.
    request = sdk.SessionExecuteRequest(command=f"bash -c {shlex.quote(run)}", run_async=True)
    await client.call(lambda _: machine.process.execute_session_command(SESSION, request))


async def ask_to_end(client: DaytonaClient, machine: Any, grace_s: float) -> None:
    """SIGTERM now and SIGKILL after the grace, by a process inside that needs nobody outside."""
    base = await fetch_base(client, machine)
    pid_file = shlex.quote(str(base / "state" / "pid"))
    kill = f"sleep {max(0.0, grace_s):g}; kill -KILL $pid"
    script = (
        f"pid=$(cat {pid_file}) || exit 0; kill -TERM $pid; "
        f"export pid; setsid bash -c {shlex.quote(kill)} </dev/null >/dev/null 2>&1 &"
    )
    await _run(client, machine, script)


async def fetch_output(client: DaytonaClient, machine: Any, offset: int, limit: int) -> bytes:
    """`limit` bytes of the agent's output from `offset`."""
    return await _read_log(client, machine, f"tail -c +{max(0, offset) + 1} {{}} | head -c {limit}")


async def fetch_output_tail(client: DaytonaClient, machine: Any, size: int) -> bytes:
    """Its last `size` bytes."""
    return await _read_log(client, machine, f"tail -c {size} {{}}")


async def _read_log(client: DaytonaClient, machine: Any, command: str) -> bytes:
    """What the command says of the log, whose path takes the place of `{}`: as Base64, since the toolbox knows text only."""
    base = await fetch_base(client, machine)
    path = shlex.quote(str(base / LOG))
    text = await _run(client, machine, f"test -e {path} || exit 0; {command.format(path)} | base64 -w 0")
    try:
        return base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise Unexpected(f"not the log: {text[:100]!r}") from error


async def list_left(client: DaytonaClient, machine: Any) -> dict[str, int]:
    """The sizes of LEFT_FILES that are there, the newest file first; then those of the newest files of events, the oldest
    first.
    """
    state = shlex.quote(str(await fetch_base(client, machine) / "state"))
    files = " ".join(LEFT_FILES)
    said = await _run(
        client,
        machine,
        f"cd {state} 2>/dev/null || exit 0; "
        f"spool=$(ls {SPOOL_DIR} 2>/dev/null | grep -xE '{SPOOL_FILE.pattern}' | sort | tail -n {SPOOL_FILES}); "
        f"for file in $(ls -t {files} 2>/dev/null) ${{spool:+$(printf '{SPOOL_DIR}/%s ' $spool)}}; "
        "do stat -c '%s %n' $file; done",
    )
    rows = [line.split() for line in said.splitlines()]
    return {row[1]: int(row[0]) for row in rows if len(row) == 2 and _is_left(row[1]) and row[0].isdigit()}


def _is_left(file: str) -> bool:
    folder, _, name = file.rpartition("/")
    return file in LEFT_FILES or (folder == SPOOL_DIR and SPOOL_FILE.fullmatch(name) is not None)


async def run_python(client: DaytonaClient, machine: Any, program: str, *arguments: str) -> tuple[int, str]:
    """Exit code and output of a short program; for probes."""
    words = ["python3", "-c", program, *arguments]
    answer = await client.call(
        lambda _: machine.process.exec(" ".join(map(shlex.quote, words)), timeout=_EXEC_S), _EXEC_S + 4
    )
    return int(answer.exit_code or 0), str(answer.result or "")


async def _run(client: DaytonaClient, machine: Any, script: str) -> str:
    command = f"bash -c {shlex.quote(script)}"
    answer = await client.call(lambda _: machine.process.exec(command, timeout=_EXEC_S), _EXEC_S + 2)
    return str(answer.result or "")
