"""The worker's composition root: makes the parts, runs the arq worker and the sweep side by side."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from sqlalchemy.exc import SQLAlchemyError

from app import __version__
from app.db.accounts import StoredAccounts
from app.db.cipher import Cipher
from app.db.engine import Database
from app.db.host import host_id
from app.db.pace import DatabasePace
from app.db.processes import forget_processes, record_beat
from app.db.relay import RelayedSandbox
from app.domain.errors import OutsideError
from app.domain.labels import LabelNames
from app.domain.model_price import price_of
from app.domain.remote import KeepsFiles, RelayFiles
from app.domain.spare import HandOver, KeepsSpare
from app.domain.supervision import Thresholds
from app.domain.supply import Supply
from app.github.access import GitHubAccess
from app.github.clients import CallSeen
from app.github.gateway import GitHubGateway
from app.github.instance import instance_name, sandbox_token_key
from app.observability.crashpoints import arm, crashpoint
from app.observability.redaction import register_secret
from app.queue.bell import Bell
from app.queue.consumer import Consumer
from app.queue.jobs import JobName
from app.sandbox.select import make_sandboxes
from app.settings import Settings
from app.web.sockets import GATEWAY_SOCKET, gateway_dir
from worker.effects import Effects
from worker.engine import Engine
from worker.flow.order import sandbox_token, usual_size
from worker.intake import Intake
from worker.parts import Limits, ModelKeys, Parts, VerdictRules
from worker.supervise.app_door import AppDoor
from worker.supervise.carrier import Carrier
from worker.supervise.conductor import Conductor
from worker.supervise.guardian import Guardian
from worker.supervise.live_look import LiveLook
from worker.supervise.missed_deliveries import MissedDeliveries
from worker.supervise.relay import Relays
from worker.supervise.reservations import settle_left_reservations
from worker.supervise.retention import Retention
from worker.supervise.sandboxes import SandboxRounds
from worker.supervise.sweep import SLOTS, Sweep
from worker.supervise.takeover import make_worker_id, release_dead_holders
from worker.supervise.verdicts import Verdicts
from worker.wind_down import wind_down

log = structlog.get_logger("worker.main")

BEAT_S = 10.0
CARE_S = 15.0
LOOK_BACK_S = 30.0
GUARD_S = 3.0


def utc_now() -> datetime:
    return datetime.now(UTC)


def make_parts(settings: Settings) -> Parts:
    """Everything the worker's pieces need, from checked settings (`require_github` has passed)."""
    db = Database(settings.database)
    pem = settings.private_key_pem or ""
    access = GitHubAccess(settings.github_api_url, settings.github_url, settings.github_app_id or 0, pem)
    github = GitHubGateway(access, utc_now, DatabasePace(db, utc_now), _count)
    home, cipher = settings.issuewright_home, Cipher(settings.credential_keys)
    machine = host_id(home)
    # All workers of one App derive the same sandbox tokens and carry the same owner label.
    instance = instance_name(access)
    model_key = settings.anthropic_api_key.get_secret_value() if settings.anthropic_api_key else ""
    is_default_upstream = settings.anthropic_base_url == "https://api.anthropic.com"
    return Parts(
        db=db,
        github=github,
        sandboxes=make_sandboxes(
            settings.provider,
            home,
            gateway_dir(home),
            settings,
            instance,
            StoredAccounts(db, cipher, register_secret),
        ),
        clock=utc_now,
        labels=LabelNames(
            settings.label_agent, settings.label_plan, settings.label_quick, settings.label_approved
        ),
        limits=_limits(settings),
        home=home,
        host_id=machine,
        worker_id=make_worker_id(machine),
        instance=instance,
        web_url=settings.github_url,
        token_key=sandbox_token_key(pem),
        model_ready=bool(model_key or settings.daytona_model_secret) or not is_default_upstream,
        model_keys=_model_keys(settings, cipher) if settings.provider == "daytona" else None,
        verdict_rules=_verdict_rules(settings, cipher),
        secrets=tuple(filter(None, (model_key, *(one.decode() for one in settings.webhook_secrets)))),
        lease=timedelta(seconds=settings.lease_s),
        keep_events=timedelta(days=settings.retention_days) if settings.retention_days else None,
    )


def _model_keys(settings: Settings, cipher: Cipher) -> ModelKeys:
    key = settings.anthropic_api_key
    return ModelKeys(
        cipher=cipher,
        base_url=settings.anthropic_base_url,
        operators=key.get_secret_value() if key else "",
        may_enter=settings.model_key_in_sandbox,
    )


