"""`python -m app.queue.tether PARENT_PID -- COMMAND …`: runs COMMAND and ends it when PARENT_PID is gone.

For systems whose kernel has no way to tie a child to its parent (macOS). Standard library only: it stays alive as
long as its command does.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from types import FrameType

LOOK_EVERY_S = 0.5


def main(argv: list[str]) -> int:
    """Returns the command's exit code (128 + n for a signal)."""
    if len(argv) < 3 or argv[1] != "--" or not argv[0].isdigit():
        print("usage: python -m app.queue.tether PARENT_PID -- COMMAND …", file=sys.stderr)
        return 2
    parent = int(argv[0])
    child = subprocess.Popen(argv[2:])

    def pass_on(number: int, _frame: FrameType | None) -> None:
        with suppress(ProcessLookupError):
            child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, pass_on)
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = child.wait(LOOK_EVERY_S)
            return code if code >= 0 else 128 - code
        if os.getppid() != parent:
            child.kill()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
