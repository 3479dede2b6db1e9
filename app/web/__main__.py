"""`python -m app.web [--config FILE] [--host ADDRESS] [--port PORT]`: started by `issuewright up`, which has seen to the
database and Redis. As `python -m worker`, it does not load the command line's library, which would stay in memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from app.domain.errors import SettingsError
from app.observability.logging import start_logging
from app.queue.embedded import find_running
from app.settings import load_settings, require_github
from app.web.server import run_web


def main() -> int:
    """Returns 2 after wrong settings, as the commands of the contract do."""
    parser = argparse.ArgumentParser(prog="python -m app.web", description="Serves; see `issuewright web`.")
    parser.add_argument("--config", type=Path, default=None, help="settings file (YAML)")
    parser.add_argument("--host", default=None, help="address to listen on")
    parser.add_argument("--port", type=int, default=None, help="port to listen on")
    given = parser.parse_args()
    try:
        settings = load_settings(given.config, host=given.host, port=given.port)
        require_github(settings)
        start_logging("web", settings)
        run_web(settings, settings.redis_url or find_running(settings.issuewright_home))
    except SettingsError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
