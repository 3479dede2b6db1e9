"""Whether bubblewrap's walls hold on this host: a program in a real sandbox tries to get out, and must not."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from app.domain.ports import Probe
from app.sandbox import breakout
from app.sandbox.bubblewrap import BubblewrapSandboxes
from app.sandbox.profile import PAYLOAD

_PROGRAM = "breakout.py"


@dataclass(frozen=True)
class _Bait:
    """What only the host has: a file, a listening port, a listening abstract socket named `word`."""

    word: str
    file: Path
    port: int


async def probe_walls(sandboxes: BubblewrapSandboxes, home: Path) -> Probe:
    """Not ok when bubblewrap does not work here, or a way out was open. `home` (ISSUEWRIGHT_HOME) gets a file for a
    moment. Raises OSError.
    """
    usable = await sandboxes.probe()
    if not usable.ok:
        return usable
    with _bait(home) as bait:
        arguments = [str(PAYLOAD / _PROGRAM), bait.word, str(bait.file), str(bait.port)]
        code, text = await sandboxes.try_program(_put_program, arguments)
    try:
        answer = json.loads(text) if code == 0 else {}
    except ValueError:
        answer = {}
    if not isinstance(answer, dict) or answer.get("word") != bait.word:
        said = text.strip().splitlines()[-1][:300] if text.strip() else "no word"
        return Probe(ok=False, detail=f"a program in the sandbox ended with {code}: {said}")
    if answer["open"]:
        return Probe(ok=False, detail=f"the sandbox can reach {', '.join(answer['open'])}")
    return Probe(ok=True, detail=f"{usable.detail}; a program in it reached neither host nor network")


def _put_program(payload: Path) -> None:
    shutil.copyfile(breakout.__file__, payload / _PROGRAM)


@contextmanager
def _bait(home: Path) -> Iterator[_Bait]:
    word = f"issuewright-{secrets.token_hex(8)}"
    file = home / f".{word}"
    with (
        closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as loopback,
        closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as abstract,
    ):
        loopback.bind(("127.0.0.1", 0))
        loopback.listen()
        abstract.bind(f"\0{word}")
        abstract.listen()
        file.write_text(word)
        try:
            yield _Bait(word, file, loopback.getsockname()[1])
        finally:
            file.unlink(missing_ok=True)
