"""A coordinator with the default transport for benchmarks: configuration, device certificates and process.

It uses TLS with a certificate for each device, the best installed broker and SQLite; the pages have a second port
without client certificates.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import psutil

from nightjar.benchmarks.emulated_fleet import AUTHORITIES, Fleet, Update
from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.mqtt.broker import MOSQUITTO, choose, find_mosquitto
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.tls.authority import new_request
from nightjar.coordinator.tls.authority_process import CertifyDevice, ListAuthorities
from nightjar.coordinator.tls.files import refresh, signer_of
from nightjar.host.children import python_command
from nightjar.models.configurations import configuration
from nightjar.models.folder import write_model_folder
from nightjar.models.initial import initial_weights
from nightjar.models.vocabulary import FIRST_WORD, Vocabulary
from nightjar.simulation.demo.configuration import write_toml
from nightjar.simulation.demo.processes import Service, wait_until
from nightjar.simulation.demo.reading import fetched
from nightjar.wire.parameters import ParameterLayout

TRANSPORT = f"tls with certificates, {choose(BrokerKind.AUTO)}"
START_TIMEOUT_S = 120.0
FLEETS = 2
SEED = 7


def need_mosquitto() -> None:
    """Check that mosquitto is installed.

    Raises:
        click.ClickException: mosquitto is not installed.
    """
    if find_mosquitto() is None:
        msg = "mosquitto is not installed: apt install mosquitto"
        raise click.ClickException(msg)


def write_model(folder: Path, name: str) -> ParameterLayout:
    """Write a model of a real configuration with its largest vocabulary and a placeholder program."""
    shape = configuration(name)
    vocabulary = Vocabulary(tuple(f"word{number}" for number in range(shape.max_vocabulary - FIRST_WORD)))
    write_model_folder(folder, shape, vocabulary, b"a program", initial_weights(shape, vocabulary.size, SEED))
    return shape.layout(vocabulary.size)


def write_configuration(folder: Path, task: Mapping[str, Any]) -> Path:
    """Write ``coordinator.toml``, whose model is in the folder ``model`` beside it; returns its path."""
    port, page_port, broker_port = free_ports(3)
    table = {
        "data_dir": "data",
        "port": port,
        "page_port": page_port,
        "broker": {"kind": "auto", "port": broker_port},
        "task": {"model": "model", **task},
        "limits": {"cohort": 1, "density": 1.0},
    }
    return write_toml(folder / "coordinator.toml", table)


def certify(config: CoordinatorConfig, names: Sequence[str], folder: Path) -> Path:
    """Write each device's key and certificate for a fleet of emulated devices; returns the folder."""
    folder.mkdir()
    signer = signer_of(config)
    try:
        refresh(config, signer, (), WallClock().now_s())
        (folder / AUTHORITIES).write_text("".join(signer.ask(ListAuthorities())))
        for name in names:
            key, csr = new_request()
            (certificate,) = signer.ask(CertifyDevice(csr, name, 1.0))
            (folder / f"{name}.pem").write_text(key + certificate)
    finally:
        signer.close()
    return folder


def fleets(config: CoordinatorConfig, connections: int, update: Update, folder: Path) -> list[Fleet]:
    """So many phones with certificates, in :data:`FLEETS` processes; they are not connected yet."""
    names = [f"phone-{number:05d}" for number in range(connections)]
    credentials = certify(config, names, folder / "devices")
    share = -(-connections // FLEETS)
    return [
        Fleet(config.broker.port, names[at : at + share], update, at, credentials=credentials)
        for at in range(0, connections, share)
    ]


def coordinator(path: Path) -> Service:
    """The process ``coordinator serve``, not started yet; its log is beside its configuration."""
    command = python_command("-m", "nightjar.coordinator", "serve", "--config", str(path))
    return Service("coordinator", command, path.parent / "coordinator.log")


def start(service: Service, path: Path) -> CoordinatorConfig:
    """Start the coordinator and wait until it is healthy; returns its configuration.

    Raises:
        UnavailableError: it did not become healthy in time.
    """
    service.start()
    config = load_config(path, os.environ)
    wait_until(lambda: fetched(f"{config.page_url}/healthz") is not None, [service], START_TIMEOUT_S)
    return config


def processes(serving: Service) -> tuple[list[int], list[int]]:
    """Process ids of a coordinator and its workers, the coordinator first; and of its broker."""
    ours = [serving.pid]
    brokers: list[int] = []
    for child in psutil.Process(serving.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            broker = child.name() == MOSQUITTO or "broker" in child.cmdline()
            (brokers if broker else ours).append(child.pid)
    return ours, brokers


def peak_mb(pid: int) -> float:
    """Peak resident memory of a process, MB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return 1024 * kib / 1e6


def resident_mb(pid: int) -> float:
    """Resident memory of a process now, MB."""
    return float(psutil.Process(pid).memory_info().rss) / 1e6


def say(line: str) -> None:
    """Print progress to standard error; standard output has only the result."""
    click.echo(line, err=True)
