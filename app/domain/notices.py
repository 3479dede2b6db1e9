"""Sentences for people: outcomes of a spec and comments where there is no spec. Pure."""

from __future__ import annotations

from app.domain.markers import notice_marker
from app.domain.sanitize import escape_markdown

NO_WRITE = "no-write"
NO_RETRY = "no-retry"


def render_no_write(key: str, login: str, label: str) -> str:
    return (
        f"{notice_marker(key)}\n**Not started.** {escape_markdown(login)} set `{label}`, but only someone with write "
        "access to this repository can start work. Someone with write access may set the label again."
    )


def render_no_retry(key: str, login: str) -> str:
    return (
        f"{notice_marker(key)}\n**Nothing to try again.** {escape_markdown(login)} asked for it, but this work has ended "
        "well. For more work, say what is missing in an issue and label it."
    )


LABEL_UNHEARD = (
    "**Not started.** `{label}` was set here, but the event never arrived, so who set it and what the issue said at that "
    "moment are not known. Remove `{label}` and set it again to start."
)
EMPTY_REPOSITORY = "The repository has no commit yet, so there is nothing to branch from. Push a first commit, then set the label again."
ARCHIVED = "The repository is archived or disabled, so nothing can be pushed to it."
NO_BASE = "None of the possible base branches exists ({names}). Create one, then set the label again."
BLOCKED_NAME = (
    "The branch `{name}` can't be created: {reason}. A branch called `{prefix}` stands in the way, since Git keeps "
    "`{prefix}/…` as a folder. Delete or rename the branch `{prefix}`, then set the label again."
)
NAMES_TAKEN = (
    "Every branch name that was tried is taken (the last one: `{name}`). Delete old branches, then try again."
)
PULL_CLOSED = "The pull request was closed without a merge."
LABEL_REMOVED = "The label was removed."
ISSUE_CLOSED = "The issue was closed."
CANCEL_TEXTS = {
    "label_removed": LABEL_REMOVED,
    "issue_closed": ISSUE_CLOSED,
    "issue_deleted": "The issue was deleted.",
    "issue_transferred": "The issue was moved to another repository.",
    "pull_closed": PULL_CLOSED,
    "pull_merged": "The pull request was merged.",
    "branch_deleted": "The branch of the pull request was deleted.",
    "archived": "The repository was archived, so nothing can be written to it.",
    "stopped": "Somebody stopped it with `/agent stop`.",
    "access_lost": "The App no longer has access to the repository.",
    "operator": "The operator of this Issuewright cancelled it.",
}
PAUSED_HINT = "`/agent resume` lets it go on where it was; what is said meanwhile waits for the agent."
NO_CHANGES = "The agent ended without changing a file. The pull request was closed and its branch deleted; the issue stays open."
WRAP_UP = "This work was cancelled. You have 30 seconds: commit what is worth keeping, then end your turn. Start nothing new."
HEAD_TAKEN_UP_BEGINS = "Somebody else pushed to the branch"
HEAD_TAKEN_UP = HEAD_TAKEN_UP_BEGINS + "; the work goes on from `{sha}`."
KEPT = "What the agent had done is kept: `issuewright specs bundle {spec_id}`."
OTHERS_SAVED = "What another agent had committed by then is on the branch."
SAVED_BEFORE = "What it had saved before that is on the branch."
TROUBLES = {
    "not_started": "No sandbox came about in time.",
    "absent": "The sandbox was gone all of a sudden.",
    "no_heartbeat": "The sandbox gave no sign of life any more.",
    "spool_stopped": "The sandbox no longer reported what it did.",
    "idle": "The agent no longer did anything.",
    "between_phases": "The planning agent stopped between two phases.",
    "time_limit": "The time limit was reached: the sandbox was stopped.",
    "budget": "The budget of the run was used up.",
    "cli_killed": "The agent's process was killed again and again. Perhaps the sandbox is too small for this repository.",
    "cli_ended": "The agent's process ended by itself again and again.",
}
"""Why there is no further attempt, by what was wrong with the last sandbox."""
SANDBOX_LOST = "The sandbox ended without handing back a result ({reason})."
BAD_SETTINGS = (
    "Nothing was started: the settings in `{path}` on the default branch can't be used.\n\n{faults}\n\n"
    "Correct them there, then set the label again."
)
PHASE_FAILED = (
    "The plan did not come about: after {attempts} attempts, phase **{phase}** still lacked\n\n{reasons}"
)
CONFLICT = (
    "The result can't be merged with what others changed meanwhile:\n\n{paths}\n\n"
    "It is kept: `issuewright specs bundle {spec_id}`."
)
FOLLOW_UP_FAILED_BEGINS = "What was said last could not be followed"
FOLLOW_UP_FAILED = (
    FOLLOW_UP_FAILED_BEGINS + "; the work is as it was, and `/agent retry` tries it again. {reason}"
)
ROUNDS_USED_UP = (
    "**Paused.** The result was worked on as often as `max_rounds` allows without asking. What was said since, and checks "
    "that failed, wait: comment `/agent resume` to let the agent go on (for as many rounds again), or `/agent stop` to "
    "end here."
)
PLAN_UNCHANGED = "The plan is unchanged. The planning agent says: {said}"
PLANNING_FAILED = "The plan did not come about. {reason}"
REVISION_FAILED = "The change to the plan did not come about; the plan as shown still stands. {reason}"
SYNC_FAILED = "The parts of the plan do not fit together:\n\n{reasons}"
INTERNAL = "Something in Issuewright itself failed {times} times in a row ({what}). The operator's log has the details."
DENIED = "It could not be done: {message}"
LABELER_LOST = "{login} no longer has write access to this repository."
NO_REVIEWER = "A review by {login} could not be requested: GitHub refuses them as a reviewer."
NO_STATUS = "The status comment on the issue could not be written: {reason}"
NO_CHECK = "The check run could not be written: {reason}"
NO_DRAFT = "The pull request was opened ready at once, since drafts are not available in this repository."
LFS_NOTE = "Files kept in Git LFS were not there for the agent, only their pointers."
NO_MODEL = (
    "There is no model key: none of {login}, none of this installation, none of the operator. The operator runs "
    "`issuewright credentials set model --user {user_id}` (or `--installation {installation_id}`), or sets "
    "ANTHROPIC_API_KEY; then try again."
)
SANDBOX_LEFT = "A sandbox could not be removed: {message}."
SANDBOX_LEFT_FOR_KEY = (
    "A sandbox could not be removed, since the sandbox provider refuses the operator's key: `issuewright doctor` says more, "
    "and it goes by itself once the key is mended."
)
LEFT_GIVEN_UP = (
    "What an agent had done last could not be fetched: for {why}. What it had handed over before that counts."
)
LEFT_BY_PROVIDER = "two hours the sandbox provider did not start its sandbox once more"
LEFT_BY_APP = "two hours the operator's web process did not answer"
LEFT_UNREACHED = (
    "ten minutes the operator's worker could not reach the web process, though that runs (the operator's "
    "`issuewright doctor` says what to do)"
)
KEY_REFUSED = (
    "The model's API refuses the model key {owner} ({status}). The operator stores another one with "
    "`issuewright credentials set model {option}`; then try again."
)
OPERATORS_KEY_REFUSED = (
    "The model's API refuses the model key of the operator ({status}). The operator sets another ANTHROPIC_API_KEY and "
    "restarts; then try again."
)
KEY_UNREADABLE = (
    "The model key {owner} can't be decrypted: {reason}. The operator puts the key it was stored under back into "
    "CREDENTIALS_KEY, or stores it anew with `issuewright credentials set model {option}`; then try again."
)
