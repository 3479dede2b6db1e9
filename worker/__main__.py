"""`python -m worker [--config FILE] [--own-sandboxes]`: started by `issuewright worker` and `issuewright up`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.entry import run_process
from app.settings import Settings, load_settings


def main() -> int:
    """Returns 2 after wrong settings."""
    parser = argparse.ArgumentParser(
        prog="python -m worker", description="Runs steps; see `issuewright worker`."
    )
    parser.add_argument("--config", type=Path, default=None, help="settings file (YAML)")
    parser.add_argument(
        "--own-sandboxes", action="store_true", help="on a stop, this machine's sandboxes wrap up first"
    )
    given = parser.parse_args()

    def run(settings: Settings, redis_url: str | None) -> None:
        from worker.main import run_worker  # noqa: PLC0415 - after the settings are known to be right: it loads much

        run_worker(settings, redis_url, own_sandboxes=given.own_sandboxes)

    return run_process("worker", lambda: load_settings(given.config), run)


if __name__ == "__main__":
    sys.exit(main())
