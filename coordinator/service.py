"""The coordinator service: assembles the adapters in one process, runs them, and shuts them down in order."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import numpy as np
import structlog

from coordinator.config import BrokerKind, CoordinatorConfig
from coordinator.engine.aggregation import with_bases
from coordinator.engine.clock import WallClock
from coordinator.engine.driver import Driver
from coordinator.engine.effects import EvaluateVersion
from coordinator.engine.inbox import Inbox, ShutdownRequested
from coordinator.engine.worker import Stores, WorkerProcess
from coordinator.mqtt.broker import check_port_free, choose
from coordinator.mqtt.broker_child import BrokerChild
from coordinator.mqtt.client import MqttTransport
from coordinator.ports import VersionRecord
from coordinator.storage.artifacts import open_artifacts
from coordinator.storage.backup import ARTIFACTS
from coordinator.storage.blobs import FileBlobs
from coordinator.storage.database import Database, DatabaseView
from coordinator.storage.engine import database_url
from coordinator.storage.fencing import LeadLostError, check_key
from coordinator.storage.lead import TURN_S, Lead
from coordinator.storage.lock import only_one
from coordinator.storage.model_folder import import_model
from coordinator.storage.recorder import Recorder
from coordinator.storage.signing_key import KeySigner, load_signer
from coordinator.storage.tokens import TokenTable
from coordinator.tls_service import TlsService
from coordinator.versions.rollout import Rollout, Stage
from coordinator.web.app import create_app
from coordinator.web.ports import WebPorts
from coordinator.web.server import serving
from host.systemd import ServiceManager, given_listener
from models.manifest import Manifest
from models.task_types import task_type
from wire.errors import ConfigError, UnavailableError
from wire.identifiers import Population
from wire.limits import HOUSEHOLD_WARNING

NOTHING_MEASURED = (
    "versions are not measured, so none is refused for being worse: set task.evaluation_text, or export the model "
    "again for the text that comes with it; measuring needs TensorFlow"
)
"""Logged if there is no evaluation text or no TensorFlow."""
NOT_RUNNING = "the driver is not running"
AWAKE_S = 1.0
"""Interval at which the main thread checks for a signal that was delivered to another thread."""

_log = structlog.get_logger("coordinator")


def serve(config: CoordinatorConfig) -> None:
    """Run until SIGTERM or SIGINT. Beside a coordinator on another host that leads, serve pages and artifacts only.

    Args:
        config: the whole configuration.

    Raises:
        ConfigError: a port, the model or the evaluation text cannot be used.
        UnavailableError: the disk, the database or the broker does not work.
    """
    with ExitStack() as stack:
        stack.enter_context(only_one(config.data_dir))
        if config.task.evaluation_text is None:
            _log.warning("gate_off", reason=NOTHING_MEASURED)
        clock = WallClock()
        signer = load_signer(config.data_dir)
        url = database_url(config)
        lead = Lead(url, _stop_at_once) if config.database_url else None
        if lead is not None:
            lead.start()
            stack.callback(lead.close)
        database = _open_database(url, lead)
        stack.callback(database.close)
        artifacts = open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, database)
        standing = _Standing(lead, database, signer)

        def take_the_lead() -> int | None:
            term = standing.begin()
            _import_once(config, database, artifacts, clock.now_s())
            _check_held_out(config, database, artifacts)
            _sweep(database)
            return term

        leads_at_once = standing.look()
        term = take_the_lead() if leads_at_once else None
        listener = given_listener(os.environ, config.host, config.port)
        if listener is None:
            check_port_free(config.host, config.port, "port", "stop what listens there, or give another port")
        secured = TlsService(config, database, clock, signer) if config.tls else None
        if secured is not None:
            stack.callback(secured.close)
        service_manager = ServiceManager(os.environ)
        leading = stack.enter_context(ExitStack())  # ends after the web server, whose requests the driver answers
        engine = _Engine()
        ports = WebPorts(
            config=config,
            repository=database,
            artifacts=artifacts,
            clock=clock,
            broker=choose(config.broker.kind),
            troubles=lambda: (
                ([] if standing.leader else engine.troubles())
                + standing.troubles()
                + (secured.troubles if secured else [])
            ),
            tokens=TokenTable(database),
            post=engine.post,
            leader=lambda: standing.leader,
            not_enforced=lambda: engine.driver.not_enforced if engine.driver else [],
            office=secured.office if secured else None,
        )
        app = create_app(ports)
        ours = config.broker.kind is not BrokerKind.EXTERNAL

        def serve_pages() -> None:
            if secured is None:
                stack.enter_context(serving(app, config.host, config.port, listener, config.trusted_proxy))
            else:
                stack.enter_context(secured.serving(app, listener))
            stack.callback(app.extensions["pulse"].close)  # closed before the server, which waits for open requests
            if secured is not None and not ours:
                stack.enter_context(secured.gate_kept(config.broker, None))

        if not leads_at_once:
            serve_pages()
            if not standing.wait_for_lead(service_manager):
                return
            term = take_the_lead()

        reached, reload_broker = config.broker, None
        if ours:
            broker = BrokerChild(
                config.broker,
                config.data_dir / "broker",
                secured.folder if secured else None,
                config.population,
                config.shards,
            )
            leading.callback(broker.close)
            reached, reload_broker = broker.service, broker.reload
        stores = Stores(
            artifacts=str(config.data_dir / ARTIFACTS),
            artifacts_url=config.artifacts_url,
            database_url=url,
            term=term,
        )
        worker = WorkerProcess(stores, config.data_dir / "worker.log", engine.post)
        leading.callback(worker.close)
        transport = MqttTransport(
            reached, Population(config.population), config.shards, engine.post, secured.context if secured else None
        )
        leading.callback(transport.close)
        generator = np.random.default_rng()  # jitter of retry times need not be reproducible
        driver = Driver(
            config,
            database,
            artifacts,
            transport,
            worker,
            clock,
            generator,
            signer,
            service_manager.turned,
            secured.enrolled_key if secured else lambda _device: None,
        )
        loop = _Loop(driver, standing.check)
        leading.callback(loop.stop)
        engine.start(driver, loop, transport)
        if leads_at_once:
            serve_pages()  # whatever is wrong at the start ends the process before it answers anybody
        if secured is not None and ours:
            leading.enter_context(secured.gate_kept(reached, reload_broker))
        recorder = Recorder(database, app.extensions["census"], clock)
        leading.callback(recorder.close)
        recorder.start()
        transport.start()

        def ready() -> None:
            if config.limits.household:
                _log.warning("household", means=HOUSEHOLD_WARNING)
            _log.info(
                "coordinator_ready",
                page=f"{config.page_url}/",
                broker=ports.broker,
                mqtt=f"{config.broker.host}:{config.broker.port}",
                population=config.population,
            )

        loop.run_until_signal(ready)
        service_manager.stopping()
        _log.info("coordinator_stopping")


def _open_database(url: str, lead: Lead | None) -> Database:
    """Open the database; only a leader brings its tables up to date, and others wait until they are."""
    if lead is None:
        return Database(url)
    said = ""
    while not lead.wait(TURN_S if said else 0):
        try:
            return Database(url, migrate=False)
        except (ConfigError, UnavailableError) as error:
            if not said:
                said = str(error)
                _log.warning("waiting_for_database", reason=said)
    return Database(url)


def _stop_at_once(reason: str) -> None:
    """End the process without any clean-up, in which it could still act as the leader; kills are always safe."""
    _log.error("lead_lost", reason=reason)
    os._exit(LeadLostError.exit_status)


class _Standing:
    """Whether this process leads, and who does otherwise; without ``lead`` there is no other process."""

    def __init__(self, lead: Lead | None, database: Database, signer: KeySigner) -> None:
        self._lead, self._database, self._signer = lead, database, signer
        self._host = socket.gethostname()
        self._known = [step.signer for step in signer.successions]
        self.leader = ""
        """Name of the leader's host; empty if this process leads."""

    def look(self) -> bool:
        """Find out who leads; returns whether this process does.

        Raises:
            ConfigError: devices do not know the signing key of this host.
            UnavailableError: the database cannot be read now.
        """
        if self._lead is None or self._lead.wait(0):
            return True
        found = self._database.leader()
        self.leader = found[0] if found else "nobody"
        if found:
            check_key(*found, self._host, self._signer.public, self._known)
        return False

    def wait_for_lead(self, service_manager: ServiceManager) -> bool:
        """Wait until this process leads; False if a signal ends it first."""
        if self._lead is None:
            return True
        _log.info("standing_by", leader=self.leader)
        with _noticed_signals() as over:
            while not (leads := self._lead.wait(AWAKE_S)) and not over.is_set():
                with contextlib.suppress(UnavailableError):
                    self.look()
                service_manager.turned(f"standing by: {self.leader} leads")
        return leads and not over.is_set()

    def begin(self) -> int | None:
        """Begin this process's term; None without other processes."""
        if self._lead is None:
            return None
        term = self._database.lead(self._host, self._signer.public, self._known)
        self.leader = ""
        _log.info("leading", term=term)
        return term

    def check(self) -> None:
        """End the process if it has lost the lead."""
        if self._lead is not None:
            self._lead.check()

    def troubles(self) -> list[str]:
        """Why the lead cannot be competed for."""
        return [f"the database: {self._lead.trouble}"] if self._lead is not None and self._lead.trouble else []


