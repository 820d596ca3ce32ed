"""The addresses on which a broker listens."""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from pathlib import Path

from nightjar.wire.errors import ConfigError, rewording


@dataclass(frozen=True, slots=True)
class Listeners:
    """The addresses on which a broker listens, and the clients that it admits.

    With ``tls``, the folder of certificates (:mod:`nightjar.coordinator.tls.files`), devices must present
    one, and only the coordinator uses the name and password.
    """

    host: str  # of the listener for devices
    port: int  # of the listener for devices
    username: str
    password: str  # if empty, plain-text clients may use any name
    tls: Path | None = None
    # Only with ``tls``:
    service_port: int = 0  # of the coordinator's listener on 127.0.0.1
    population: str = "demo"  # whose topics devices may use
    shards: int = 1  # ingest shards in the topics to the coordinator
    floods: int | None = None  # file descriptor that the embedded broker tells the names of devices that flood


def check_port_free(host: str, port: int, setting: str, remedy: str) -> None:
    """Check that the process can listen on a port.

    Raises:
        ConfigError: the port is taken, or the address does not belong to this machine.
    """
    with rewording(ConfigError, f"cannot listen on {host} port {port} ({setting})", remedy):
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    msg = f"{host} ({setting}): this machine has no such address; give one of its own, or 0.0.0.0"
                    raise ConfigError(msg) from error
                raise