def _verdict_rules(settings: Settings, cipher: Cipher) -> VerdictRules | None:
    if not settings.guardian_model:
        return None
    key = settings.anthropic_api_key
    return VerdictRules(
        model=settings.guardian_model,
        price=price_of(settings.guardian_model, settings.prices),
        every=settings.guardian_model_every,
        budget_usd=settings.guardian_model_budget_usd,
        cipher=cipher,
        base_url=settings.anthropic_base_url,
        operators=key.get_secret_value() if key else "",
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        memory_gb=settings.sandbox_memory_gb,
        cpu=settings.sandbox_cpu,
        disk_gb=settings.sandbox_disk_gb,
        model=settings.model,
        models=settings.allowed_models,
        max_budget_usd=settings.max_budget_usd,
        max_turns=settings.max_turns,
        task_timeout_s=settings.task_timeout_s,
        idle_s=settings.idle_s,
        allow_hosts=settings.allow_hosts,
        permission_mode=settings.permission_mode,
        memory_max_gb=settings.sandbox_memory_max_gb,
        restarts=settings.sandbox_restarts,
        thresholds=Thresholds(
            silent=timedelta(seconds=settings.sandbox_silent_s),
            idle=timedelta(seconds=settings.sandbox_stalled_s),
            between_phases=timedelta(seconds=settings.sandbox_phase_gap_s),
            absent=timedelta(seconds=settings.sandbox_absent_s),
            waiting=timedelta(seconds=settings.idle_s),
        ),
        supply=Supply(settings.max_sandboxes, settings.spec_budget_usd, settings.repository_day_budget_usd),
    )


def _count(call: CallSeen) -> None:
    log.debug("github.called", installation_id=call.installation_id, write=call.write, status=call.status)


