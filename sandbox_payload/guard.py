"""`python guard.py COMMAND...`: runs COMMAND so that nothing of it outlives the process that started the guard.

The agent's command line keeps working for minutes after its parent was killed, and commands it started survive it.
The guard is told by the kernel when the payload dies (and looks once a second where the kernel can't), adopts every
orphan below itself, and ends them all. It ends as COMMAND ended, by the same signal or code.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sandbox_payload import processes

_GRACE_S = 3.0


def main(command: list[str]) -> int:
    parent = os.getppid()
    processes.adopt_orphans()
    processes.die_with_parent(signal.SIGTERM)
    # Python ignores these two; whatever runs below must not inherit that.
    child = os.posix_spawn(command[0], command, os.environ, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])

    def ended_from_outside(_number: int, _frame: FrameType | None) -> None:
        processes.end_descendants(_GRACE_S)
        os._exit(143)

    def look_at_parent(_number: int, _frame: FrameType | None) -> None:
        if os.getppid() != parent:
            ended_from_outside(signal.SIGTERM, None)

    signal.signal(signal.SIGTERM, ended_from_outside)
    signal.signal(signal.SIGALRM, look_at_parent)
    signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
    status = _wait(child)
    signal.setitimer(signal.ITIMER_REAL, 0)
    processes.end_descendants(0.2)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        signal.signal(number, signal.SIG_DFL) if number not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), number)
        time.sleep(1)
    return os.waitstatus_to_exitcode(status) % 256


def _wait(child: int) -> int:
    """The status of `child`; orphans that end meanwhile are only reaped."""
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == child:
            return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
