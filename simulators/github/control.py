"""The control client: everything that a person, or a test, does to the simulated GitHub.

::

    with Control(url) as github:
        github.create_user("alice")
        github.create_repo("alice", "demo", {"README.md": "hello"})
        issue = github.open_issue("alice/demo", "alice", "A title", labels=["agent"])
"""

from typing import Any

from simulators.github.control_client import ControlError, Json
from simulators.github.control_people import PeopleControl
from simulators.github.control_setup import SetupControl

__all__ = ["Control", "ControlError"]


class Control(SetupControl, PeopleControl):
    """All control actions, and what can be observed."""

    # faults

    def add_fault(self, **fields: Any) -> Json:
        """A fault: method (``WRITE``: all writes), path (regex), token (app, installation, git, none), times, skip,
        and what happens: status, headers, message, delay_s, drop, apply (do it first), truncate, or secondary=True.
        """
        return self.do("faults/add", **fields)

    def clear_faults(self) -> Json:
        """Removes all faults; how often each hit, by id."""
        return self.do("faults/clear")

    def list_faults(self) -> list[Json]:
        """All faults with ``hits``."""
        found: list[Json] = self.read("faults")
        return found

    def advance_clock(self, seconds: float) -> Json:
        """Ages tokens and moves timestamps; JWTs are checked by wall time still."""
        return self.do("clock/advance", seconds=seconds)

    def skew_clock(self, seconds: float) -> Json:
        """GitHub's clock ahead of (or, negative, behind) the caller's, for JWTs."""
        return self.do("clock/skew", seconds=seconds)

    def exhaust_limit(self, seconds: float, installation_id: int | None = None) -> Json:
        """``remaining: 0`` for a while."""
        return self.do("limits/exhaust", seconds=seconds, installation_id=installation_id)

    def set_token_length(self, length: int) -> Json:
        """Length of new installation tokens."""
        return self.do("tokens/length", length=length)

    # webhooks

    def hold_webhooks(self, event: str = "*") -> Json:
        """Keeps deliveries back until :meth:`release_webhooks`."""
        return self.do("webhooks/lever", mode="hold", event=event)

    def drop_webhooks(self, event: str = "*", times: int | None = None, *, record: bool = False) -> Json:
        """Loses deliveries; with ``record`` they are listed as failed and can be redelivered."""
        return self.do("webhooks/lever", mode="drop", event=event, times=times, record=record)

    def duplicate_webhooks(self, event: str = "*", times: int | None = None) -> Json:
        """Sends deliveries twice under one GUID."""
        return self.do("webhooks/lever", mode="duplicate", event=event, times=times)

    def release_webhooks(self, *, shuffle: bool = False, seed: int = 0) -> int:
        """Ends hold, drop and duplicate; sends what was held. How many that was."""
        return int(self.do("webhooks/release", shuffle=shuffle, seed=seed)["released"])

    def redeliver(self, delivery_id: int) -> Json:
        """Sends a delivery again."""
        return self.do("webhooks/redeliver", delivery_id=delivery_id)

    def deliveries(
        self,
        event: str | None = None,
        action: str | None = None,
        state: str | None = None,
        repository_id: int | None = None,
        installation_id: int | None = None,
        after: int = 0,
    ) -> list[Json]:
        """All deliveries, or those chosen, oldest first, with payload, state, status; `after` is an id."""
        about = {"repository_id": repository_id, "installation_id": installation_id}
        found: list[Json] = self.read(
            "deliveries", event=event, action=action, state=state, after=after, **about
        )
        return found

    def pending_deliveries(self) -> int:
        """How many are on their way."""
        return int(self.read("pending_deliveries"))

    def wait_for_delivery(self, event: str, action: str | None = None, timeout_s: float = 10.0) -> Json:
        """The first delivery of an event that was attempted."""

        def look() -> Json | None:
            return next((one for one in self.deliveries(event, action) if one["state"] == "sent"), None)

        return self.wait_for(look, timeout_s, f"{event}.{action}")

    # observation

    def requests(self, kind: str | None = None, method: str | None = None, after: int = 0) -> list[Json]:
        """The request log: number, kind (rest, graphql, git), method, path, status, caller, body, at (monotonic s)."""
        found: list[Json] = self.read("requests", kind=kind, method=method, after=after)
        return found

    def writes(self, after: int = 0) -> list[Json]:
        """Successful requests that changed something (token minting and redeliveries are not counted)."""
        found: list[Json] = self.read("writes", after=after)
        return found

    def state(self) -> Json:
        """Everything as GitHub's JSON: users, apps, installations, repositories with issues, comments, checks, refs."""
        found: Json = self.read("state")
        return found

    def repo(self, full_name: str) -> Json:
        """One repository of the state; LookupError."""
        found: Json = self._read_one("repository", full_name=full_name)
        return found

    def refs(self, full_name: str) -> dict[str, str]:
        """SHAs by ref, of a repository; LookupError."""
        found: dict[str, str] = self._read_one("refs", full_name=full_name)
        return found

    def check_runs(self, full_name: str) -> list[Json]:
        """Of a repository, oldest first; LookupError."""
        found: list[Json] = self._read_one("check_runs", full_name=full_name)
        return found

    def issue(self, full_name: str, number: int) -> Json:
        """One issue of the state: ``comment_list``, ``reaction_list``, and for a pull request ``pull``, ``reviews``."""
        found: Json = self._read_one("issue", full_name=full_name, number=number)
        return found

    def _read_one(self, name: str, **query: Any) -> Any:
        try:
            found = self.read(name, **query)
        except ControlError as error:
            raise LookupError(f"{name} {query}") from error
        return found

    def pulls(self, full_name: str) -> list[Json]:
        """Pull requests in full, oldest first."""
        return [issue["pull"] for issue in self.repo(full_name)["issues"] if "pull" in issue]
