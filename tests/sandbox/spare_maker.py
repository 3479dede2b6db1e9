"""A worker that keeps a spare sandbox until it is killed. Host and size come pickled by standard input."""

from __future__ import annotations

import asyncio
import pickle
import sys

from app.sandbox.bubblewrap import BubblewrapSandboxes


def main() -> None:
    host, size = pickle.load(sys.stdin.buffer)
    asyncio.run(BubblewrapSandboxes(host).keep_spare(size))


if __name__ == "__main__":
    main()
