from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.payload.app_stub import TOKEN, AppStub
from tests.payload.sandbox import ROOT, Sandbox, ask_model, eventually

_names = itertools.count(1)


@pytest.fixture(scope="session")
def model_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The scripted model as a process of its own."""
    ready = tmp_path_factory.mktemp("model") / "ready.json"
    command = [sys.executable, "-m", "simulators", "model", "--ready-file", str(ready), "--api-key", TOKEN]
    process = subprocess.Popen([*command, "--parent-pid-watch"], cwd=ROOT, start_new_session=True)
    try:
        eventually(lambda: ready.exists() or process.poll() is not None, 20)
        assert ready.exists(), "the scripted model did not start"
        yield json.loads(ready.read_text())["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


@pytest.fixture
def app() -> Iterator[AppStub]:
    stub = AppStub()
    stub.start()
    yield stub
    stub.stop()


SandboxMaker = Callable[..., Sandbox]


@pytest.fixture
def sandbox(tmp_path: Path, app: AppStub, model_url: str) -> Iterator[SandboxMaker]:
    """Makes sandboxes; `script` is a list of turns (each a list of the model's steps), or a whole script."""
    made: list[Sandbox] = []

    def make(script: Any, **options: Any) -> Sandbox:
        name = f"payload-{os.getpid()}-{next(_names)}"
        ask_model(
            model_url, f"/_sim/scripts/{name}", script if isinstance(script, dict) else {"turns": script}
        )
        options.setdefault("app", app)
        folder = tmp_path / f"sandbox {len(made)}"
        folder.mkdir()
        made.append(Sandbox(folder, model_url=model_url, scenario=name, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()
