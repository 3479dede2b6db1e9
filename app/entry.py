"""What `python -m app.web` and `python -m worker` have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable

from app.domain.errors import SettingsError
from app.observability.logging import start_logging
from app.queue.embedded import find_running
from app.settings import Settings, require_github


def run_process(name: str, load: Callable[[], Settings], run: Callable[[Settings, str | None], None]) -> int:
    """Settings, logging as `name`, then `run` with the settings and Redis's URL. Returns the exit code: 2 after wrong
    settings, with a line for each, as the commands of the contract do.
    """
    try:
        settings = load()
        require_github(settings)
        start_logging(name, settings)
        run(settings, settings.redis_url or find_running(settings.issuewright_home))
    except SettingsError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return 2
    return 0
