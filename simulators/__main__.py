"""``python -m simulators github|model|daytona …``: starts one simulator in this process."""

import importlib
import sys

ENTRIES = {
    "github": "simulators.github.server",
    "model": "simulators.model.server",
    "daytona": "simulators.daytona.server",
}


def main(argv: list[str]) -> int:
    """Runs the named simulator with the rest of ``argv``; returns its exit code, 2 for an unknown name."""
    if not argv or argv[0] not in ENTRIES:
        print(f"usage: python -m simulators {{{'|'.join(ENTRIES)}}} [options]", file=sys.stderr)
        return 2
    entry = importlib.import_module(ENTRIES[argv[0]])
    code = entry.main(argv[1:])
    return int(code or 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