class _Engine:
    """The driver and its connection, once this process leads; adapters created before post nothing until then."""

    def __init__(self) -> None:
        self.driver: Driver | None = None
        self._loop: _Loop | None = None
        self._transport: MqttTransport | None = None

    def start(self, driver: Driver, loop: _Loop, transport: MqttTransport) -> None:
        self.driver, self._loop, self._transport = driver, loop, transport

    def post(self, event: Inbox) -> None:
        if self.driver is not None:
            self.driver.post(event)

    def troubles(self) -> list[str]:
        if self._loop is None or self._transport is None:
            return [NOT_RUNNING]
        return _troubles(self._loop, self._transport)


@contextlib.contextmanager
def _noticed_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, instead of ending the process."""
    over = threading.Event()
    former = {
        number: signal.signal(number, lambda _number, _frame: over.set()) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield over
    finally:  # a second ctrl-C ends the process at once
        for number, handler in former.items():
            signal.signal(number, handler)


class _Loop:
    """Runs the driver in its own thread while the main thread waits for its end or a signal."""

    def __init__(self, driver: Driver, awake: Callable[[], None]) -> None:
        self._driver, self._awake = driver, awake
        self._over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> str:
        return self._driver.trouble

    def run_until_signal(self, ready: Callable[[], None]) -> None:
        """Start the driver; return on a signal while the driver still runs, or raise the error that ended it.

        Args:
            ready: announces that the service is ready; from then on a signal shuts it down in order.
        """
        with _noticed_signals() as over:
            self._over = over
            ready()
            self._thread.start()
            # Wake periodically: a signal that was delivered while the process was frozen may land on another thread,
            # and Python runs handlers on the main thread only.
            while not over.wait(AWAKE_S):
                self._awake()
        self._raise()

    def stop(self) -> None:
        """Let the driver finish its work; the web server, whose requests it answers, has already stopped."""
        self._driver.post(ShutdownRequested())
        if self._thread.ident is not None:
            self._thread.join()
        self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            self._driver.run()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()


def _troubles(loop: _Loop, transport: MqttTransport) -> list[str]:
    troubles = []
    if not loop.running:
        troubles.append(NOT_RUNNING)
    if loop.trouble:
        troubles.append(f"nothing can be stored: {loop.trouble}")
    if transport.trouble:
        troubles.append(transport.trouble)
    return troubles


def _import_once(config: CoordinatorConfig, database: Database, artifacts: FileBlobs, now_s: float) -> None:
    with database.transaction() as tx:
        task = config.task
        current = tx.current_version(task.name)
        if current is not None:
            manifest = Manifest.decode(artifacts.get(current.manifest))
            stored = artifacts.put(with_bases(manifest, task.privacy, config.seed, artifacts).encode())
            tx.save_version(msgspec.structs.replace(current, manifest=stored))
            _measure_again(config, tx)
            return
        number = 0 if tx.current_version() is None else tx.last_version_number() + 1
        manifest = msgspec.structs.replace(import_model(task.model, artifacts), version=number)
        stored = artifacts.put(with_bases(manifest, task.privacy, config.seed, artifacts).encode())
        tx.add_version(
            VersionRecord(
                version=number,
                task=task.name,
                manifest=stored,
                created_s=now_s,
                rollout=Rollout(stage=Stage.CURRENT, reason="imported", since_s=now_s),
            )
        )
        _measure_again(config, tx)
    _log.info("model_imported", configuration=manifest.configuration, parameters=manifest.layout.size)


def _check_held_out(config: CoordinatorConfig, database: Database, artifacts: FileBlobs) -> None:
    """Read the evaluation text once: the worker reads it much later, and its faults are to be known now."""
    with database.transaction() as tx:
        current = tx.current_version(config.task.name)
    if current is not None and config.task.evaluation_text is not None:
        manifest = Manifest.decode(artifacts.get(current.manifest))
        task_type(manifest.task_type).check_held_out(config.task.evaluation_text)


def _measure_again(config: CoordinatorConfig, tx: DatabaseView) -> None:
    """Measure current versions again if the text changed: the gate compares versions on the same text."""
    text = config.task.evaluation_text
    if text is None:
        return
    sha256 = hashlib.sha256(text.read_bytes()).hexdigest()
    if sha256 == tx.held_out_text():
        return
    tx.save_held_out_text(sha256)
    for task in {config.task.name, *(record.name for record in tx.tasks())}:
        current = tx.current_version(task)
        if current is not None:
            tx.add_effect(EvaluateVersion(current.version))


def _sweep(database: Database) -> None:
    """Delete optimizer states whose versions were never stored because the process was killed in between."""
    with database.transaction() as tx:
        removed = tx.sweep_states()
    if removed:
        _log.info("states_deleted", states=removed)
