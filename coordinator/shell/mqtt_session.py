"""One durable MQTT session: a socket, a thread, and what is not yet acknowledged in either direction.

Not paho, because the coordinator drains bursts of thousands of reports: this reads and writes hundreds of packets with
one system call, where paho makes five to read one (docs/adr/0011-group-commit-and-our-own-mqtt-session.md). It does
what the coordinator needs and no more: MQTT 3.1.1 over TCP, QoS 1, one set of subscriptions, acknowledgements by hand.

Delivery is at least once both ways while the process lives. What was published and not acknowledged is sent again after
a reconnect; what came and was not acknowledged the broker sends again.
"""

from __future__ import annotations

import contextlib
import functools
import random
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import structlog

from coordinator.shell import mqtt_packets as packets
from wire.errors import RemoteProtocolError

KEEPALIVE_S = 30
"""After 1.5 times this silence the broker gives us up, and we give up the broker."""
CONNECT_TIMEOUT_S = 10.0
MAX_IN_FLIGHT = 1000
"""Published and not acknowledged by the broker; more wait here."""
MAX_QUEUED = 100_000
"""Messages that wait while the broker is away; what is beyond is not sent, and devices ask again."""
RECONNECT_S = (1.0, 30.0)
"""First and longest wait between attempts; half of each is random, so that many services spread."""

_READ_BYTES = 2 * 2**20
_REST_S = 0.003
"""After a read, before the next one: the broker acknowledges every receipt in four bytes of its own, and to read those
one by one would take the interpreter from the driver hundreds of times in a burst."""
_POLL_S = 1.0
_SUBSCRIPTION = 65535
_REFUSALS = {1: "protocol version", 2: "client id", 3: "not available", 4: "user name or password", 5: "not authorized"}

_log = structlog.get_logger("coordinator")


@dataclass(frozen=True, slots=True)
class Hooks:
    """Who is told; called on the session's thread, must not block.

    Attributes:
        up: we are connected and subscribed; whether the broker had kept our session.
        down: the connection ended, and why.
        refused: the broker does not want us, or not our subscriptions, and why; ``down`` is told as well.
        unreachable: nobody answers; said once until the next connection.
        arrived: a message, and what to call when it is dealt with.
    """

    up: Callable[[bool], None]
    down: Callable[[str], None]
    refused: Callable[[str], None]
    unreachable: Callable[[], None]
    arrived: Callable[[packets.Message, Callable[[], None]], None]


class _RefusalError(ConnectionError):
    """An answer that will hardly be another one the next time."""


