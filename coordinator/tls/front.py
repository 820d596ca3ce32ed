"""HTTPS in front of a WSGI server that knows only plain text (waitress has no TLS).

Bytes are forwarded unchanged: each accepted connection gets its own connection to the server behind, over loopback. The
peer (address, serial number of the client's certificate) is recorded under the local end of that second connection,
which the server passes on as ``REMOTE_ADDR`` and ``REMOTE_PORT``. So this module parses no HTTP, no header identifies
the peer, and a connection to the server behind that bypassed this front is recognised and refused: another user of this
machine can connect from the same port, but not from the same address as well.

A client may present a certificate; an invalid one fails the handshake. Revocation is checked at each request, by the
application; :meth:`TlsFront.drop` ends connections that are already open. A device that connects more often than its
rate limit is hung up on.

Clients without a certificate, and all clients during the handshake, share three quarters of the places. When these are
taken, a new connection evicts the oldest one of the address that has the most. So strangers cannot lock devices out,
however many addresses they use.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import threading
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from nightjar.coordinator.tls.contexts import client_name, client_serial, server_context
from nightjar.coordinator.tls.files import coordinator_pair
from nightjar.coordinator.tls.proxy_protocol import client_behind
from nightjar.wire.addresses import network_of
from nightjar.wire.errors import ConfigError, RemoteProtocolError, rewording

HANDSHAKE_S = 10.0
STOP_TIMEOUT_S = 5.0
LOOP_TIMEOUT_S = 60.0
"""Longest wait for work in the event loop; it is immediate unless a thousand handshakes on a slow machine come
first."""
NO_DESCRIPTORS_S = 0.1
"""Wait before accepting again when the system has no file descriptor left."""
PIECE_BYTES = 64 * 1024
PLACES_WITHOUT_CERTIFICATE = 64
"""Most open connections per address without a certificate; a browser opens six."""
SERIAL = "nightjar.serial"
"""Key in the WSGI environment: serial number of the client's certificate, decimal; empty without one."""

PEER_PORT = "nightjar.peer_port"
"""Key in the WSGI environment: the client's port."""

OUR_END = "nightjar.our_end"
"""Key in the WSGI environment: the address and port on which the client reached us."""

