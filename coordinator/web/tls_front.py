"""HTTPS in front of a WSGI server that knows only plain text (waitress has no TLS).

Bytes go through as they are: a connection that comes in, and is sound, gets one connection to the server behind, on
the loopback address. Who it is (address, serial number of the client's certificate) is kept by the local port of that
second connection, which the server hands on as ``REMOTE_PORT``. So nobody reads HTTP here, no header says who
somebody is, and a connection to the server behind that did not come through here is known for that and refused.

A client may show a certificate, and one that is no good ends the handshake. Whether it was revoked is asked for each
request, by who serves it; :meth:`TlsFront.drop` ends connections that are open already.

Clients without a certificate, and all clients during the handshake, share three quarters of the places. Whoever comes
when those are taken gets the place of one of them: the oldest of the address with the most. So strangers keep no device
out, from however many addresses they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import threading
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from coordinator.enrolment.tls_files import AUTHORITIES, SERVER, SERVER_KEY
from wire.addresses import network_of
from wire.errors import ConfigError

HANDSHAKE_S = 10.0
STOP_TIMEOUT_S = 5.0
LOOP_TIMEOUT_S = 60.0
"""For what the loop does at once, unless a thousand handshakes on a slow machine are before it."""
NO_DESCRIPTORS_S = 0.1
"""Until the next try to accept when the system has no descriptor left."""
PIECE_BYTES = 64 * 1024
PLACES_WITHOUT_CERTIFICATE = 64
"""Most open connections of one address without a certificate; a browser has six."""
SERIAL = "nightjar.serial"
"""In the WSGI environment: serial number of the client's certificate, decimal; empty without one."""

