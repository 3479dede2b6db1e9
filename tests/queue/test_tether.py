from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.queue.test_embedded import alive
from tests.queue.waiting import until

TETHER = [sys.executable, "-m", "app.queue.tether"]
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]


def test_command_ends_tether_passes_its_code_on() -> None:
    done = subprocess.run(
        [*TETHER, str(os.getpid()), "--", sys.executable, "-c", "raise SystemExit(7)"], check=False
    )
    assert done.returncode == 7


def test_signal_is_passed_on_to_the_command() -> None:
    tether = subprocess.Popen([*TETHER, str(os.getpid()), "--", *SLEEP], stdout=subprocess.PIPE, text=True)
    assert tether.stdout is not None
    with tether.stdout as out:
        assert out.readline() == "up\n"
        tether.send_signal(signal.SIGTERM)
        assert tether.wait(timeout=10) == 128 + signal.SIGTERM


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
async def test_parent_gone_command_is_ended() -> None:
    # A pid that is not its parent's: as if the parent had died and init had taken over.
    tether = subprocess.Popen([*TETHER, "1", "--", *SLEEP], stdout=subprocess.PIPE, text=True)
    assert tether.stdout is not None
    with tether.stdout as out:
        assert out.readline() == "up\n"

    async def ended() -> bool:
        return tether.poll() is not None

    started = time.monotonic()
    await until(ended)
    assert tether.returncode == 128 + signal.SIGKILL
    assert time.monotonic() - started < 5
    assert not alive(tether.pid)