_log = structlog.get_logger("coordinator")


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of a connection."""

    address: str  # its network address
    serial: str  # serial number of its certificate, decimal; empty without one
    port: int = 0  # its port; 0 behind a proxy
    reached: tuple[str, int] = ("", 0)  # our end of its connection


class TlsFront:
    """Listens for HTTPS until it is closed.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        folder: holds our certificate and the authorities (:mod:`nightjar.coordinator.tls.files`).
        behind: port of the WSGI server on 127.0.0.1.
        most_connections: most simultaneous connections; further ones are closed.
        listener: socket that is listening already; closed at the end.
        trusted_proxy: address of a proxy, or ``*`` for any, that may name the client by the PROXY protocol.
        admits: counts a device's connection, and says whether to serve it.

    Raises:
        ConfigError: cannot listen on this address and port.
    """

    def __init__(
        self,
        host: str,
        port: int,
        folder: Path,
        behind: int,
        most_connections: int,
        listener: socket.socket | None = None,
        trusted_proxy: str = "",
        admits: Callable[[str], bool] = lambda _device: True,
    ) -> None:
        self._trusted_proxy, self._admits = trusted_proxy, admits
        self._folder, self._behind, self._most_connections = folder, behind, most_connections
        self._most_strangers = max(1, 3 * most_connections // 4)
        self._most_of_a_stranger = min(PLACES_WITHOUT_CERTIFICATE, max(1, most_connections // 4))
        self._peers: dict[tuple[str, int], Peer] = {}
        self._open: dict[asyncio.StreamWriter, str] = {}
        self._tasks: dict[socket.socket, asyncio.Task[None]] = {}
        self._strangers: dict[str, dict[socket.socket, bool]] = {}
        """Address -> connections without a certificate (so far), oldest first -> whether the handshake is done."""
        with rewording(ConfigError, f"cannot listen on {host} port {port}", "give another port"):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._socket = listener or socket.create_server((host, port), family=family, backlog=1024)
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self.reload()
        self._loop = asyncio.new_event_loop()
        self._accepting = self._loop.create_task(self._accept())
        self._thread = threading.Thread(target=self._run, name="tls front", daemon=True)
        self._thread.start()

    def peer(self, address: str, port: int) -> Peer | None:
        """The client behind a connection to the WSGI server; None if it bypassed this front. Thread-safe."""
        return self._peers.get((address, port))

    def reload(self) -> None:
        """Reload our certificate and the authorities for new connections. Thread-safe."""
        self._context = server_context(self._folder, *coordinator_pair(self._folder))

    def drop(self, serials: Container[str]) -> None:
        """End the connections of clients with these certificates. Thread-safe."""
        self._in_loop(self._drop(serials))

    def stop_listening(self) -> None:
        """Accept no new connections; open ones continue."""
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
        for accepted in self._tasks:  # their tasks had not started yet
            accepted.close()

    async def _accept(self) -> None:
        while True:
            try:
                accepted, (address, port, *_) = await self._loop.sock_accept(self._socket)
            except OSError:
                await asyncio.sleep(NO_DESCRIPTORS_S)
                continue
            if self._has_room():
                self._strangers.setdefault(network_of(address), {})[accepted] = False
                self._tasks[accepted] = self._loop.create_task(self._connected(accepted, address, port))
            else:
                accepted.close()
            await asyncio.sleep(0)  # sock_accept does not yield to other tasks while a connection is waiting

    def _has_room(self) -> bool:
        """Whether there is a place for a new connection; evicts one without a certificate if necessary."""
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

    async def _connected(self, accepted: socket.socket, address: str, port: int) -> None:
        network = network_of(address)
        try:
            with contextlib.suppress(OSError, TimeoutError, RemoteProtocolError):
                if self._trusted_proxy in {"*", address}:
                    address, port = await _named(accepted, address), 0
                    self._forget(network, accepted)
                    network = network_of(address)
                    self._strangers.setdefault(network, {})[accepted] = False
                reader, writer = await self._handshake(accepted)
                try:
                    connection = writer.get_extra_info("ssl_object")
                    serial = client_serial(connection)
                    if serial:
                        self._forget(network, accepted)
                        if not self._admits(client_name(connection)):
                            return
                    elif sum(self._strangers[network].values()) < self._most_of_a_stranger:
                        self._strangers[network][accepted] = True
                    else:
                        return
                    await self._served(reader, writer, Peer(address, serial, port, accepted.getsockname()[:2]))
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
            from_here: tuple[str, int] = back.get_extra_info("sockname")[:2]
            self._peers[from_here] = peer
            try:
                await _forward(reader, writer, there, back)
            finally:
                back.transport.abort()
                self._peers.pop(from_here, None)
        finally:
            del self._open[writer]


async def _named(accepted: socket.socket, proxy: str) -> str:
    try:
        async with asyncio.timeout(HANDSHAKE_S):
            return await client_behind(accepted, proxy)
    except BaseException:
        accepted.close()
        raise


async def _forward(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader, back: asyncio.StreamWriter
) -> None:
    """Forward bytes both ways until either side ends; the server's answer is delivered completely."""
    pumps = {asyncio.create_task(_pump(reader, back)), answering := asyncio.create_task(_pump(there, writer))}
    try:
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        if reader.exception() is None and not reader.at_eof():  # the server ended first, as on too large a request
            await asyncio.wait_for(asyncio.shield(answering), STOP_TIMEOUT_S)
            writer.close()
            await asyncio.wait_for(writer.wait_closed(), STOP_TIMEOUT_S)
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)


Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def behind_front(application: Wsgi, front: Callable[[str, int], Peer | None]) -> Wsgi:
    """Wrap an application so that it knows the client, which ``front`` finds by local end, and refuses all others."""

    @functools.wraps(application)
    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = front(environ.get("REMOTE_ADDR", ""), int(environ.get("REMOTE_PORT", 0)))
        if peer is None:
            start_response("421 Misdirected Request", [("Content-Type", "text/plain")])
            return [b"this server takes requests through its HTTPS port only\n"]
        environ["REMOTE_ADDR"] = peer.address
        environ["wsgi.url_scheme"] = "https"
        environ[SERIAL] = peer.serial
        environ[PEER_PORT] = peer.port
        environ[OUR_END] = peer.reached
        return application(environ, start_response)

    return serve


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE_BYTES):
        writer.write(piece)
        await writer.drain()


def _log_unforeseen(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if not isinstance(error, OSError):  # OSError: clients that disconnect, and failed handshakes
        _log.warning(
            "tls_front",
            said=context.get("message"),
            error=None if error is None else f"{type(error).__name__}: {error}",
        )
