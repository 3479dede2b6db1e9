"""`python -m app.web [--config FILE] [--host ADDRESS] [--port PORT]`: started by `issuewright up`, which has seen to the
database and Redis. As `python -m worker`, it does not load the command line's library, which would stay in memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import app.web.lean  # noqa: F401 - first
from app.entry import run_process
from app.settings import load_settings
from app.web.server import run_web


def main() -> int:
    """Returns 2 after wrong settings."""
    parser = argparse.ArgumentParser(prog="python -m app.web", description="Serves; see `issuewright web`.")
    parser.add_argument("--config", type=Path, default=None, help="settings file (YAML)")
    parser.add_argument("--host", default=None, help="address to listen on")
    parser.add_argument("--port", type=int, default=None, help="port to listen on")
    given = parser.parse_args()
    return run_process("web", lambda: load_settings(given.config, host=given.host, port=given.port), run_web)


if __name__ == "__main__":
    sys.exit(main())
