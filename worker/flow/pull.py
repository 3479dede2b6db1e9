"""The draft pull request on the branch, and the check run on its head."""

from __future__ import annotations

from datetime import datetime

from app.domain.errors import Gone, Refused
from app.domain.notices import NO_DRAFT
from app.domain.render_pull import TEMPLATE_DIRECTORIES, find_template, render_pull_body, render_pull_title
from app.observability.crashpoints import crashpoint
from worker.flow.adopt import deal_with_no_branch, find_head
from worker.step import Step
from worker.tell import tell_check


async def run(step: Step) -> datetime:
    spec = step.spec
    template = await _fetch_template(step)
    crashpoint("open_pull.before")
    try:
        pull = await step.parts.github.ensure_pull(
            step.repo,
            head=spec.branch or "",
            base=spec.base_branch or "",
            title=render_pull_title(step.view),
            body=render_pull_body(step.view, template),
        )
    except Refused:
        if await find_head(step) is not None:
            raise
        return await deal_with_no_branch(step)
    crashpoint("open_pull.after")
    await step.save(
        pull_number=pull.number, pull_node_id=pull.node_id, pull_url=pull.html_url, pull_state="open"
    )
    if not pull.draft:
        await step.add_note(NO_DRAFT)
    await tell_check(step)
    return step.again()


async def _fetch_template(step: Step) -> str | None:
    """The repository's own template on the base branch, found as GitHub finds it."""
    github, ref = step.parts.github, step.spec.base_sha or ""
    for directory in TEMPLATE_DIRECTORIES:
        try:
            names = await github.fetch_tree_paths(step.repo, directory, ref)
            name = find_template(names)
            if name is not None:
                return await github.fetch_file(step.repo, f"{directory}/{name}".lstrip("/"), ref)
        except Gone:
            continue
    return None
