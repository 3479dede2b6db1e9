"""Control: what people do to issues, pull requests, reviews and checks."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulators.github.control_client import ControlClient, Json


class PeopleControl(ControlClient):
    """Every action names who does it (``by``); permissions are not checked."""

    def open_issue(
        self, repo: str, by: str, title: str, body: str | None = None, labels: Sequence[str] = ()
    ) -> Json:
        """Opens an issue (``opened``, and ``labeled`` for each label)."""
        return self.do("issues/open", repo=repo, by=by, title=title, body=body, labels=list(labels))

    def edit_issue(
        self, repo: str, number: int, by: str, *, title: str | None = None, body: str | None = None
    ) -> Json:
        """Edits an issue or pull request."""
        return self.do("issues/edit", repo=repo, number=number, by=by, title=title, body=body)

    def close_issue(self, repo: str, number: int, by: str, reason: str | None = None) -> Json:
        """Closes."""
        return self.do("issues/state", repo=repo, number=number, by=by, state="closed", reason=reason)

    def reopen_issue(self, repo: str, number: int, by: str) -> Json:
        """Reopens."""
        return self.do("issues/state", repo=repo, number=number, by=by, state="open")

    def lock_issue(self, repo: str, number: int, by: str, locked: bool = True) -> Json:
        """Locks or unlocks."""
        return self.do("issues/lock", repo=repo, number=number, by=by, locked=locked)

    def delete_issue(self, repo: str, number: int, by: str) -> Json:
        """Deletes (410 from then on)."""
        return self.do("issues/delete", repo=repo, number=number, by=by)

    def transfer_issue(self, repo: str, number: int, by: str, target: str) -> Json:
        """Moves to another repository (301 from then on); the new issue."""
        return self.do("issues/transfer", repo=repo, number=number, by=by, target=target)

    def assign(self, repo: str, number: int, by: str, login: str) -> Json:
        """Assigns somebody."""
        return self.do("issues/assign", repo=repo, number=number, by=by, login=login)

    def add_labels(self, repo: str, number: int, by: str, *labels: str) -> Json:
        """Adds labels."""
        return self.do("labels/add", repo=repo, number=number, by=by, labels=list(labels))

    def remove_label(self, repo: str, number: int, by: str, label: str) -> Json:
        """Takes a label off."""
        return self.do("labels/remove", repo=repo, number=number, by=by, label=label)

    def create_label(self, repo: str, by: str, name: str, color: str = "ededed") -> Json:
        """A label of the repository."""
        return self.do("labels/create", repo=repo, by=by, name=name, color=color)

    def rename_label(self, repo: str, by: str, name: str, new_name: str) -> Json:
        """Renames a label."""
        return self.do("labels/edit", repo=repo, by=by, name=name, new_name=new_name)

    def delete_label(self, repo: str, by: str, name: str) -> Json:
        """Deletes a label."""
        return self.do("labels/delete", repo=repo, by=by, name=name)

    def comment(self, repo: str, number: int, by: str, body: str) -> Json:
        """Comments on an issue or pull request."""
        return self.do("comments/create", repo=repo, number=number, by=by, body=body)

    def edit_comment(self, comment_id: int, by: str, body: str) -> Json:
        """Edits a comment, whoever wrote it."""
        return self.do("comments/edit", comment_id=comment_id, by=by, body=body)

    def delete_comment(self, comment_id: int, by: str) -> Json:
        """Deletes a comment."""
        return self.do("comments/delete", comment_id=comment_id, by=by)

    def fill_comments(self, repo: str, number: int, by: str, count: int) -> Json:
        """Many comments without events."""
        return self.do("comments/bulk", repo=repo, number=number, by=by, count=count)

    def get_comment(self, comment_id: int) -> Json:
        """A comment of either kind with ``reaction_list``."""
        return self.do("comments/get", comment_id=comment_id)

    def react(
        self,
        by: str,
        content: str,
        *,
        comment_id: int | None = None,
        repo: str | None = None,
        number: int | None = None,
    ) -> Json:
        """Reacts to a comment, or to an issue."""
        return self.do(
            "reactions/create", by=by, content=content, comment_id=comment_id, repo=repo, number=number
        )

    # pull requests

    def open_pull(
        self,
        repo: str,
        by: str,
        title: str,
        head: str,
        base: str | None = None,
        *,
        body: str | None = None,
        draft: bool = False,
        head_repo: str | None = None,
    ) -> Json:
        """Opens a pull request (``head_repo``: from a fork)."""
        return self.do(
            "pulls/open",
            repo=repo,
            by=by,
            title=title,
            head=head,
            base=base,
            body=body,
            draft=draft,
            head_repo=head_repo,
        )

    def close_pull(self, repo: str, number: int, by: str) -> Json:
        """Closes without merging."""
        return self.do("pulls/state", repo=repo, number=number, by=by, state="closed")

    def reopen_pull(self, repo: str, number: int, by: str) -> Json:
        """Reopens."""
        return self.do("pulls/state", repo=repo, number=number, by=by, state="open")

    def merge_pull(
        self, repo: str, number: int, by: str, method: str = "merge", *, delete_branch: bool = False
    ) -> Json:
        """Merges (``merge``, ``squash``)."""
        return self.do(
            "pulls/merge", repo=repo, number=number, by=by, method=method, delete_branch=delete_branch
        )

    def set_draft(self, repo: str, number: int, by: str, draft: bool) -> Json:
        """Draft, or ready for review."""
        return self.do("pulls/draft", repo=repo, number=number, by=by, draft=draft)

    def retarget_pull(self, repo: str, number: int, by: str, base: str) -> Json:
        """Another base branch."""
        return self.do("pulls/retarget", repo=repo, number=number, by=by, base=base)

    def update_branch(self, repo: str, number: int, by: str) -> Json:
        """Merges the base branch into the head, as the button of that name does."""
        return self.do("pulls/update_branch", repo=repo, number=number, by=by)

    def lose_head(self, repo: str, number: int) -> Json:
        """The fork is gone: ``head.repo`` becomes null."""
        return self.do("pulls/lose_head", repo=repo, number=number)

    # reviews

    def review(
        self,
        repo: str,
        number: int,
        by: str,
        event: str = "COMMENT",
        body: str = "",
        comments: Sequence[Mapping[str, Any]] = (),
    ) -> Json:
        """A review (APPROVE, REQUEST_CHANGES, COMMENT); comments: path, body, line, side, start_line, outdated."""
        given = [dict(one) for one in comments]
        return self.do(
            "reviews/submit", repo=repo, number=number, by=by, event=event, body=body, comments=given
        )

    def line_comment(
        self, repo: str, number: int, by: str, path: str, body: str, line: int = 1, *, outdated: bool = False
    ) -> Json:
        """A single comment on a line."""
        return self.do(
            "reviews/comment",
            repo=repo,
            number=number,
            by=by,
            path=path,
            body=body,
            line=line,
            outdated=outdated,
        )

    def reply(self, comment_id: int, by: str, body: str) -> Json:
        """An answer in a thread."""
        return self.do("reviews/reply", comment_id=comment_id, by=by, body=body)

    def edit_line_comment(self, comment_id: int, by: str, body: str) -> Json:
        """Edits a line comment."""
        return self.do("reviews/edit_comment", comment_id=comment_id, by=by, body=body)

    def edit_review(self, review_id: int, by: str, body: str) -> Json:
        """Edits a review's own text."""
        return self.do("reviews/edit", review_id=review_id, by=by, body=body)

    def delete_line_comment(self, comment_id: int, by: str) -> Json:
        """Deletes a line comment."""
        return self.do("reviews/delete_comment", comment_id=comment_id, by=by)

    def resolve_thread(self, comment_id: int, by: str, resolved: bool = True) -> Json:
        """Resolves or reopens the thread of a line comment."""
        return self.do("reviews/resolve", comment_id=comment_id, by=by, resolved=resolved)

    def dismiss_review(self, review_id: int, by: str) -> Json:
        """Dismisses a review."""
        return self.do("reviews/dismiss", review_id=review_id, by=by)

    # checks

    def create_check(self, repo: str, app_id: int, name: str, sha: str, **fields: Any) -> Json:
        """A check run of an App: conclusion, title, summary, annotations."""
        return self.do("checks/create", repo=repo, app_id=app_id, name=name, sha=sha, **fields)

    def conclude_check(self, check_id: int, conclusion: str) -> Json:
        """Completes a check run."""
        return self.do("checks/conclude", check_id=check_id, conclusion=conclusion)

    def press_button(self, check_id: int, by: str, identifier: str) -> Json:
        """``check_run.requested_action``."""
        return self.do("checks/press", check_id=check_id, by=by, identifier=identifier)

    def rerun_check(self, check_id: int, by: str) -> Json:
        """``check_run.rerequested``."""
        return self.do("checks/rerun", check_id=check_id, by=by)

    def rerun_suite(self, repo: str, suite_id: int, by: str) -> Json:
        """``check_suite.rerequested``."""
        return self.do("suites/rerun", repo=repo, suite_id=suite_id, by=by)

    def workflow_run(self, repo: str, app_id: int, by: str, name: str, branch: str, **fields: Any) -> Json:
        """A workflow run on a branch: conclusion, jobs (name, conclusion, log, annotations)."""
        return self.do("runs/create", repo=repo, app_id=app_id, by=by, name=name, branch=branch, **fields)
