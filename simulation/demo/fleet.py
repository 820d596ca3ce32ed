"""The processes of the demo: one broker, one coordinator, and the phones."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from pathlib import Path

from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.mqtt.broker import choose
from nightjar.coordinator.mqtt.broker_child import PASSWORD_VARIABLE
from nightjar.coordinator.tls.files import SERVICE_USER
from nightjar.host.children import python_command
from nightjar.simulation.demo.configuration import LOOPBACK
from nightjar.simulation.demo.preparation import PreparedRun
from nightjar.simulation.demo.processes import Service, wait_until
from nightjar.simulation.demo.reading import read_state

START_S = 60.0
MOST_ALONE = 12
"""More phones share processes, because each agent process takes some 60 MB, and twice that while it trains."""
SHARED_PROCESSES = 3


class DemoFleet:
    """Starts the processes in order, and restarts those that are killed.

    Raises:
        ConfigError: mosquitto was requested but is not installed.

    Attributes:
        broker_name: ``mosquitto`` or ``amqtt``.
        broker: process of the broker.
        coordinator: process of the coordinator.
        phones: one process per phone; with many phones, one for the first, which has the keyboard, and a few more.
    """

    def __init__(self, prepared: PreparedRun, broker: str) -> None:
        logs = prepared.folder / "logs"
        self.broker_name = choose(BrokerKind(broker))
        self._prepared = prepared
        data = str(prepared.folder / "broker")
        listen = ["--host", LOOPBACK, "--port", str(prepared.broker_port)]
        secret: dict[str, str] = {}
        if prepared.tls is not None:
            listen += ["--tls", str(prepared.tls), "--service-port", str(prepared.service_port)]
            listen += ["--username", SERVICE_USER]
            secret = {PASSWORD_VARIABLE: secrets.token_urlsafe(32)}
        self.broker = Service(
            "broker",
            python_command("-m", "nightjar.coordinator", "broker", *listen, "--data", data, "--kind", broker),
            logs / "broker.log",
            secret,
        )
        self.coordinator = Service(
            "coordinator",
            python_command("-m", "nightjar.coordinator", "serve", "--config", str(prepared.coordinator_config)),
            logs / "coordinator.log",
            secret,
        )
        self.phones = _phones(prepared, logs)

    @property
    def groups(self) -> list[list[Service]]:
        """All processes, in groups in starting order."""
        return [[self.broker], [self.coordinator], self.phones]

    def start(self) -> None:
        """Start all processes, the phones after the coordinator answers.

        Raises:
            UnavailableError: a process died or did not answer; the message has the end of its log.
        """
        self.broker.start()
        self.coordinator.start()
        wait_until(lambda: read_state(self._prepared.url) is not None, [self.broker, self.coordinator], START_S)
        for phone in self.phones:
            phone.start()

    def check(self, say: Callable[[str], object]) -> None:
        """Restart processes that were killed, and say so in a line for each.

        Raises:
            UnavailableError: a process exited by itself, or was killed too often; the message has the end of its log.
        """
        for service in itertools.chain.from_iterable(self.groups):
            if service.restart_if_killed():
                say(f"{service.name} was killed; restarting it")


def _phones(prepared: PreparedRun, logs: Path) -> list[Service]:
    alone, together = list(prepared.phone_configs), []
    if len(alone) > MOST_ALONE:
        alone, rest = alone[:1], alone[1:]
        together = [rest[number::SHARED_PROCESSES] for number in range(SHARED_PROCESSES)]
    services = [
        Service(
            config.parent.name,
            python_command("-m", "nightjar.edge_agent", "run", "--config", str(config)),
            logs / f"{config.parent.name}.log",
        )
        for config in alone
    ]
    for number, configs in enumerate(together, 1):
        name = f"phones-{number}"
        artifacts = str(prepared.folder / name)
        command = python_command("-m", "nightjar.edge_agent", "emulate", "--artifacts", artifacts, *map(str, configs))
        services.append(Service(name, command, logs / f"{name}.log"))
    return services
