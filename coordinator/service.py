"""The coordinator service: assembles the adapters in one process, runs them, and shuts them down in order."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack

import msgspec
import numpy as np
import structlog

from coordinator.config import BrokerKind, CoordinatorConfig
from coordinator.engine.aggregation import with_mask
from coordinator.engine.clock import WallClock
from coordinator.engine.driver import Driver
from coordinator.engine.effects import EvaluateVersion
from coordinator.engine.inbox import Inbox, ShutdownRequested
from coordinator.engine.worker import WorkerProcess
from coordinator.mqtt.broker import EXTERNAL, check_port_free
from coordinator.mqtt.broker_child import BrokerChild
from coordinator.mqtt.client import MqttTransport
from coordinator.ports import VersionRecord
from coordinator.storage.blobs import FileBlobs
from coordinator.storage.database import Database, DatabaseView, database_url
from coordinator.storage.lock import only_one
from coordinator.storage.model_folder import import_model
from coordinator.storage.recorder import Recorder
from coordinator.storage.signing_key import load_signer
from coordinator.storage.tokens import TokenTable
from coordinator.tls_service import TlsService
from coordinator.versions.rollout import Rollout, Stage
from coordinator.web.app import create_app
from coordinator.web.ports import WebPorts
from coordinator.web.server import serving
from host.systemd import ServiceManager, given_listener
from models.manifest import Manifest
from models.task_types import task_type
from wire.identifiers import Population
from wire.limits import HOUSEHOLD_WARNING

NOTHING_MEASURED = (
    "versions are not measured, so none is refused for being worse: set task.evaluation_text, or export the model "
    "again for the text that comes with it; measuring needs TensorFlow"
)
"""Logged if there is no evaluation text or no TensorFlow."""
AWAKE_S = 1.0
"""Interval at which the main thread checks for a signal that was delivered to another thread."""

_log = structlog.get_logger("coordinator")


def serve(config: CoordinatorConfig) -> None:
    """Run until SIGTERM or SIGINT.

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
        artifacts = FileBlobs(config.data_dir / "artifacts")
        database = Database(database_url(config))
        stack.callback(database.close)
        clock = WallClock()
        signer = load_signer(config.data_dir)
        _import_once(config, database, artifacts, clock.now_s())
        _check_held_out(config, database, artifacts)
        _sweep(database)
        listener = given_listener(os.environ, config.host, config.port)
        if listener is None:
            check_port_free(config.host, config.port, "port", "stop what listens there, or give another port")
        secured = TlsService(config, database, clock, signer) if config.tls else None
        if secured is not None:
            stack.callback(secured.close)

        broker_name, reached, reload_broker = EXTERNAL, config.broker, None
        if config.broker.kind is not BrokerKind.EXTERNAL:
            broker = BrokerChild(
                config.broker,
                config.data_dir / "broker",
                secured.folder if secured else None,
                config.population,
                config.shards,
            )
            stack.callback(broker.close)
            broker_name, reached, reload_broker = broker.name, broker.service, broker.reload

        later = _Later()
        worker = WorkerProcess(
            config.data_dir / "artifacts",
            database_url(config),
            config.data_dir / "worker.log",
            later.post,
        )
        stack.callback(worker.close)
        transport = MqttTransport(
            reached, Population(config.population), config.shards, later.post, secured.context if secured else None
        )
        stack.callback(transport.close)
        generator = np.random.default_rng()  # jitter of retry times need not be reproducible
        service_manager = ServiceManager(os.environ)
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
        later.target = driver.post

        loop = _Loop(driver)
        stack.callback(loop.stop)
        ports = WebPorts(
            config=config,
            repository=database,
            artifacts=artifacts,
            clock=clock,
            broker=broker_name,
            troubles=lambda: _troubles(loop, transport) + (secured.troubles if secured else []),
            tokens=TokenTable(database),
            post=driver.post,
            not_enforced=lambda: driver.not_enforced,
            office=secured.office if secured else None,
        )
        app = create_app(ports)
        recorder = Recorder(database, app.extensions["census"], clock)
        stack.callback(recorder.close)
        if secured is None:
            stack.enter_context(serving(app, config.host, config.port, listener, config.trusted_proxy))
        else:
            stack.enter_context(secured.serving(app, listener))
            stack.enter_context(secured.gate_kept(reached, reload_broker))
        stack.callback(app.extensions["pulse"].close)  # closed before the server, which waits for open requests
        recorder.start()
        transport.start()

        def ready() -> None:
            if config.limits.household:
                _log.warning("household", means=HOUSEHOLD_WARNING)
            _log.info(
                "coordinator_ready",
                page=f"{config.page_url}/",
                broker=broker_name,
                mqtt=f"{config.broker.host}:{config.broker.port}",
                population=config.population,
            )

        loop.run_until_signal(ready)
        service_manager.stopping()
        _log.info("coordinator_stopping")


class _Later:
    """Passes events to the driver, for adapters created before it; they post nothing until they are started."""

    def __init__(self) -> None:
        self.target: Callable[[Inbox], None] | None = None

    def post(self, event: Inbox) -> None:
        if self.target is not None:
            self.target(event)


class _Loop:
    """Runs the driver in its own thread while the main thread waits for its end or a signal."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
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
        former = {
            number: signal.signal(number, lambda _number, _frame: self._over.set())
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            ready()
            self._thread.start()
            # Wake periodically: a signal that was delivered while the process was frozen may land on another thread,
            # and Python runs handlers on the main thread only.
            while not self._over.wait(AWAKE_S):
                pass
        finally:  # a second ctrl-C ends the process at once
            for number, handler in former.items():
                signal.signal(number, handler)
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
        troubles.append("the driver is not running")
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
            manifest = with_mask(Manifest.decode(artifacts.get(current.manifest)), task.codec, config.seed, artifacts)
            stored = artifacts.put(manifest.encode())
            tx.save_version(msgspec.structs.replace(current, manifest=stored))
            _measure_again(config, tx)
            return
        number = 0 if tx.current_version() is None else tx.last_version_number() + 1
        manifest = msgspec.structs.replace(import_model(task.model, artifacts), version=number)
        stored = artifacts.put(with_mask(manifest, task.codec, config.seed, artifacts).encode())
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
