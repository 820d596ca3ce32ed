"""The whole service in one process: puts the adapters together, runs them, and takes them down in order."""

from __future__ import annotations

import gc
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

import numpy as np
import structlog
from waitress.server import create_server  # type: ignore[import-untyped] # waitress has no types

from coordinator.averaging import with_mask
from coordinator.config import BrokerKind, CoordinatorConfig
from coordinator.driver import Driver
from coordinator.effects import EvaluateVersion
from coordinator.inbox import Inbox, Stopped
from coordinator.ports import VersionRecord
from coordinator.shell.blobs import FileBlobs
from coordinator.shell.broker import EXTERNAL, check_port_free
from coordinator.shell.broker_child import BrokerChild
from coordinator.shell.clock import WallClock
from coordinator.shell.database import Database, database_url
from coordinator.shell.lock import only_one
from coordinator.shell.model_folder import import_model
from coordinator.shell.mqtt import MqttTransport
from coordinator.shell.packs import PackedBlobs
from coordinator.shell.quarantine import FileQuarantine
from coordinator.shell.tokens import TokenTable
from coordinator.shell.web.app import create_app
from coordinator.shell.web.ports import WebPorts
from coordinator.shell.worker import WorkerProcess
from models.corpora.tsv import tsv
from models.manifest import Manifest
from wire.errors import ConfigError
from wire.identifiers import Population

WEB_THREADS = 8
"""waitress sends in its main loop, so slow devices do not hold threads."""
WEB_CONNECTIONS = 2000
"""At once; beyond it others wait to be accepted. A cohort fetches a new version at the same moment."""
WEB_IDLE_S = 30
"""A connection on which nothing moves for so long is closed: phones come and go."""
STOP_TIMEOUT_S = 10.0

_log = structlog.get_logger("coordinator")


def serve(config: CoordinatorConfig, *, standby: bool = False) -> None:
    """Run until SIGTERM or SIGINT.

    Args:
        config: the whole configuration.
        standby: while another coordinator runs on the data folder, wait; when it ends, take over where it was.

    Raises:
        ConfigError: something that its owner must change: a port, the model, the text.
        UnavailableError: the disk, the database or the broker does not work.
    """
    with ExitStack() as stack:
        if standby:
            _stand_by(config, stack)
        else:
            stack.enter_context(only_one(config.data_dir))
        if config.task.evaluation_text is not None:
            tsv(config.task.evaluation_text)  # the worker reads it much later; its faults are wanted now
        artifacts = FileBlobs(config.data_dir / "artifacts")
        private = PackedBlobs(config.data_dir / "private")
        quarantine = FileQuarantine(config.data_dir / "quarantine")
        stack.callback(quarantine.close)
        database = Database(database_url(config))
        stack.callback(database.close)
        clock = WallClock()
        _import_once(config, database, artifacts, clock.now_s())
        _sweep(database, private)
        check_port_free(config.host, config.port, "port", "stop what listens there, or give another port")

        broker_name = EXTERNAL
        if config.broker.kind is not BrokerKind.EXTERNAL:
            broker = BrokerChild(config.broker, config.data_dir / "broker")
            stack.callback(broker.close)
            broker_name = broker.name

        later = _Later()
        data = config.data_dir
        worker = WorkerProcess(data / "artifacts", data / "private", data / "worker.log", later.post)
        stack.callback(worker.close)
        transport = MqttTransport(config.broker, Population(config.population), config.shards, later.post)
        stack.callback(transport.close)
        generator = np.random.default_rng()  # jitter of retry windows: nothing that must be repeatable
        driver = Driver(config, database, artifacts, private, transport, worker, clock, generator, quarantine)
        later.target = driver.post

        loop = _Loop(driver)
        ports = WebPorts(
            config=config,
            repository=database,
            artifacts=artifacts,
            clock=clock,
            broker=broker_name,
            troubles=lambda: _troubles(loop, transport),
            tokens=TokenTable(database),
            post=driver.post,
        )
        stack.enter_context(_web(ports))
        _spare_the_collector()
        transport.start()
        _log.info(
            "coordinator_ready",
            page=f"http://{config.host}:{config.port}/",
            broker=broker_name,
            mqtt=f"{config.broker.host}:{config.broker.port}",
            population=config.population,
        )
        loop.run_until_signal()
        _log.info("coordinator_stopping")


