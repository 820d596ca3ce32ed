"""The coordinator service: assembles the adapters in one process, runs them, and shuts them down in order."""

from __future__ import annotations

import os
from contextlib import ExitStack

import numpy as np
import structlog

from coordinator.config import BrokerKind, CoordinatorConfig
from coordinator.engine.clock import WallClock
from coordinator.engine.driver import Driver
from coordinator.engine.loop import Loop, RunningDriver
from coordinator.engine.starting import prepare
from coordinator.engine.worker import Stores, WorkerProcess
from coordinator.mqtt.broker import check_port_free, choose
from coordinator.mqtt.broker_child import BrokerChild
from coordinator.mqtt.client import MqttTransport
from coordinator.storage.artifacts import open_artifacts
from coordinator.storage.backup import ARTIFACTS
from coordinator.storage.engine import database_url
from coordinator.storage.lead import Lead
from coordinator.storage.lock import only_one
from coordinator.storage.recorder import Recorder
from coordinator.storage.signing_key import load_signer
from coordinator.storage.standing import Standing, open_database, stop_at_once
from coordinator.storage.tokens import TokenTable
from coordinator.tls_service import TlsService
from coordinator.web.app import create_app
from coordinator.web.ports import WebPorts
from coordinator.web.server import serving
from host.systemd import ServiceManager, given_listener
from wire.identifiers import Population
from wire.limits import HOUSEHOLD_WARNING

NOTHING_MEASURED = (
    "versions are not measured, so none is refused for being worse: set task.evaluation_text, or export the model "
    "again for the text that comes with it; measuring needs TensorFlow"
)
"""Logged if there is no evaluation text or no TensorFlow."""

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
        lead = Lead(url, stop_at_once) if config.database_url else None
        if lead is not None:
            lead.start()
            stack.callback(lead.close)
        database = open_database(url, lead)
        stack.callback(database.close)
        artifacts = open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, database)
        standing = Standing(lead, database, signer)

        def take_the_lead() -> int | None:
            term = standing.begin()
            prepare(config, database, artifacts, clock.now_s())
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
        running = RunningDriver()
        ports = WebPorts(
            config=config,
            repository=database,
            artifacts=artifacts,
            clock=clock,
            broker=choose(config.broker.kind),
            troubles=lambda: (
                ([] if standing.leader else running.troubles())
                + standing.troubles()
                + (secured.troubles if secured else [])
            ),
            tokens=TokenTable(database),
            post=running.post,
            leader=lambda: standing.leader,
            not_enforced=lambda: running.driver.not_enforced if running.driver else [],
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
        worker = WorkerProcess(stores, config.data_dir / "worker.log", running.post, ray=config.ray)
        leading.callback(worker.close)
        transport = MqttTransport(
            reached, Population(config.population), config.shards, running.post, secured.context if secured else None
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
        loop = Loop(driver, standing.check)
        leading.callback(loop.stop)
        running.start(driver, loop, lambda: transport.trouble)
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
