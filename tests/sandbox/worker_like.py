"""A worker that makes one sandbox and then only waits to be killed. Host and order come pickled by standard input."""

from __future__ import annotations

import asyncio
import pickle
import sys
import time

from app.sandbox.bubblewrap import BubblewrapSandboxes


def main() -> None:
    host, order = pickle.load(sys.stdin.buffer)
    sight = asyncio.run(BubblewrapSandboxes(host).ensure_created(order))
    print(sight.status, flush=True)
    time.sleep(300)


if __name__ == "__main__":
    main()
