"""Which tests of tests/flow `make test-daytona` plays once more with their agents on a simulated Daytona, and why not all.

A machine there is bubblewrap with the network of this one: it shows how the product deals with a provider that is far
away, not that Daytona isolates.
"""

from __future__ import annotations

from collections.abc import Mapping

ON_DAYTONA = (
    "test_conversation.py",
    "test_daytona.py",
    "test_daytona_relay.py",
    "test_happy_path.py::test_labeled_issue_becomes_a_ready_pull_request_and_a_merge_completes_it",
    "test_interference.py::test_label_off_issue_closed_or_app_removed_ends_the_run",
    "test_kills.py",
    "test_outcomes.py::test_refused_result_is_not_pushed_and_says_which_rule_it_broke",
    "test_planned.py",
    "test_recovery.py",
    "test_repositories.py::test_bytes_modes_and_names_pass_untouched_whatever_the_operators_git_is_set_to",
    "test_reviews.py",
)
"""Files, and single tests of the others."""

NOT_THERE: Mapping[str, str] = {
    "test_bad_input.py": "ends before there is a sandbox, or differs in nothing that a sandbox sees",
    "test_guardian.py": "the guardian judges events, which are the same wherever the agent works",
    "test_happy_path.py": "branch names and templates are the host's; one story is enough",
    "test_interference.py": "GitHub's lost answers and people's edits never reach a sandbox",
    "test_outcomes.py": "what a result means is judged on arrival, by whatever way it came; one refusal is enough",
    "test_repositories.py": "branches and hooks are the host's; bytes and modes are what the upload could spoil",
    "test_security.py": "looks for the isolation of this machine's sandboxes, which a simulation can't vouch for",
    "test_two_of_each.py": "needs the servers of `make test-servers`",
}
"""Files of which not every test is above."""


def is_on_daytona(nodeid: str) -> bool:
    """Whether the test is one of ON_DAYTONA."""
    file, _, rest = nodeid.partition("::")
    name = file.removeprefix("tests/flow/")
    return name in ON_DAYTONA or f"{name}::{rest.partition('[')[0]}" in ON_DAYTONA
