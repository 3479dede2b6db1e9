"""What actions work on: the world, and the way events leave it."""

from pathlib import Path
from typing import Any

from simulators.github.clock import iso
from simulators.github.deliveries import Outbox
from simulators.github.model import App, Installation, Issue, Repository, TimelineEntry, User
from simulators.github.nodes import node_id
from simulators.github.shapes.accounts import account_json, organization_json
from simulators.github.shapes.repositories import repository_json
from simulators.github.world import World

Json = dict[str, Any]
# An event reaches an installation only with one of these permissions (docs: "Webhook events and payloads").
EVENT_PERMISSIONS = {
    "check_run": ("checks",),
    "check_suite": ("checks",),
    "create": ("contents",),
    "delete": ("contents",),
    "issue_comment": ("issues", "pull_requests"),
    "issues": ("issues",),
    "label": ("issues", "pull_requests"),
    "pull_request": ("pull_requests",),
    "pull_request_review": ("pull_requests",),
    "pull_request_review_comment": ("pull_requests",),
    "pull_request_review_thread": ("pull_requests",),
    "push": ("contents",),
    "workflow_run": ("actions",),
}


class Platform:
    """The world plus its outbox. Every method runs on the event loop, so none of them interleave."""

    def __init__(self, directory: Path, base_url: str) -> None:
        self.world = World(directory, base_url)
        self.outbox = Outbox(self.world)
        self.hooks_directory = directory / "hooks"
        # texts that push protection refuses (GH013)
        self.push_protection: list[str] = []

    def emit(
        self,
        event: str,
        repository: Repository,
        actor: User,
        body: Json,
        *,
        only_app: int | None = None,
    ) -> None:
        """Sends an event about a repository to every App that is installed there and subscribed.

        ``only_app`` narrows it to one App, as GitHub does for ``check_run.requested_action``; an App that may write
        checks gets such an event of its own checks without having subscribed.
        """
        receivers = [
            found
            for found in self.world.installations_on(repository)
            if found.suspended_at is None
            and (
                event in found.events or (only_app is not None and found.permissions.get("checks") == "write")
            )
            and any(name in found.permissions for name in EVENT_PERMISSIONS.get(event, ("metadata",)))
            and (only_app is None or found.app_id == only_app)
        ]
        if not receivers:
            return
        whole = {**body, "repository": body.get("repository") or repository_json(self.world, repository)}
        owner = self.world.users[repository.owner_id]
        if owner.kind == "Organization":
            whole["organization"] = organization_json(self.world, owner)
        whole["sender"] = account_json(self.world, actor)
        for installation in receivers:
            short = {"id": installation.id, "node_id": node_id("Installation", installation.id)}
            self._send(installation, event, {**whole, "installation": short}, repository.id)

    def emit_installation(self, event: str, installation: Installation, actor: User, body: Json) -> None:
        """Sends an event about an installation to its App, which gets it without having subscribed."""
        whole = {**body, "sender": account_json(self.world, actor)}
        self._send(installation, event, whole, None)

    def ping(self, app: App) -> None:
        """The event a new hook gets first."""
        hook = {
            "type": "App",
            "id": app.hook_id,
            "name": "web",
            "active": True,
            "events": app.events,
            "app_id": app.id,
            "created_at": iso(app.created_at),
            "updated_at": iso(app.created_at),
            "config": {"content_type": "json", "insecure_ssl": "0", "url": app.webhook_url},
        }
        body = {"zen": "Keep it logically awesome.", "hook_id": app.hook_id, "hook": hook}
        self.outbox.add(app, self.outbox.new_delivery(app, "ping", body, None, None))

    def _send(self, installation: Installation, event: str, body: Json, repository_id: int | None) -> None:
        app = self.world.apps.get(installation.app_id)
        if app is not None and app.webhook_active:
            delivery = self.outbox.new_delivery(app, event, body, installation.id, repository_id)
            self.outbox.add(app, delivery)

    def note(
        self, issue: Issue, actor: User, text: str, event: str = "", label: tuple[str, str] = ("", "")
    ) -> None:
        """Adds a line to a conversation and touches the issue; with ``event`` it is one of the issue's events."""
        now = self.world.now()
        issue.updated_at = now
        issue.timeline.append(TimelineEntry(now, actor.id, text, self.world.new_id(), event, label))