class Session:
    """A connection that is made again whenever it breaks.

    Args:
        address: host and port of the broker.
        client_id: names the session; whoever else connects with it takes it over.
        login: user name and password, empty for none.
        filters: (topic filter, QoS) pairs.
        hooks: who is told.
        tls: encrypts; None speaks plain text.
    """

    def __init__(
        self,
        address: tuple[str, int],
        client_id: str,
        login: tuple[str, str],
        filters: Sequence[tuple[str, int]],
        hooks: Hooks,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._address, self._client_id, self._login = address, client_id, login
        self._filters, self._hooks = filters, hooks
        self._connected = self._session_kept = self._full_said = False
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._generation = 0  # of the connection
        self._acknowledgements: deque[bytes] = deque()
        self._waiting: deque[tuple[str, bytes, bool]] = deque()
        self._in_flight: dict[int, bytes] = {}
        self._number = 0
        self._asleep = self._gathering = False
        self._waker, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"mqtt {client_id}", daemon=True)

    @property
    def connected(self) -> bool:
        """The broker has us and our subscriptions. Any thread."""
        return self._connected

    def start(self) -> None:
        """Begin to connect, and keep trying for ever."""
        self._thread.start()

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what waits if the broker is there, say goodbye, and end; the broker keeps the session."""
        self._closing.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            self._waker.close()
            self._woken.close()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once while the process lives; never blocks. Any thread."""
        if len(self._waiting) >= MAX_QUEUED:
            if not self._full_said:
                self._full_said = True
                _log.error("outgoing_queue_full", messages=MAX_QUEUED, remedy="devices will ask again")
            return
        self._waiting.append((topic, payload, retain))
        self._wake()

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is published and acknowledged meanwhile goes out in the end, at once. One thread at a time."""
        self._gathering = True
        try:
            yield
        finally:
            self._gathering = False
            if self._waiting or self._acknowledgements:
                self._wake()

    def _acknowledge(self, generation: int, number: int) -> None:
        with self._lock:
            # After a reconnect the same number may mean another message; the old one is sent again anyway.
            if generation == self._generation:
                self._acknowledgements.append(packets.puback(number))
        self._wake()

    def _wake(self) -> None:
        if self._asleep and not self._gathering:  # one system call for a batch, not one for each message
            self._asleep = False
            self._waker.send(b"\0")

    # The session's thread from here on

    def _run(self) -> None:
        wait_s, said_unreachable = RECONNECT_S[0], False
        while not self._closing.is_set():
            try:
                connection = self._connect()
            except ssl.SSLError as error:
                self._hooks.refused(f"no encrypted connection comes about: {error.reason}")
            except OSError:
                if not said_unreachable:
                    said_unreachable = True
                    self._hooks.unreachable()
            else:
                with connection:
                    if self._converse(_Link(connection)):
                        wait_s, said_unreachable = RECONNECT_S[0], False
            self._closing.wait(wait_s * random.uniform(0.5, 1.0))  # noqa: S311 - spreads reconnects, protects nothing
            wait_s = min(2 * wait_s, RECONNECT_S[1])

    def _connect(self) -> socket.socket:
        connection = socket.create_connection(self._address, CONNECT_TIMEOUT_S)
        if self._tls is None:
            return connection
        try:
            return self._tls.wrap_socket(connection, server_hostname=self._address[0])
        except OSError:
            connection.close()
            raise

    def _converse(self, link: _Link) -> bool:
        """From CONNECT until the connection ends, for whatever reason; whether it ever stood."""
        with self._lock:
            self._generation += 1
            self._acknowledgements.clear()
        try:
            link.write(packets.connect(self._client_id, *self._login, KEEPALIVE_S, clean=False))
            self._exchange(link)
        except RemoteProtocolError as error:
            reason = str(error)
        except _RefusalError as error:
            reason = str(error)
            self._hooks.refused(reason)
        except OSError as error:
            reason = error.strerror or str(error)
        except Exception as error:
            # A defect of ours must not end the thread that everything comes through.
            _log.exception("mqtt_session_failed")
            reason = f"unforeseen {type(error).__name__}"
        else:
            reason = ""  # closed by us
        stood, self._connected = self._connected, False
        if reason:
            self._hooks.down(reason)
        return stood

    def _exchange(self, link: _Link) -> None:
        while True:
            self._send_ready(link)
            link.flush()
            if self._closing.is_set() and link.idle:
                break
            self._sleep(link)
            for first, body in link.read():
                self._take(first, body, link)
            link.keep_alive(established=self._connected)
        link.write(packets.DISCONNECT)
        link.flush()

    def _send_ready(self, link: _Link) -> None:
        ready: list[bytes] = []
        while self._acknowledgements:
            ready.append(self._acknowledgements.popleft())
        while self._connected and self._waiting and len(self._in_flight) < MAX_IN_FLIGHT:
            topic, payload, retain = self._waiting.popleft()
            number = self._free_number()
            self._in_flight[number] = packets.publish(topic, payload, number, retain=retain)
            ready.append(self._in_flight[number])
        if ready:
            link.write(b"".join(ready))

    def _sleep(self, link: _Link) -> None:
        """Until something can be read or written."""
        self._asleep = True
        sendable = self._connected and self._waiting and len(self._in_flight) < MAX_IN_FLIGHT
        link.poll(self._woken, 0.0 if self._acknowledgements or sendable or self._closing.is_set() else _POLL_S)
        self._asleep = False

    def _take(self, first: int, body: memoryview, link: _Link) -> None:
        match first & 0xF0:
            case packets.PUBLISH:
                message = packets.read_publish(first, body)
                self._hooks.arrived(message, self._acknowledgement(message.number))
            case packets.PUBACK:
                self._in_flight.pop(packets.read_number(body), None)
            case packets.CONNACK:
                self._session_kept, refusal = packets.read_connack(body)
                if refusal:
                    msg = f"the broker refused us: {_REFUSALS.get(refusal, refusal)}"
                    raise _RefusalError(msg)
                link.write(packets.subscribe(_SUBSCRIPTION, self._filters))
            case packets.SUBACK:
                if packets.REFUSED in body[2:]:
                    msg = "the broker refused our subscriptions; check its access list"
                    raise _RefusalError(msg)
                self._connected, self._full_said = True, False
                for published in self._in_flight.values():
                    link.write(packets.again(published))
                self._hooks.up(self._session_kept)
            case _:
                pass  # PINGRESP: that it came is enough

    def _acknowledgement(self, number: int | None) -> Callable[[], None]:
        if number is None:
            return _nothing
        return functools.partial(self._acknowledge, self._generation, number)

    def _free_number(self) -> int:
        while True:
            self._number = self._number % (_SUBSCRIPTION - 1) + 1
            if self._number not in self._in_flight:
                return self._number


def _nothing() -> None:
    """At QoS 0 nobody waits for an acknowledgement."""


class _Link:
    """A connected socket that never blocks, with what could not be written yet and when we last heard of the broker."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._socket = connection
        self._reader = packets.Reader(room_bytes=_READ_BYTES)
        self._unsent = b""
        self._readable = self._just_read = False
        self._heard_s = self._begun_s = self._pinged_s = time.monotonic()

    @property
    def idle(self) -> bool:
        """All that was written is with the kernel."""
        return not self._unsent

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        self._unsent += data

    def flush(self) -> None:
        """Hand over to the kernel what it takes."""
        if self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                return

    def poll(self, woken: socket.socket, timeout_s: float) -> None:
        """Wait until the broker or the other socket has something, or the broker takes what is unsent."""
        writers = [self._socket] if self._unsent else []
        if self._just_read:
            select.select([woken], writers, [], min(timeout_s, _REST_S))
            self._just_read = False
        readers, _, _ = select.select([self._socket, woken], writers, [], timeout_s)
        self._readable = self._socket in readers
        if woken in readers:
            woken.recv(4096)

    def read(self) -> Iterator[tuple[int, memoryview]]:
        """The packets that came; the body of each is only there until the next one."""
        while self._readable:
            with self._reader.room() as room:
                try:
                    size_bytes = self._socket.recv_into(room)
                except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    return  # not a whole record yet
            if not size_bytes:
                msg = "closed by the broker"
                raise ConnectionError(msg)
            self._heard_s, self._just_read = time.monotonic(), True
            yield from self._reader.packets(size_bytes)
            # What the encryption has taken from the kernel already, the kernel does not say any more.
            self._readable = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0

    def keep_alive(self, *, established: bool) -> None:
        """Ask for a sign of life now and then, and notice when none comes."""
        now_s = time.monotonic()
        if now_s - self._heard_s > 1.5 * KEEPALIVE_S or (not established and now_s - self._begun_s > CONNECT_TIMEOUT_S):
            msg = "the broker is silent"
            raise ConnectionError(msg)
        if established and now_s - self._pinged_s > KEEPALIVE_S / 2:
            self._pinged_s = now_s
            self.write(packets.PINGREQ)