_log = structlog.get_logger("coordinator")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end.

    Attributes:
        address: of the connection that came in.
        serial: of the certificate, decimal; empty without one.
    """

    address: str
    serial: str


class TlsFront:
    """Listens for HTTPS until it is closed.

    Args:
        host: address to listen on.
        port: to listen on; 0 takes a free one.
        folder: with our certificate and the authorities (:mod:`coordinator.enrolment.tls_files`).
        behind: port of the WSGI server on 127.0.0.1.
        most_connections: at once; what comes beyond is closed.
        listener: listens there already; closed in the end.

    Raises:
        ConfigError: we cannot listen there.
    """

    def __init__(
        self,
        host: str,
        port: int,
        folder: Path,
        behind: int,
        most_connections: int,
        listener: socket.socket | None = None,
    ) -> None:
        self._folder, self._behind, self._most_connections = folder, behind, most_connections
        self._most_strangers = max(1, 3 * most_connections // 4)
        self._most_of_a_stranger = min(PLACES_WITHOUT_CERTIFICATE, max(1, most_connections // 4))
        self._peers: dict[int, Peer] = {}
        self._open: dict[asyncio.StreamWriter, str] = {}
        self._tasks: dict[socket.socket, asyncio.Task[None]] = {}
        self._strangers: dict[str, dict[socket.socket, bool]] = {}
        """By address, oldest first: who shows no certificate, or not yet; and whether the handshake is over."""
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = listener or socket.create_server((host, port), family=family, backlog=1024)
        except OSError as error:
            msg = f"cannot listen on {host} port {port}: {error.strerror or error}; give another port"
            raise ConfigError(msg) from error
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self.reload()
        self._loop = asyncio.new_event_loop()
        self._accepting = self._loop.create_task(self._accept())
        self._thread = threading.Thread(target=self._run, name="tls front", daemon=True)
        self._thread.start()

    def peer(self, local_port: int) -> Peer | None:
        """Who is behind a connection to the WSGI server; None if it did not come through here. Any thread."""
        return self._peers.get(local_port)

    def reload(self) -> None:
        """Read certificate and authorities again, for connections from now on. Any thread."""
        self._context = server_context(self._folder)

    def drop(self, serials: Container[str]) -> None:
        """End the connections of clients with these certificates. Any thread."""
        self._in_loop(self._drop(serials))

    def stop_listening(self) -> None:
        """Take no new connection; those that are open go on."""
        self._loop.call_soon_threadsafe(self._accepting.cancel)

    def close(self) -> None:
        """Stop listening, and end all connections."""
        self._in_loop(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LOOP_TIMEOUT_S)
        self._socket.close()

    def _in_loop(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(LOOP_TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(_log_unforeseen)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    async def _drop(self, serials: Container[str]) -> None:
        for writer, serial in list(self._open.items()):
            if serial and serial in serials:
                writer.transport.abort()

    async def _stop(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        for accepted in self._tasks:  # not begun yet
            accepted.close()

    async def _accept(self) -> None:
        while True:
            try:
                accepted, (address, *_) = await self._loop.sock_accept(self._socket)
            except OSError:
                await asyncio.sleep(NO_DESCRIPTORS_S)
                continue
            if self._has_room():
                self._strangers.setdefault(network_of(address), {})[accepted] = False
                self._tasks[accepted] = self._loop.create_task(self._connected(accepted, address))
            else:
                accepted.close()
            await asyncio.sleep(0)  # one that is there already is accepted without giving others their turn

    def _has_room(self) -> bool:
        """Whether there is a place for one more, if need be a stranger's."""
        strangers = sum(map(len, self._strangers.values()))
        if len(self._tasks) < self._most_connections and strangers < self._most_strangers:
            return True
        if not self._strangers:
            return False
        network = max(self._strangers, key=lambda each: len(self._strangers[each]))
        oldest = next(iter(self._strangers[network]))
        self._forget(network, oldest)
        self._tasks[oldest].cancel()
        return True

    def _forget(self, network: str, stranger: socket.socket) -> None:
        of_network = self._strangers.get(network, {})
        of_network.pop(stranger, None)
        if not of_network:
            self._strangers.pop(network, None)

    async def _connected(self, accepted: socket.socket, address: str) -> None:
        network = network_of(address)
        try:
            with contextlib.suppress(OSError, TimeoutError):
                reader, writer = await self._handshake(accepted)
                try:
                    serial = client_serial(writer.get_extra_info("ssl_object"))
                    if serial:
                        self._forget(network, accepted)
                    elif sum(self._strangers[network].values()) < self._most_of_a_stranger:
                        self._strangers[network][accepted] = True
                    else:
                        return
                    await self._served(reader, writer, Peer(address, serial))
                finally:
                    writer.transport.abort()
        finally:
            self._forget(network, accepted)
            del self._tasks[accepted]

    async def _handshake(self, accepted: socket.socket) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, _ = await self._loop.connect_accepted_socket(
            lambda: protocol, accepted, ssl=self._context, ssl_handshake_timeout=HANDSHAKE_S
        )
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _served(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer) -> None:
        self._open[writer] = peer.serial
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._behind)
            local_port: int = back.get_extra_info("sockname")[1]
            self._peers[local_port] = peer
            try:
                await _forward(reader, writer, there, back)
            finally:
                back.transport.abort()
                self._peers.pop(local_port, None)
        finally:
            del self._open[writer]


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
) -> None:
    """Carry bytes both ways until either side ends; what the server behind has said is delivered to its end."""
    pumps = {asyncio.create_task(_pump(reader, back)), answering := asyncio.create_task(_pump(there, writer))}
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        if reader.exception() is None and not reader.at_eof():  # the server takes no more, as of what is too large
            await asyncio.wait_for(asyncio.shield(answering), STOP_TIMEOUT_S)
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), STOP_TIMEOUT_S)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


def server_context(folder: Path) -> ssl.SSLContext:
    """Serves with our certificate, and takes certificates of the authorities from clients that show one."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / AUTHORITIES))
    context.load_cert_chain(folder / SERVER, folder / SERVER_KEY)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_serial(connection: ssl.SSLObject | ssl.SSLSocket) -> str:
    """Serial number of the certificate that the other side showed, decimal; empty without one."""
    shown = connection.getpeercert()
    return str(int(str(shown["serialNumber"]), 16)) if shown else ""


Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def behind_front(application: Wsgi, front: Callable[[int], Peer | None]) -> Wsgi:
    """An application that knows who is at the other end of the front, and serves nobody else.

    Args:
        application: any.
        front: who is behind a local port; :meth:`TlsFront.peer`.
    """

    @functools.wraps(application)
    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = front(int(environ.get("REMOTE_PORT", 0)))
        if peer is None:
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"this server takes requests through its HTTPS port only\n"]
        environ["REMOTE_ADDR"] = peer.address
        environ["wsgi.url_scheme"] = "https"
        environ[SERIAL] = peer.serial
        return application(environ, start_response)

    return serve


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


def _log_unforeseen(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if not isinstance(error, OSError):  # clients that go away, and handshakes that come to nothing
        _log.warning("tls_front", said=context.get("message"), error=repr(error))
