"""The command line. Every command loads what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations


def main() -> int:
    """The console script's entry; the exit code (0 done, 2 bad usage or settings, 1 any other failure)."""
    from app.cli.root import run

    return run()
