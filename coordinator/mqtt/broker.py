"""The broker process: runs mosquitto if it is installed, else the embedded amqtt.

All of this runs in the broker's own process (``python -m nightjar.coordinator broker``), which the service supervises
with :mod:`nightjar.coordinator.mqtt.broker_child`.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import os
import pwd
import secrets
import shutil
import signal
import string
from importlib import resources
from pathlib import Path

from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.mqtt.listeners import Listeners, check_port_free
from nightjar.host.files import replace_file
from nightjar.wire.errors import ConfigError, rewording

MOSQUITTO, AMQTT, EXTERNAL = "mosquitto", "amqtt", "external"
"""Names of brokers, as shown on the status page."""

SESSIONS = "mosquitto.db"
"""In the broker's folder: what mosquitto keeps for its next start."""
_SBIN = "/usr/sbin:/usr/local/sbin"
"""Debian installs mosquitto here, which is not on a user's PATH."""
_PBKDF2_ROUNDS = 101_000
MAX_QUEUED_BYTES = 512 * 2**20
"""Maximum bytes of messages queued in mosquitto for one session of the coordinator. The same amount is allowed for all
else: with packets of maximum size, it holds what 500 devices could leave on each of their topics."""


def choose(kind: BrokerKind) -> str:
    """The name of the broker that a kind selects on this machine.

    Raises:
        ConfigError: mosquitto is configured but not installed.
    """
    match kind:
        case BrokerKind.AUTO:
            return MOSQUITTO if find_mosquitto() else AMQTT
        case BrokerKind.MOSQUITTO:
            if not find_mosquitto():
                msg = "mosquitto is not installed; install it (apt install mosquitto) or set broker.kind to 'auto'"
                raise ConfigError(msg)
            return MOSQUITTO
        case BrokerKind.EMBEDDED:
            return AMQTT
        case BrokerKind.EXTERNAL:
            return EXTERNAL


def find_mosquitto() -> str | None:
    """Path of the mosquitto program; None if it is not installed."""
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:{_SBIN}")


def run_broker(name: str, listeners: Listeners, folder: Path) -> None:
    """Run the broker until a signal arrives; mosquitto replaces this process. SIGHUP reloads certificates.

    Raises:
        ConfigError: the port is taken, or the folder cannot be used.
    """
    check_port_free(
        listeners.host, listeners.port, "broker.port", "stop the other broker, give another port, or use 'external'"
    )
    with rewording(ConfigError, f"the broker cannot use the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        if name == MOSQUITTO:
            path = write_mosquitto_files(listeners, folder)
    if name == MOSQUITTO:
        program = find_mosquitto() or MOSQUITTO
        os.execv(program, [program, "-c", str(path)])  # noqa: S606 - deliberately without a shell
    asyncio.run(run_embedded(listeners))


def write_mosquitto_files(listeners: Listeners, folder: Path) -> Path:
    """Write mosquitto's configuration, and its password file if needed; returns the path of the configuration."""
    folder = folder.resolve()
    passwords, access = folder / "passwords", ""
    lines = f"listener {listeners.port} {listeners.host}"
    if listeners.password:
        line = mosquitto_password_line(listeners.username, listeners.password, secrets.token_bytes(12))
        replace_file(passwords, line.encode())
    if listeners.tls is not None:
        lines = _template("mosquitto-tls.conf").substitute(
            host=listeners.host, port=listeners.port, service_port=listeners.service_port, tls=listeners.tls.resolve()
        )
        access = f"acl_file {listeners.tls.resolve() / 'access'}"
    path = folder / "mosquitto.conf"
    text = _template("mosquitto.conf").substitute(
        listeners=lines,
        folder=folder,
        allow_anonymous="false" if listeners.password else "true",
        password_file=f"password_file {passwords}" if listeners.password else "",
        access_file=access,
        memory_limit=MAX_QUEUED_BYTES * (listeners.shards + 1),
        # Started by root, mosquitto would otherwise switch to a user who cannot write to this folder.
        user=pwd.getpwuid(os.geteuid()).pw_name,
    )
    replace_file(path, text.encode())
    return path


def _template(name: str) -> string.Template:
    return string.Template((resources.files("nightjar.coordinator.mqtt") / name).read_text())


def mosquitto_password_line(username: str, password: str, salt: bytes) -> str:
    """A line of mosquitto's password file: PBKDF2 with SHA-512, in the ``$7$`` format."""
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _PBKDF2_ROUNDS)
    return f"{username}:$7${_PBKDF2_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"


async def run_embedded(listeners: Listeners) -> None:
    """Run the embedded broker until SIGTERM or SIGINT; its sessions are kept in memory only."""
    from nightjar.coordinator.mqtt.embedded_broker import EmbeddedBroker, configuration  # amqtt imports many modules

    logging.basicConfig(level=logging.WARNING, format="broker %(levelname)s %(message)s")
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    broker = EmbeddedBroker(configuration(listeners), listeners)
    loop.add_signal_handler(signal.SIGHUP, broker.reload)
    await broker.start()
    await stopped.wait()
    await broker.shutdown()
