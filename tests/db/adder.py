"""`adder.py URL SPEC TIMES`: one process that records facts, four at once, for the test of contention."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.db.engine import Database
from app.db.specs import record_fact


async def main(url: str, spec_id: str, times: int) -> None:
    db = Database(url)

    async def add(count: int) -> None:
        for _ in range(count):
            async with db.write() as session:
                await record_fact(session, spec_id, datetime.now(UTC))

    await asyncio.gather(*(add(times // 4) for _ in range(4)))
    await db.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
