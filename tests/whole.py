"""Which tests play whole stories with real processes and sandboxes: not in `make test`, all in `make test-whole`.

Of each kind of story one stays in `make test`: quick work in tests/flow/test_happy_path.py, planned work in
tests/cli/test_demo.py, one agent's run in tests/payload/test_round.py.
"""

from __future__ import annotations

WHOLE = (
    "tests/cli/test_set_up.py",
    "tests/cli/test_up.py",
    "tests/docs/test_operations.py::test_private_key_and_operator_token_are_rotated_while_an_agent_works",
    "tests/docs/test_operations.py::test_replayed_delivery_causes_nothing_twice",
    "tests/docs/test_operations.py::test_restored_postgres_database_is_as_it_was_when_it_was_backed_up",
    "tests/docs/test_operations.py::test_restored_sqlite_database_goes_on_as_the_page_says",
    "tests/docs/test_operations.py::test_webhook_secret_is_rotated_without_refusing_a_delivery",
    "tests/flow/test_bad_input.py",
    "tests/flow/test_conversation.py",
    "tests/flow/test_daytona.py",
    "tests/flow/test_interference.py",
    "tests/flow/test_kills.py",
    "tests/flow/test_outcomes.py",
    "tests/flow/test_planned.py",
    "tests/flow/test_recovery.py",
    "tests/flow/test_repositories.py",
    "tests/flow/test_security.py",
    "tests/flow/test_two_of_each.py",
    "tests/payload/test_ends.py",
    "tests/payload/test_planning_again.py",
)
"""Files, and single tests of files that are quick otherwise."""
