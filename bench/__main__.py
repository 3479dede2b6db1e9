"""`make bench`: every measurement once, as a table, or with `--json` as one object."""

from __future__ import annotations

import argparse
import json

from bench import receiver


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    results = {"webhook receipts against a bare HMAC endpoint": receiver.measure()}
    if arguments.json:
        print(json.dumps(results))
        return
    for title, numbers in results.items():
        print(title)
        for name, value in numbers.items():
            print(f"  {name:<16}{value:>10g}")


if __name__ == "__main__":
    main()