def _stand_by(config: CoordinatorConfig, stack: ExitStack) -> None:
    if config.broker.kind is not BrokerKind.EXTERNAL:
        msg = (
            f"a standby needs a broker that outlives the coordinator: broker.kind is {config.broker.kind.value!r}; "
            "run one beside (nightjar-coordinator broker, or your own) and set broker.kind = 'external'"
        )
        raise ConfigError(msg)
    _log.info("standing_by", data_dir=str(config.data_dir))
    stack.enter_context(only_one(config.data_dir, standing_by=True))
    _log.info("standby_takes_over", data_dir=str(config.data_dir))


class _Later:
    """Where adapters post to that are made before the driver; nothing comes before they are started."""

    def __init__(self) -> None:
        self.target: Callable[[Inbox], None] | None = None

    def post(self, event: Inbox) -> None:
        if self.target is not None:
            self.target(event)


class _Loop:
    """The driver's thread, and the main thread that waits for it or for a signal."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="driver", daemon=True)

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def trouble(self) -> str:
        return self._driver.trouble

    def run_until_signal(self) -> None:
        def stop(_number: int, _frame: FrameType | None) -> None:
            self._driver.post(Stopped())

        former = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._thread.start()
            self._ended.wait()
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            self._driver.run()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()


def _spare_the_collector() -> None:
    """Let Python look for garbage in cycles more rarely.

    A burst makes tens of thousands of objects that stay until the round is over, and none of them in cycles; looking
    at all of them again and again took up to a seventh of the driver's time; not in every run.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


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
        current = tx.current_version()
        if current is not None:
            manifest = with_mask(Manifest.decode(artifacts.get(current.manifest)), config, artifacts)
            tx.set_manifest(current.version, artifacts.put(manifest.encode()))
            return
        manifest = with_mask(import_model(config.task.model, artifacts), config, artifacts)
        tx.add_version(VersionRecord(version=0, manifest=artifacts.put(manifest.encode()), created_s=now_s))
        if config.task.evaluation_text is not None:
            tx.add_effect(EvaluateVersion(0))
    _log.info("model_imported", configuration=manifest.configuration, parameters=manifest.layout.size)


def _sweep(database: Database, private: PackedBlobs) -> None:
    """Delete private blobs without a row: what was left by a kill between a blob and its row."""
    with database.transaction() as tx:
        needed = tx.private_blobs()
    removed = private.sweep(needed)
    if removed:
        _log.info("blobs_deleted", files=removed)


@contextmanager
def _web(ports: WebPorts) -> Iterator[None]:
    config = ports.config
    connections: dict[int, Any] = {}
    try:
        server = create_server(
            create_app(ports),
            map=connections,
            host=config.host,
            port=config.port,
            threads=WEB_THREADS,
            connection_limit=WEB_CONNECTIONS,
            channel_timeout=WEB_IDLE_S,
            asyncore_use_poll=True,  # select() knows 1,024 descriptors, and no more
            ident="nightjar",
        )
    except OSError as error:
        msg = f"cannot listen on {config.host} port {config.port}: {error.strerror or error}; give another port"
        raise ConfigError(msg) from error
    thread = threading.Thread(target=server.run, name="web", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # Devices keep their connections open, and the server's loop runs as long as there is one. Its own thread must
        # close them: it may be waiting on them just now.
        server.task_dispatcher.shutdown()
        server.trigger.pull_trigger(lambda: [connection.close() for connection in list(connections.values())])
        thread.join(timeout=STOP_TIMEOUT_S)
