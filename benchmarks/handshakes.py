"""Connections with mutual TLS, from nothing to the first answer: how many a minute, and what one costs the server.

At the broker: TCP, TLS with both certificates, CONNECT, CONNACK, goodbye. At HTTPS: TCP, TLS, a request that is
answered at once, through the front and waitress. Devices that lose their broker all come back at once, so this bounds
how fast a fleet recovers. No session is resumed: each handshake is a whole one, as after a restart. Clients share the
machine with the server; its own processor time says what it could do alone.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import psutil

from benchmarks import mqtt_client
from benchmarks.measuring import cpu_time_s, show
from coordinator.config import BrokerConfig, BrokerKind, CoordinatorConfig, TaskConfig
from coordinator.enrolment.authority import new_request
from coordinator.enrolment.premises import FOLDER, refresh, signer_of
from coordinator.enrolment.signing import CertifyDevice, ListAuthorities
from coordinator.shell.broker import find_mosquitto
from coordinator.shell.broker_child import BrokerChild
from coordinator.shell.clock import WallClock
from coordinator.shell.free_ports import free_ports
from coordinator.shell.tls_front import TlsFront, behind_front
from coordinator.shell.web.server import CONNECTIONS, serving

TITLE = "connections with mutual TLS"
DEVICE = "pi"
TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Place:
    """What everybody needs.

    Attributes:
        config: of a coordinator.
        context: of a device.
    """

    config: CoordinatorConfig
    context: ssl.SSLContext

    @property
    def tls(self) -> Path:
        """Certificates of the servers."""
        return self.config.data_dir / FOLDER


def measured(connect: Callable[[], None], connections: int, at_once: int, server: psutil.Process) -> dict[str, Any]:
    """Make connections and count.

    Args:
        connect: makes one, and raises if it does not come about.
        connections: so many.
        at_once: clients.
        server: whose processor time counts; may be this process.
    """
    connect()  # not the first one
    before_s, begun_s = cpu_time_s(server.pid), time.perf_counter()
    waits_s: list[float] = []

    def one(_: int) -> None:
        asked_s = time.perf_counter()
        connect()
        waits_s.append(time.perf_counter() - asked_s)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, range(connections)))
    seconds = time.perf_counter() - begun_s
    waits_s.sort()
    return {
        "connections": connections,
        "per_minute": round(60 * connections / seconds),
        "p50_ms": round(1000 * waits_s[len(waits_s) // 2], 1),
        "p99_ms": round(1000 * waits_s[int(len(waits_s) * 0.99)], 1),
        "server_cpu_ms": round(1000 * (cpu_time_s(server.pid) - before_s) / connections, 2),
    }


def at_broker(place: Place, kind: BrokerKind, connections: int, at_once: int) -> dict[str, Any]:
    """Connections to a broker of ours."""
    broker = BrokerConfig(kind=kind, port=free_ports(1)[0])
    child = BrokerChild(broker, place.config.data_dir / kind.value, place.tls)

    def connect() -> None:
        with _encrypted(place, broker.port) as connection:
            connection.sendall(mqtt_client.connect(DEVICE))
            if connection.recv(4)[2:] != b"\0\0":
                msg = "the broker refused the connection"
                raise ConnectionError(msg)
            connection.sendall(mqtt_client.DISCONNECT)

    try:
        process = next(p for p in psutil.Process().children(recursive=True) if _listens(p, broker.port))
        return {"server": child.name, **measured(connect, connections, at_once, process)}
    finally:
        child.close()


def at_https(place: Place, connections: int, at_once: int) -> dict[str, Any]:
    """Requests to the front, with an application that answers at once; clients and server are this process."""

    def answer(_environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Length", "2")])
        return [b"ok"]

    with socket.create_server(("127.0.0.1", 0), backlog=CONNECTIONS) as behind:
        port: int = behind.getsockname()[1]
        front = TlsFront("127.0.0.1", 0, place.tls, port, CONNECTIONS)

        def connect() -> None:
            with _encrypted(place, front.port) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
                    msg = "no answer"
                    raise ConnectionError(msg)

        try:
            with serving(behind_front(answer, front.peer), "127.0.0.1", port, behind):
                found = measured(connect, connections, at_once, psutil.Process())
        finally:
            front.close()
    return {"server": "https, with its clients", **found}


@contextlib.contextmanager
def place_in(folder: Path) -> Iterator[Place]:
    """An authority, servers' files and a device's certificate."""
    config = CoordinatorConfig(task=TaskConfig(model=folder), data_dir=folder)
    signer = signer_of(config)
    try:
        refresh(config, signer, (), WallClock().now_s())
        key, csr = new_request()
        (certificate,) = signer.ask(CertifyDevice(csr, DEVICE, 1.0))
        context = ssl.create_default_context(cadata="".join(signer.ask(ListAuthorities())))
    finally:
        signer.close()
    context.check_hostname = False
    (folder / "device.pem").write_text(key + certificate)
    context.load_cert_chain(folder / "device.pem")
    yield Place(config, context)


def _encrypted(place: Place, port: int) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    try:
        return place.context.wrap_socket(plain)
    except OSError:
        plain.close()
        raise


def _listens(process: psutil.Process, port: int) -> bool:
    with contextlib.suppress(psutil.Error):
        return any(c.laddr and c.laddr.port == port for c in process.net_connections() if c.status == "LISTEN")
    return False


@click.command()
@click.option("--connections", default=1000, show_default=True, type=click.IntRange(1), help="To each server.")
@click.option("--at-once", default=8, show_default=True, type=click.IntRange(1, 256), help="Clients.")
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
def main(*, connections: int, at_once: int, as_json: bool) -> None:
    """Measure connections with mutual TLS."""
    with tempfile.TemporaryDirectory() as folder, place_in(Path(folder)) as place:
        kinds = [BrokerKind.EMBEDDED, *([BrokerKind.MOSQUITTO] if find_mosquitto() else [])]
        rows = [at_broker(place, kind, connections, at_once) for kind in kinds]
        rows.append(at_https(place, connections, at_once))
    show(TITLE, rows, as_json=as_json, key="handshakes")


if __name__ == "__main__":
    main()
