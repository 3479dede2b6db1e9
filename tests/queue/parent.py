"""A parent process for the process-tree test: starts the embedded server, says its pid, and waits to be killed."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from app.queue.embedded import EmbeddedRedis


async def main() -> None:
    server = EmbeddedRedis(Path(sys.argv[1]), os.environ)
    await server.start()
    print(server.pid, flush=True)
    await server.wait()


asyncio.run(main())
