"""`python -m tests.checks`: prints every place where a rule of this project is broken; exit code 1 when there is one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping

from tests.checks.configuration import find_stale_reference
from tests.checks.environment import find_environment_reads
from tests.checks.machine import find_machine_traces
from tests.checks.names import find_empty_names
from tests.checks.schema import find_schema_drift
from tests.checks.sizes import find_large
from tests.checks.sql import find_sql_elsewhere
from tests.checks.tree import Finding, Tree

CHECKS: Mapping[str, Callable[[Tree], Iterable[Finding]]] = {
    "sizes": find_large,
    "names": find_empty_names,
    "environment": find_environment_reads,
    "SQL": find_sql_elsewhere,
    "machine": find_machine_traces,
    "schema": find_schema_drift,
    "configuration": find_stale_reference,
}


def main() -> int:
    tree = Tree.read()
    findings = [finding for check in CHECKS.values() for finding in check(tree)]
    for finding in findings:
        print(finding)
    if findings:
        print(f"{len(findings)} found by the project's own checks ({', '.join(CHECKS)})")
        return 1
    print(f"the project's own checks passed: {', '.join(CHECKS)}; {len(tree.sources)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