class WorkerProcess:
    """One worker process: arq (when there is a Redis), the sweep, the heartbeat, the care for orphans."""

    def __init__(
        self, parts: Parts, redis_url: str | None, *, own_sandboxes: bool, app_url: str = ""
    ) -> None:
        """`app_url`: where the web process is reached from here, for calls that are made for sandboxes."""
        self._bell = Bell(redis_url)
        asks_for_them = isinstance(parts.sandboxes, RelayFiles | KeepsFiles)
        self._door = AppDoor(gateway_dir(parts.home) / GATEWAY_SOCKET, app_url) if asks_for_them else None
        self._parts = parts = replace(parts, ring=self._bell.ring, door=self._door)
        self._redis_url = redis_url
        self._own_sandboxes = own_sandboxes
        self._engine = Engine(parts)
        self._intake = Intake(parts)
        self._effects = Effects(parts)
        self._sweep = Sweep(parts, self._engine, self._intake, self._effects)

    async def run(self) -> None:
        """Until SIGTERM or SIGINT. With `own_sandboxes` (one-machine production) its sandboxes wrap up first."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        await self._take_over()
        tasks = [asyncio.create_task(job) for job in self._jobs()]
        if not self._parts.model_ready:
            log.warning("model.missing", detail="ANTHROPIC_API_KEY is not set: agents can't work")
        log.info("worker.started", provider=self._parts.sandboxes.kind, redis=self._redis_url is not None)
        warming = asyncio.create_task(self._warm_up())
        waiter = asyncio.create_task(stopping.wait())
        done, _ = await asyncio.wait({waiter, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in (waiter, warming, *tasks):
            task.cancel()
        await asyncio.gather(waiter, warming, *tasks, return_exceptions=True)
        await self._sweep.stop()
        if self._own_sandboxes:
            await wind_down(self._parts)
        await self._bell.aclose()
        if self._door is not None:
            await self._door.aclose()
        await self._parts.github.aclose()
        await self._parts.sandboxes.aclose()
        await self._parts.db.aclose()
        log.info("worker.stopped")
        for task in done - {waiter}:
            task.result()

    def _jobs(self) -> list[Coroutine[Any, Any, None]]:
        """All that runs side by side until the worker ends."""
        jobs = [
            self._sweep.run(),
            self._beat(),
            self._care(),
            self._look_back(),
            self._guard(),
        ]
        if self._parts.verdict_rules is not None:
            jobs.append(self._ask_model(self._parts.verdict_rules))
        if isinstance(self._parts.sandboxes, RelayFiles) and self._door is not None:
            jobs.append(self._carry(self._parts.sandboxes, self._door))
        if isinstance(self._parts.sandboxes, KeepsSpare):
            points = HandOver(lambda: crashpoint("spare.before"), lambda: crashpoint("spare.after"))
            jobs.append(self._parts.sandboxes.keep_spare(usual_size(self._parts.limits), points))
        if self._redis_url is not None:
            jobs.append(self._listen(self._redis_url))
        return jobs

    async def _warm_up(self) -> None:
        """What the first label would wait for. A sandbox that can't work is told when one is wanted."""
        await asyncio.to_thread(self._parts.github.warm_up)
        await self._parts.sandboxes.probe()

    async def _take_over(self) -> None:
        try:
            await release_dead_holders(self._parts)
        except (SQLAlchemyError, OSError) as error:
            log.warning("takeover.failed", error=type(error).__name__)

    async def _listen(self, url: str) -> None:
        """The prompt path: rings. Whatever it dies of, the sweep goes on and a new listener is made."""
        jobs = {
            JobName.ADVANCE: self._advance,
            JobName.INTAKE: self._sweep.hear,
            JobName.PERFORM: self._perform,
        }
        while True:
            try:
                await Consumer(url, jobs, self._parts.worker_id, max_jobs=3 * SLOTS).run()
            except Exception as error:  # noqa: BLE001 - the boundary to arq and Redis
                log.warning("redis.lost", error=type(error).__name__, detail=str(error)[:200])
            await asyncio.sleep(1)

    async def _advance(self, spec_id: str) -> None:
        await self._engine.advance(spec_id)

    async def _perform(self, effect_id: str) -> None:
        await self._effects.perform(effect_id)

    async def _beat(self) -> None:
        parts = self._parts
        while True:
            try:
                async with parts.db.write() as session:
                    await record_beat(
                        session,
                        parts.worker_id,
                        "worker",
                        parts.host_id,
                        os.getpid(),
                        __version__,
                        parts.clock(),
                    )
                    await forget_processes(session, parts.clock() - timedelta(days=1))
            except (SQLAlchemyError, OSError) as error:
                log.warning("beat.failed", error=type(error).__name__)
            await asyncio.sleep(BEAT_S)

    async def _care(self) -> None:
        """What was left behind, and sandboxes in trouble. Each round is one worker's at a time."""
        parts, rounds = self._parts, SandboxRounds(self._parts)
        while True:
            await asyncio.sleep(CARE_S)
            try:
                await release_dead_holders(parts)
                await settle_left_reservations(parts)
                await rounds.look()
            except (SQLAlchemyError, OutsideError, OSError) as error:
                log.warning("care.failed", error=type(error).__name__)

    async def _guard(self) -> None:
        """Over running agents: a loop is to be broken within seconds."""
        guardian = Guardian(self._parts)
        while True:
            await asyncio.sleep(GUARD_S)
            try:
                await guardian.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("guardian.failed", error=type(error).__name__)

    async def _ask_model(self, rules: VerdictRules) -> None:
        """Beside the guardian, which does not wait for a model."""
        verdicts = Verdicts(self._parts, rules)
        try:
            while True:
                await asyncio.sleep(GUARD_S)
                try:
                    await verdicts.look()
                except (SQLAlchemyError, OSError) as error:
                    log.warning("verdicts.failed", error=type(error).__name__)
        finally:
            await verdicts.aclose()

    async def _carry(self, files: RelayFiles, door: AppDoor) -> None:
        """For sandboxes that can't reach the app."""
        parts = self._parts
        scratch = parts.home / "relay"

        def make(one: RelayedSandbox) -> Carrier:
            return Carrier(one, sandbox_token(parts.token_key, one.sandbox_id), files, door, scratch)

        await Relays(parts, make, scratch).run()

    async def _look_back(self) -> None:
        """What GitHub could not tell: failed deliveries are asked for again, live state is compared. Each look keeps
        its own pace, and one worker at a time has it.
        """
        parts = self._parts
        looks = (MissedDeliveries(parts), LiveLook(parts), Retention(parts), Conductor(parts))
        while True:
            for one in looks:
                try:
                    await one.look()
                except (SQLAlchemyError, OutsideError, OSError) as error:
                    log.warning("look.failed", look=type(one).__name__, error=str(error)[:200])
            await asyncio.sleep(LOOK_BACK_S)


def run_worker(settings: Settings, redis_url: str | None, *, own_sandboxes: bool = False) -> None:
    """Blocking; returns after a clean stop."""
    arm(settings.crash_points, settings.issuewright_home)
    parts = make_parts(settings)
    process = WorkerProcess(parts, redis_url, own_sandboxes=own_sandboxes, app_url=settings.base_url)
    asyncio.run(process.run())
