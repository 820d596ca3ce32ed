"""Supervises the broker process: starts it, waits until it answers, and restarts it if it dies."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from msgspec import structs

from nightjar.coordinator.config import BrokerConfig
from nightjar.coordinator.mqtt.broker import SESSIONS, choose
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import check_port_free
from nightjar.coordinator.tls.files import SERVICE_USER
from nightjar.host.children import python_command
from nightjar.host.limited_log import LimitedLog
from nightjar.host.put_away import put_away
from nightjar.wire.errors import ConfigError, UnavailableError

HELLO = bytes.fromhex("100c00044d515454040200050000")
"""MQTT 3.1.1 CONNECT packet without a client id."""
START_TIMEOUT_S = 60.0
"""Time limit for the broker to answer. It usually takes a second, but longer while a small machine boots."""
RESTART_AFTER_S = 1.0
EARLY_S, MOST_EARLY_DEATHS = 10.0, 2
"""A broker that dies so soon, so often in a row, has what damage left of its sessions."""
LONGEST_READ = 64 * 1024
"""Bytes of a line that are read at once; nobody can make us hold a longer one."""
PASSWORD_VARIABLE = "NIGHTJAR_BROKER_PASSWORD"  # noqa: S105 - a variable's name; any user can read arguments

_log = structlog.get_logger("coordinator")


class BrokerChild:
    """A broker that runs as a child process of the service; ``tls`` is its folder of certificates, None for plain text.

    ``flooded`` is called with the name of each device that the embedded broker cut off.

    Raises:
        ConfigError: the port is taken, or mosquitto is configured but not installed.
        UnavailableError: the broker does not answer.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        folder: Path,
        tls: Path | None = None,
        population: str = "demo",
        shards: int = 1,
        flooded: Callable[[str], None] = lambda _device: None,
    ) -> None:
        self.name = choose(broker.kind)
        """``mosquitto`` or ``amqtt``."""
        self.service = broker if tls is None else _service(broker)
        """Address and credentials with which the coordinator connects."""
        self._broker = broker
        self._tls = tls
        self._flooded = flooded
        self._topics = ["--population", population, "--shards", str(shards)]
        self._folder = folder
        check_port_free(
            broker.host,
            broker.port,
            "broker.port",
            "stop what listens there, give another port, or set broker.kind = 'external' to use it",
        )
        folder.mkdir(parents=True, exist_ok=True)
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        # The kernel kills the child when the thread that started it ends, so one long-lived thread starts it.
        self._thread = threading.Thread(target=self._run, name="broker", daemon=True)
        self._thread.start()
        self._wait_until_it_answers()

    def close(self) -> None:
        """Terminate the broker."""
        self._closing.set()
        if self._child is not None:
            self._child.terminate()
        self._thread.join(timeout=5)

    def reload(self) -> None:
        """Make the broker reload certificates and revocations; returns before it has done so."""
        if self._child is not None:
            self._child.send_signal(signal.SIGHUP)

    def _run(self) -> None:
        command = python_command("-m", "nightjar.coordinator", "broker", "--kind", self._broker.kind.value)
        command += ["--host", self._broker.host, "--port", str(self._broker.port), "--data", str(self._folder)]
        command += ["--username", self.service.username, "--die-with", str(os.getpid()), "--allow-network"]
        command += self._topics
        if self._tls is not None:
            command += ["--tls", str(self._tls), "--service-port", str(self.service.port)]
        log = LimitedLog(self._folder / "broker.log")  # strangers cause a line for each handshake that fails
        early_deaths = 0
        while not self._closing.is_set():
            started_s = time.monotonic()
            # A pipe of its own: the log quotes what strangers say.
            floods, theirs = os.pipe()
            self._child = subprocess.Popen(  # noqa: S603 - our own module
                [*command, "--tell-floods", str(theirs)],
                pass_fds=[theirs],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # ctrl-C goes only to the service, which still has messages to send
                env={**os.environ, PASSWORD_VARIABLE: self.service.password},
            )
            os.close(theirs)
            threading.Thread(target=self._hear_of_floods, args=(floods,), name="floods", daemon=True).start()
            if self._child.stdout is not None:
                with self._child.stdout as lines:
                    while line := lines.readline(LONGEST_READ):  # until it ends
                        log.write(line, time.monotonic())
            status = self._child.wait()
            if not self._closing.is_set():
                _log.error("broker_restarted", status=status, log=str(self._folder / "broker.log"))
                died_early = status != ConfigError.exit_status and time.monotonic() - started_s < EARLY_S
                early_deaths = early_deaths + 1 if died_early else 0
                if early_deaths == MOST_EARLY_DEATHS:
                    self._put_sessions_away()
                self._closing.wait(RESTART_AFTER_S)

    def _put_sessions_away(self) -> None:
        """Mosquitto does not start with a damaged file of sessions; what was in it devices send again."""
        path = self._folder / SESSIONS
        if path.exists():
            with contextlib.suppress(OSError):  # then the broker is a trouble that is reported
                put_away(self._folder.parent, [path], "the broker does not start with it")
                _log.warning("damaged_file_put_away", file=str(path), reason="the broker does not start with it")

    def _hear_of_floods(self, pipe: int) -> None:
        with os.fdopen(pipe) as devices:  # until the child ends
            for device in devices:
                self._flooded(device.rstrip("\n"))

    def _wait_until_it_answers(self) -> None:
        deadline_s = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline_s:
            try:
                socket.create_connection((self._broker.host, self._broker.port), timeout=1).close()
                _say_hello(self.service)
            except OSError:
                time.sleep(0.05)
            else:
                return
        self.close()
        msg = f"the broker {self.name} does not answer; see {self._folder / 'broker.log'}"
        raise UnavailableError(msg)


def _say_hello(broker: BrokerConfig) -> None:
    """Wait for any answer to an MQTT CONNECT: mosquitto listens before it handles SIGHUP, which kills it until then.

    Raises:
        OSError: the broker does not answer yet.
    """
    with socket.create_connection((broker.host, broker.port), timeout=1) as connection:
        connection.sendall(HELLO)
        with contextlib.suppress(ConnectionResetError):  # also an answer
            connection.recv(4)


def _service(broker: BrokerConfig) -> BrokerConfig:
    (port,) = free_ports(1)
    return structs.replace(
        broker,
        host="127.0.0.1",
        port=port,
        username=SERVICE_USER,
        password=broker.password or secrets.token_urlsafe(32),
    )
