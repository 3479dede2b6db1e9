"""`make bench`: every measurement, as a table or with `--json` as one object. Takes a quarter of an hour; ends by itself."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence

from bench import conversation, events, planning, receiver, run, sandboxes, supervision
from bench.figures import Figure, render_table

Measurements = Mapping[str, Callable[[], list[Figure]]]
MEASUREMENTS: Measurements = {
    "receiver": receiver.measure,
    "run": lambda: asyncio.run(run.measure()),
    "planning": lambda: asyncio.run(planning.measure()),
    "conversation": conversation.measure,
    "supervision": lambda: asyncio.run(supervision.measure()),
    "events": lambda: asyncio.run(events.measure()),
    "sandboxes": sandboxes.measure,
}


def main(arguments: Sequence[str] | None = None, measurements: Measurements = MEASUREMENTS) -> int:
    """`arguments` None: those of the command line. The exit code is 0 whether goals are met or not."""
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, epilog="What the figures mean: docs/benchmarks.md"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", choices=sorted(measurements), help="this one alone")
    options = parser.parse_args(arguments)
    figures: list[Figure] = []
    for name, measure in measurements.items():
        if options.only in {None, name}:
            print(f"measuring: {name} ...", file=sys.stderr, flush=True)
            figures += measure()
            if not options.json:  # at once: who ends it early keeps what is there
                print(render_table(figures), end="\n\n", flush=True)
                figures.clear()
    if options.json:
        print(json.dumps({"figures": [one.as_json() for one in figures]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
