"""Becomes an MQTT broker: mosquitto if it is installed, else the embedded amqtt.

Everything here runs in the broker's own process (``python -m coordinator broker``); the service keeps such a process
through :mod:`coordinator.shell.broker_child`.
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
import socket
import string
from importlib import resources
from pathlib import Path

from coordinator.config import BrokerKind
from wire.errors import ConfigError

MOSQUITTO, AMQTT, EXTERNAL = "mosquitto", "amqtt", "external"
"""Names of brokers, as the status page shows them."""

_SBIN = "/usr/sbin:/usr/local/sbin"
"""Debian installs mosquitto where a user's PATH does not look."""
_PBKDF2_ROUNDS = 101_000


def choose(kind: BrokerKind) -> str:
    """The broker that a kind stands for on this machine.

    Raises:
        ConfigError: mosquitto is asked for and not installed.
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
    """Path of the mosquitto program."""
    return shutil.which("mosquitto", path=f"{os.environ.get('PATH', '')}:{_SBIN}")


def check_port_free(host: str, port: int, setting: str, remedy: str) -> None:
    """See to it that we can listen.

    Raises:
        ConfigError: somebody else listens there, or the address is not ours.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        msg = f"cannot listen on {host} port {port} ({setting}): {error.strerror or error}; {remedy}"
        raise ConfigError(msg) from error


def run_broker(name: str, host: str, port: int, folder: Path, username: str, password: str) -> None:
    """Be the broker until a signal comes; as mosquitto this process is replaced.

    Args:
        name: MOSQUITTO or AMQTT.
        host: address to listen on.
        port: to listen on.
        folder: for its state.
        username: with the password below.
        password: empty lets any name in.

    Raises:
        ConfigError: the port is taken, or the folder cannot be used.
    """
    check_port_free(host, port, "broker.port", "stop the other broker, give another port, or use kind 'external'")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if name == MOSQUITTO:
            path = write_mosquitto_files(host, port, folder, username, password)
    except OSError as error:
        msg = f"the broker cannot use the folder {folder}: {error.strerror or error}"
        raise ConfigError(msg) from error
    if name == MOSQUITTO:
        program = find_mosquitto() or MOSQUITTO
        os.execv(program, [program, "-c", str(path)])  # noqa: S606 - no shell on purpose
    asyncio.run(run_embedded(host, port, username, password))


def write_mosquitto_files(host: str, port: int, folder: Path, username: str, password: str) -> Path:
    """Mosquitto's configuration, and its password file if there is a password; the path of the former."""
    folder = folder.resolve()
    passwords = folder / "passwords"
    if password:
        passwords.touch(mode=0o600)
        passwords.write_text(mosquitto_password_line(username, password, secrets.token_bytes(12)))
    template = string.Template((resources.files("coordinator.shell") / "mosquitto.conf").read_text())
    path = folder / "mosquitto.conf"
    path.write_text(
        template.substitute(
            host=host,
            port=port,
            folder=folder,
            allow_anonymous="false" if password else "true",
            password_file=f"password_file {passwords}" if password else "",
            # Started by root, mosquitto would become a user who cannot write into our folder.
            user=pwd.getpwuid(os.geteuid()).pw_name,
        )
    )
    return path


def mosquitto_password_line(username: str, password: str, salt: bytes) -> str:
    """A line of mosquitto's password file: PBKDF2 with SHA-512, in its ``$7$`` form."""
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _PBKDF2_ROUNDS)
    return f"{username}:$7${_PBKDF2_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n"


async def run_embedded(host: str, port: int, username: str, password: str) -> None:
    """The embedded broker until SIGTERM or SIGINT; its sessions are in memory only."""
    from coordinator.shell.embedded_broker import EmbeddedBroker  # only where it is needed: amqtt brings many modules

    logging.basicConfig(level=logging.WARNING, format="broker %(levelname)s %(message)s")
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    broker = EmbeddedBroker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"{host}:{port}", "max_connections": 0}},
            "plugins": {"coordinator.shell.embedded_broker.NamedClients": {"username": username, "password": password}},
        }
    )
    await broker.start()
    await stopped.wait()
    await broker.shutdown()
