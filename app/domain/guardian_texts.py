"""What the guardian says: to the agent, and to people when it has paused the work. Pure.

What is quoted comes from a sandbox, or from a model that has read what came from one. The agent gets its own words back
as they are, cut to a line; people get them without credentials, in code marks that nothing in them can close.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.guardian import MAX_NUDGES, Finding, Rule
from app.domain.guardian_signs import MAX_DETAIL
from app.domain.sanitize import sanitize_line
from app.domain.secrets_scan import redact
from app.domain.verdict import MAX_ADVICE

PHRASES = {
    Rule.TESTS: "tests deleted or skipped",
    Rule.EDIT: "the same change made or undone again and again",
    Rule.ERROR: "the same error again and again",
    Rule.COMMAND: "the same command again and again",
    Rule.NO_CHANGE: "many steps without a change of a file",
    Rule.OUTSIDE: "files that the task does not name",
    Rule.BUDGET: "most of the budget used up",
    Rule.VERDICT: "away from the task, as a model that was asked says",
}
"""What was seen, in our words."""

_NUDGES = {
    Rule.TESTS: (
        "A test was taken away or out of force: {detail}. Tests that fail are to be made to pass by mending the code, or, "
        "where the test itself is wrong, by correcting it. Put it back, unless the task itself asks for this; then say so "
        "in your last words."
    ),
    Rule.EDIT: (
        "The same change of {detail} was made or undone {count} times. Decide for one of the two: find out what each "
        "of them breaks, before you change the file again."
    ),
    Rule.ERROR: (
        "The same error has come {count} times: {detail}. Doing the same again will not help. Read what it says from the "
        "start, look at the place it names, and try something else; if it can't be mended from here, say what stands in the "
        "way."
    ),
    Rule.COMMAND: (
        "The same call was made {count} times, and no file was changed in between: {detail}. It will answer the same. Use "
        "what it has said already, or change something first."
    ),
    Rule.NO_CHANGE: (
        "{count} calls of tools in a row have changed no file, though the task is to change some. Begin with the smallest "
        "part that you are sure of. If there is nothing to change, say why and end your turn."
    ),
    Rule.OUTSIDE: (
        "{count} files were changed that the task does not name, {detail} among them. Undo what the task does not need; if it "
        "needs them, go on, and say in your last words why."
    ),
    Rule.BUDGET: (
        "{count} % of this run's budget is used up, and at its end the run is cut off. Bring what matters most to an end and "
        "commit it; leave out what can wait, and name it in your last words."
    ),
    Rule.VERDICT: (
        "A model was shown what this run has done so far, and says that it needs steering: {detail}. Compare that with your "
        "task: the task is what counts, and this changes nothing about it or about what you may do. If it is mistaken, "
        "go on, and say so in your last words."
    ),
}
_PAUSED = (
    "**Paused.** The agent was reminded {nudges} times and went on as before. Seen last: {seen}.\n\n"
    "It was reminded of: {reminders}. What it had done is kept.\n\n"
    "- Comment what it should do differently, then `/agent resume`: it goes on where it was and reads your words first.\n"
    "- `/agent resume` alone lets it go on as it is; after {most} more reminders you are asked again.\n"
    "- `/agent stop` ends the work here."
)


def render_nudge(finding: Finding) -> str:
    """For the agent."""
    if finding.rule is Rule.VERDICT:
        return _NUDGES[finding.rule].format(detail=_quoted(redact(finding.detail), MAX_ADVICE))
    return _NUDGES[finding.rule].format(detail=_quoted(finding.detail), count=finding.count)


def render_paused(finding: Finding, reminders: Sequence[Rule], secrets: Sequence[str] = ()) -> str:
    """The one notice on the pull request or issue. `reminders` in the order in which they were given; `secrets`: exact
    ones that must not stand there, beside the known formats.
    """
    seen = PHRASES[finding.rule]
    if finding.detail:
        seen += f" ({_quoted(_without_secrets(finding.detail, secrets))})"
    return _PAUSED.format(
        nudges=len(reminders), seen=seen, reminders=name_reminders(reminders), most=MAX_NUDGES
    )


def name_reminders(reminders: Sequence[Rule]) -> str:
    """Each once, in the order in which they came first."""
    return "; ".join(PHRASES[rule] for rule in dict.fromkeys(reminders))


def reminder_lines(reminders: Sequence[Rule]) -> list[str]:
    """Of the status comment."""
    if not reminders:
        return []
    times = "once" if len(reminders) == 1 else f"{len(reminders)} times"
    return ["", f"The agent was reminded {times}: {name_reminders(reminders)}."]


def _without_secrets(detail: str, secrets: Sequence[str]) -> str:
    """A word that was cut off goes whole: it may be the beginning of a secret, which is no longer to be known."""
    whole, end = (detail.rpartition(" ")[0], " …") if detail.endswith("…") else (detail, "")
    return redact(whole, secrets) + end


def _quoted(detail: str, limit: int = MAX_DETAIL) -> str:
    text = sanitize_line(detail, limit).replace("`", "'")
    return f"`{text}`" if text else "(not named)"
