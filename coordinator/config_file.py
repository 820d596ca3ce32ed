"""Reads the coordinator's configuration file, and checks that its settings go together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nightjar.coordinator.config import BrokerKind, CoordinatorConfig, TransportSecurity
from nightjar.coordinator.config_reader import read_config
from nightjar.coordinator.tasks.settings import SourceConfig
from nightjar.coordinator.tasks.validation import task_faults
from nightjar.host.configuration import accepted
from nightjar.wire.addresses import is_loopback
from nightjar.wire.messages import Work


def load_config(path: Path, environment: Mapping[str, str]) -> CoordinatorConfig:
    """Load the coordinator's configuration from a TOML file and environment variables.

    Raises:
        ConfigError: the file cannot be read, or it holds invalid settings; the message lists every fault.
    """
    config = read_config(path, environment)
    return accepted(path, config, disagreements(config))


def disagreements(config: CoordinatorConfig) -> list[str]:
    """Faults of a configuration: settings that contradict each other, and missing files."""
    task, broker = config.task, config.broker
    measured = task.evaluation_text is not None
    faults = [f"task.{fault}" for fault in task_faults(task, config.limits, measured=measured, enrolled=config.tls)]
    if task.kind is not Work.TRAIN:
        faults.append("task.kind: expected 'train' of the first task, which makes the versions; others are made later")
    if task.source != SourceConfig():
        faults.append("task.source: the first task begins with task.model; leave it out")
    if not task.model.is_dir():
        faults.append(f"task.model: expected the folder of an exported model, there is none at {task.model}")
    if task.evaluation_text is not None and not task.evaluation_text.is_file():
        faults.append(f"task.evaluation_text: expected a corpus file, there is none at {task.evaluation_text}")
    ours = broker.kind is not BrokerKind.EXTERNAL
    if ours and not is_loopback(broker.host) and not (broker.allow_network and (config.tls or broker.password)):
        faults.append(
            f"broker.host: {broker.host} is open to a network; set broker.allow_network = true "
            "if that is meant, else use 127.0.0.1"
        )
    if config.artifacts_url and not config.database_url:
        faults.append("artifacts_url: with SQLite there is one host, which keeps them itself; set database_url as well")
    if ours and broker.device_websocket:
        faults.append(
            "broker.device_websocket: the brokers that we start speak plain MQTT; set broker.kind = 'external'"
        )
    stays_here = is_loopback(config.host) and is_loopback(broker.host)
    if config.transport is TransportSecurity.PLAIN and not stays_here:
        faults.append(
            "transport: plain text stays on the loopback address; set transport = 'tls' and enrol the devices "
            "(docs/enrolment.md), or 'proxied' if a proxy of yours encrypts, or use 127.0.0.1 for host and broker.host"
        )
    if config.page_port and not config.tls:
        faults.append(f"page_port: the pages are unencrypted on port {config.port} already; leave it out")
    if config.page_port and config.page_port in {config.port, broker.port if ours else 0}:
        faults.append(f"page_port: {config.page_port} is the port of something else; give another one")
    if ours and config.port == broker.port and config.host == broker.host:
        faults.append(f"broker.port: {broker.port} is also the port of the status page; give them different ones")
    return faults
