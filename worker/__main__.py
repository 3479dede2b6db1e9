"""`python -m worker [--config FILE] [--own-sandboxes]`: started by `issuewright worker` and `issuewright up`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.domain.errors import SettingsError
from app.observability.logging import start_logging
from app.queue.embedded import find_running
from app.settings import load_settings, require_github


def main() -> int:
    """Returns 2 after wrong settings, as the commands of the contract do."""
    parser = argparse.ArgumentParser(
        prog="python -m worker", description="Runs steps; see `issuewright worker`."
    )
    parser.add_argument("--config", type=Path, default=None, help="settings file (YAML)")
    parser.add_argument(
        "--own-sandboxes", action="store_true", help="on a stop, this machine's sandboxes wrap up first"
    )
    arguments = parser.parse_args()
    try:
        settings = load_settings(arguments.config)
        require_github(settings)
        start_logging("worker", settings)
        from worker.main import run_worker  # noqa: PLC0415 - after the settings are known to be right: it loads much

        redis_url = settings.redis_url or find_running(settings.issuewright_home)
        run_worker(settings, redis_url, own_sandboxes=arguments.own_sandboxes)
    except SettingsError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
