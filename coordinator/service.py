"""The coordinator service: assembles the adapters in one process, runs them, and shuts them down in order."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack

import numpy as np
import structlog

from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.engine.clock import SteadyClock
from nightjar.coordinator.engine.driver import Driver
from nightjar.coordinator.engine.loop import Loop, RunningDriver
from nightjar.coordinator.engine.settings_diff import note_settings
from nightjar.coordinator.engine.starting import prepare
from nightjar.coordinator.engine.worker import Stores, WorkerProcess
from nightjar.coordinator.mqtt.broker import choose
from nightjar.coordinator.mqtt.broker_child import BrokerChild
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.mqtt.listeners import check_port_free
from nightjar.coordinator.rate_limits import CutOff, DeviceRateLimits
from nightjar.coordinator.records.inbox import DeviceFlooded
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.census import Recorder
from nightjar.coordinator.storage.data_folder import look_over
from nightjar.coordinator.storage.drawing_key import load_draw_seeds
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.lead import LeaderElection, Leadership, open_database, stop_at_once
from nightjar.coordinator.storage.lock import only_one
from nightjar.coordinator.storage.pruner import Pruner
from nightjar.coordinator.storage.signing_key import load_signer
from nightjar.coordinator.storage.tokens import TokenTable
from nightjar.coordinator.tls_service import TlsService
from nightjar.coordinator.web.app import create_app
from nightjar.coordinator.web.ports import WebPorts
from nightjar.coordinator.web.server import asked_by_this_user, serving, serving_commands
from nightjar.host.systemd import ServiceManager, given_listener
from nightjar.wire.identifiers import Population
from nightjar.wire.limits import HOUSEHOLD_WARNING

NOTHING_MEASURED = (
    "versions are not measured, so none is refused for being worse: set task.evaluation_text, or export the model "
    "again for the text that comes with it; measuring needs TensorFlow"
)
"""Logged if there is no evaluation text or no TensorFlow."""

_log = structlog.get_logger("coordinator")


def serve(config: CoordinatorConfig, *, trust_clock: bool = False) -> None:
    """Run until SIGTERM or SIGINT. Beside a coordinator on another host that leads, serve pages and artifacts only.

    With ``trust_clock`` the machine's time is taken as right.

    Raises:
        ConfigError: a port, the model or the evaluation text cannot be used.
        UnavailableError: the disk, the database or the broker does not work.
    """
    with ExitStack() as stack:
        stack.enter_context(only_one(config.data_dir))
        look_over(config.data_dir, sqlite=not config.database_url)
        if config.task.evaluation_text is None:
            _log.warning("gate_off", reason=NOTHING_MEASURED)
        state = _State(config, stack, trust_clock=trust_clock)
        leads_at_once = state.leadership.look()
        term = state.take_the_lead() if leads_at_once else None
        site = _Site(state, stack)
        leading = stack.enter_context(ExitStack())  # ends after the web server, whose requests the driver answers
        if not leads_at_once:
            site.serve(stack)
            if not state.leadership.wait_for_lead(site.service_manager):
                return
            term = state.take_the_lead()
        driving = _Driving(state, site, term, leading)
        if leads_at_once:
            site.serve(stack)  # whatever is wrong at the start ends the process before it answers anybody
        driving.run(leading)


class _State:
    """What this process shares with its next start, and with other hosts."""

    def __init__(self, config: CoordinatorConfig, stack: ExitStack, *, trust_clock: bool) -> None:
        self.config, self.signer = config, load_signer(config.data_dir)
        self.url = database_url(config)
        election = LeaderElection(self.url, stop_at_once) if config.database_url else None
        if election is not None:
            election.start()
            stack.callback(election.close)
        self.database = open_database(self.url, election)
        stack.callback(self.database.close)
        with self.database.transaction() as view:
            newest_s = view.trusted_time()
        self.clock = SteadyClock(newest_s, self._save_time, trust=trust_clock)
        self.artifacts = open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, self.database)
        self.leadership = Leadership(election, self.database, self.signer)

    def _save_time(self, seconds: float) -> None:
        with self.database.transaction() as view:
            view.save_trusted_time(seconds)

    def take_the_lead(self) -> int | None:
        """Begin a term, and make the database ready for it; None where no other host can lead."""
        term = self.leadership.begin()
        note_settings(self.config, self.database, self.clock.now_s())
        prepare(self.config, self.database, self.artifacts, self.clock.now_s())
        return term


class _Site:
    """Pages, API, artifacts and enrolment: before this process leads, and while it does."""

    def __init__(self, state: _State, stack: ExitStack) -> None:
        self._config = config = state.config
        self._listener = given_listener(os.environ, config.host, config.port)
        if self._listener is None:
            check_port_free(config.host, config.port, "port", "stop what listens there, or give another port")
        self.running = running = RunningDriver()

        def flooded(cut_off: CutOff) -> None:
            running.post(DeviceFlooded(cut_off.device, cut_off.lasts_s))
            if self.secured is not None:
                self.secured.look_now()

        self.limits = limits = DeviceRateLimits(time.monotonic, flooded)
        self.secured = secured = (
            TlsService(config, state.database, state.clock, state.signer, limits, state.clock.distrust)
            if config.tls
            else None
        )
        if secured is not None:
            stack.callback(secured.close)
        self.service_manager = ServiceManager(os.environ)
        self.pruner: Pruner | None = None
        self.broker, self.own_broker = choose(config.broker.kind), config.broker.kind is not BrokerKind.EXTERNAL
        leadership = state.leadership
        ports = WebPorts(
            config=config,
            repository=state.database,
            artifacts=state.artifacts,
            clock=state.clock,
            broker=self.broker,
            troubles=lambda: (
                ([] if leadership.leader else running.troubles())
                + leadership.troubles()
                + (secured.troubles if secured else [])
            ),
            tokens=TokenTable(state.database),
            post=running.post,
            leader=lambda: leadership.leader,
            distrust=state.clock.distrust,
            disk=lambda: self.pruner.disk if self.pruner else None,
            not_pruned=lambda: self.pruner.trouble if self.pruner else "",
            not_enforced=lambda: running.driver.not_enforced if running.driver else [],
            issuer=secured.issuer if secured else None,
            limits=limits,
            local_user=asked_by_this_user,
        )
        self.app = create_app(ports)

    def serve(self, stack: ExitStack) -> None:
        """Answer requests until the stack closes."""
        config = self._config
        if self.secured is None:
            stack.enter_context(serving(self.app, config.host, config.port, self._listener, config.trusted_proxy))
        else:
            stack.enter_context(self.secured.serving(self.app, self._listener))
        stack.enter_context(serving_commands(self.app, config.data_dir))
        stack.callback(self.app.extensions["pulse"].close)  # closed before the server, which waits for open requests
        if self.secured is not None and not self.own_broker:
            stack.enter_context(self.secured.enforcing_revocations(config.broker, None))


class _Driving:
    """The driver, with the broker, the worker and the transport that it uses."""

    def __init__(self, state: _State, site: _Site, term: int | None, leading: ExitStack) -> None:
        self._state, self._site = state, site
        config, secured, post = state.config, site.secured, site.running.post
        self._reached, self._reload = config.broker, None
        if site.own_broker:
            folder, certificates = config.data_dir / "broker", secured.folder if secured else None
            broker = BrokerChild(config.broker, folder, certificates, config.population, config.shards, site.limits.cut)
            leading.callback(broker.close)
            self._reached, self._reload = broker.service, broker.reload
        stores = Stores(
            artifacts=str(config.data_dir / ARTIFACTS),
            artifacts_url=config.artifacts_url,
            database_url=state.url,
            term=term,
        )
        worker = WorkerProcess(stores, config.data_dir / "worker.log", post)
        leading.callback(worker.close)
        tls = secured.context if secured else None
        self._transport = transport = MqttSessions(
            self._reached,
            Population(config.population),
            config.shards,
            post,
            tls,
            site.limits.admits,
            site.limits.is_cut_off,
        )
        leading.callback(transport.close)
        driver = Driver(
            config,
            state.database,
            state.artifacts,
            transport,
            worker,
            state.clock,
            np.random.default_rng(),  # jitter of retry times need not be reproducible
            state.signer,
            site.service_manager.turned,
            secured.issuer.register.enrolled_key if secured else lambda _device: None,
            load_draw_seeds(config.data_dir),
        )
        self._loop = Loop(driver, state.leadership.check)
        leading.callback(self._loop.stop)
        site.running.start(driver, self._loop, lambda: transport.trouble)

    def run(self, leading: ExitStack) -> None:
        """Lead until a signal."""
        site = self._site
        if site.secured is not None and site.own_broker:
            leading.enter_context(site.secured.enforcing_revocations(self._reached, self._reload))
        site.pruner = pruner = Pruner(
            self._state.database,
            self._state.artifacts,
            self._state.config.retention,
            self._state.config.data_dir,
            self._state.clock.trusted_s,
            self._state.clock.keep,
        )
        leading.callback(pruner.close)
        pruner.start()
        recorder = Recorder(self._state.database, site.app.extensions["census"], self._state.clock)
        leading.callback(recorder.close)
        recorder.start()
        self._transport.start()
        self._loop.run_until_signal(self._say_ready)
        site.service_manager.stopping()
        _log.info("coordinator_stopping")

    def _say_ready(self) -> None:
        config = self._state.config
        if config.limits.household:
            _log.warning("household", means=HOUSEHOLD_WARNING)
        _log.info(
            "coordinator_ready",
            page=f"{config.page_url}/",
            broker=self._site.broker,
            mqtt=f"{config.broker.host}:{config.broker.port}",
            population=config.population,
        )
