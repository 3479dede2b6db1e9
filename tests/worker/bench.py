"""The worker's pieces on a simulated GitHub and sandboxes in memory; the test turns the handle and the clock."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic_core import to_json
from sqlalchemy import select

from app.db.artifacts import record_chunk, record_current, record_upload
from app.db.deliveries import NewDelivery, record_deliveries
from app.db.effects import list_due_effects
from app.db.engine import Database
from app.db.intake import list_waiting
from app.db.models import Delivery, Message, Sandbox, Spec
from app.db.sandboxes import set_sandbox
from app.db.specs import list_due, record_fact
from app.domain.ids import DeliveryId, SandboxId
from app.domain.ports import SandboxOrder
from sandbox_payload.wire import RESULT_REF
from simulators.github.control import Control
from tests.worker.sandboxes import ScriptedSandboxes
from worker.effects import Effects
from worker.engine import Engine
from worker.intake import Intake
from worker.parts import Parts
from worker.supervise.sandboxes import SandboxRounds

LABEL = "agent:quick"


@dataclass
class Clock:
    """Real time plus what a test adds; `heard` is told of each addition (seconds)."""

    ahead: timedelta = timedelta()
    heard: list[Callable[[float], object]] = field(default_factory=list)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def add(self, seconds: float) -> None:
        self.ahead += timedelta(seconds=seconds)
        for tell in self.heard:
            tell(seconds)

    @property
    def far(self) -> datetime:
        """A time that no test reaches."""
        return self() + timedelta(days=365)

    async def sleep(self, seconds: float) -> None:
        """Passes the time instead of waiting."""
        self.add(seconds)


@dataclass
class Bench:
    github: Control
    name: str
    repo_id: int
    path: Path
    """The repository on GitHub's own disk."""
    installation_id: int
    parts: Parts
    sandboxes: ScriptedSandboxes
    clock: Clock
    scratch: Path
    app_id: int
    seen: set[str] = field(default_factory=set)
    """GUIDs of what GitHub sent and the bench took; `newest` is the last of their ids."""
    newest: int = 0
    _looked_at: timedelta | None = None

    @property
    def db(self) -> Database:
        return self.parts.db

    def another_worker(self) -> Parts:
        """As another process has it: the same database and world, another name."""
        return replace(self.parts, worker_id=f"{self.parts.worker_id}-2")

    # ------------------------------------------------------------ people

    def open_issue(self, title: str = "Do it", by: str = "alice") -> int:
        return int(self.github.open_issue(self.name, by, title, "Please.")["number"])

    def label(self, number: int, by: str = "alice") -> None:
        self.github.add_labels(self.name, number, by, LABEL)

    def unlabel(self, number: int, by: str = "alice") -> None:
        self.github.remove_label(self.name, number, by, LABEL)

    # ------------------------------------------------------------ the handle

    def new_deliveries(self) -> list[dict[str, Any]]:
        """What GitHub sent about this repository since the last call, oldest first."""
        listed = self.github.deliveries(repository_id=self.repo_id, after=self.newest)
        found = [one for one in listed if one["guid"] not in self.seen]
        self.newest = max([self.newest, *(one["id"] for one in listed)])
        self.seen |= {one["guid"] for one in found}
        return found

    async def receive(self, deliveries: Sequence[dict[str, Any]], suffix: str = "") -> None:
        """As the web process stores them; `kept_headers` of one are those it came with."""
        await record_deliveries(
            self.db,
            [
                NewDelivery(
                    DeliveryId(one["guid"] + suffix), one["event"], one.get("kept_headers", {}),
                    json.dumps(one["payload"]).encode(), self.clock() + timedelta(microseconds=position),
                )
                for position, one in enumerate(deliveries)
            ],
        )  # fmt: skip

    async def take_in(self) -> None:
        """Every delivery that waits now."""
        async with self.db.read() as session:
            waiting = await list_waiting(session, self.clock())
        await self._handle(waiting)

    async def _handle(self, waiting: Sequence[str]) -> None:
        intake = Intake(self.parts)
        for delivery_id in waiting:
            await intake.take_in(delivery_id)

    async def turn(self, *, listen: bool = True) -> bool:
        """Everything that is due now, once, with what GitHub sent if `listen`. False when nothing was."""
        engine, effects = Engine(self.parts), Effects(self.parts)
        if listen:
            await self.receive(self.new_deliveries())
        async with self.db.read() as session:
            waiting = await list_waiting(session, self.clock())
            owed = await list_due_effects(session, self.clock())
            due = await list_due(session, self.clock())
        await self._handle(waiting)
        if self._looked_at != self.clock.ahead:  # a round comes again after twelve seconds only
            self._looked_at = self.clock.ahead
            await SandboxRounds(self.parts).look()
        for effect_id in owed:
            await effects.perform(effect_id)
        for spec_id in due:
            await engine.advance(spec_id)
        return bool(waiting or owed or due)

    async def rest(self, limit: int = 40, *, listen: bool = True) -> None:
        """Until nothing is due at this moment."""
        for _ in range(limit):
            if not await self.turn(listen=listen):
                return
        raise AssertionError(f"still busy after {limit} turns")

    async def pass_time(self, seconds: float, step_s: float = 5.0) -> None:
        """Let the clock run, turning the handle as the sweep does. What people did before is heard of first."""
        left = seconds
        await self.receive(self.new_deliveries())
        while left > 0:
            self.clock.add(min(step_s, left))
            left -= step_s
            await self.rest(listen=False)

    # ------------------------------------------------------------ reading

    async def specs(self) -> list[Spec]:
        async with self.db.read() as session:
            found = await session.execute(
                select(Spec).where(Spec.repo_id == self.repo_id).order_by(Spec.created_at)
            )
            return list(found.scalars())

    async def spec(self) -> Spec:
        found = await self.specs()
        assert len(found) == 1, f"{len(found)} specs"
        return found[0]

    async def boxes(self) -> list[Sandbox]:
        async with self.db.read() as session:
            return list((await session.execute(select(Sandbox).order_by(Sandbox.attempt))).scalars())

    async def deliveries(self) -> list[Delivery]:
        async with self.db.read() as session:
            return list((await session.execute(select(Delivery).order_by(Delivery.received_at))).scalars())

    async def messages(self) -> list[Message]:
        async with self.db.read() as session:
            return list((await session.execute(select(Message).order_by(Message.created_at))).scalars())

    def writes(self) -> list[dict[str, Any]]:
        return [one for one in self.github.writes() if f"/{self.name}" in one["path"]]

    def comments(self, number: int) -> list[str]:
        return [str(one["body"]) for one in self.github.issue(self.name, number)["comment_list"]]

    def status(self, number: int) -> str:
        found = [text for text in self.comments(number) if "part=status" in text]
        assert len(found) == 1, found
        return found[0]

    def branches(self) -> set[str]:
        refs = self.github.refs(self.name)
        return {ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/")}

    # ------------------------------------------------------------ the agent

    def _order(self, of: str | None) -> SandboxOrder:
        """Of the sandbox with that name; with None, of the newest."""
        return self.sandboxes.orders[of] if of is not None else self.sandboxes.newest

    def git(self, *arguments: str) -> str:
        """In the repository as GitHub has it."""
        return self._git(self.path, *arguments).decode()

    def commit(
        self, text: str = "work\n", *, of: str | None = None, file: str = "work.txt"
    ) -> tuple[str, bytes]:
        """What an agent in a sandbox commits; (its head, the bundle)."""
        order = self._order(of)
        tree = self.scratch / f"tree-{order.sandbox_id}"
        if not tree.exists():
            self._git(self.scratch, "clone", "-q", "--no-checkout", str(self.path), str(tree))
            self._git(tree, "checkout", "-q", "-b", "agent", order.start_sha)
        (tree / file).write_text(text)
        self._git(tree, "add", "-A")
        self._git(
            tree, "-c", "user.name=agent", "-c", "user.email=agent@localhost", "commit", "-qm", "Do the work"
        )
        head = self._git(tree, "rev-parse", "HEAD").decode().strip()
        self._git(tree, "update-ref", RESULT_REF, head)
        bundle = tree.with_suffix(".bundle")
        self._git(tree, "bundle", "create", "-q", str(bundle), RESULT_REF, f"^{order.start_sha}")
        return head, bundle.read_bytes()

    def _git(self, where: Path, *arguments: str) -> bytes:
        environment = {
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "HOME": "/nonexistent",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        return subprocess.run(
            ["git", *arguments], cwd=where, env=environment, check=True, capture_output=True, timeout=30
        ).stdout

    async def upload(self, name: str, data: bytes, *, of: str | None = None) -> None:
        sandbox_id = SandboxId(self._order(of).sandbox_id)
        async with self.db.write() as session:
            digest = hashlib.sha256(data).hexdigest()
            artifact = await record_upload(session, sandbox_id, name, digest, self.clock())
            await record_chunk(session, artifact, 0, data)
            await record_current(session, sandbox_id, name, artifact, len(data))

    async def checkpoint(self, text: str = "half\n") -> str:
        head, bundle = self.commit(text)
        await self.upload("checkpoint.bundle", bundle)
        return head

    async def hand_in(
        self,
        round_: int = 1,
        text: str = "work\n",
        *,
        of: str | None = None,
        file: str = "work.txt",
        kept_bytes: int | None = None,
        **manifest: Any,
    ) -> str:
        """A whole result of a sandbox, as the web process takes it in; the commit's sha. Of its bundle only the first
        `kept_bytes`, where they are given.
        """
        order = self._order(of)
        head, bundle = self.commit(text, of=of, file=file)
        bundle = bundle[:kept_bytes]
        fields: dict[str, Any] = {
            "sandbox_id": order.sandbox_id, "round": round_, "start_sha": order.start_sha, "head_sha": head,
            "bundle_sha256": hashlib.sha256(bundle).hexdigest(), "status": "completed", "summary": "Done it.",
            "finished_at": self.clock(),
        }  # fmt: skip
        await self.upload("result.bundle", bundle, of=of)
        await self.upload("manifest.json", to_json({**fields, **manifest}), of=of)
        async with self.db.write() as session:
            await set_sandbox(
                session, order.sandbox_id, self.clock(), manifest_round=round_, activity="waiting"
            )
            await record_fact(session, str(order.labels["spec"]), self.clock())
        return head

    async def report(self, tools: int, **values: Any) -> None:
        """Progress events of the newest sandbox, as the web process counts them, with the wake-up."""
        order = self.sandboxes.newest
        async with self.db.write() as session:
            await set_sandbox(
                session, order.sandbox_id, self.clock(), tools=tools, activity="working",
                last_heartbeat_at=self.clock(), last_work_at=self.clock(), **values,
            )  # fmt: skip
            await record_fact(session, str(order.labels["spec"]), self.clock())
