"""The embedded broker: amqtt with authentication, access control, limits and fixes for its bugs."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import ssl
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from amqtt.adapters import ReaderAdapter, WriterAdapter
from amqtt.broker import Broker, RetainedApplicationMessage
from amqtt.contexts import Action, ListenerConfig
from amqtt.errors import AMQTTError, MQTTError, NoDataError
from amqtt.mqtt.connect import ConnectPacket
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session

from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.rate_limits import CONNECTION_COST, CutOff, DeviceRateLimits, cost_of
from nightjar.coordinator.tls.contexts import client_name, client_serial, server_context
from nightjar.coordinator.tls.files import SERVICE_USER, authority_names, broker_pair, refused_serials
from nightjar.wire import topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import MAX_PACKET_BYTES

DEVICES, SERVICE = "default", "service"
"""Names of the listeners."""
CONNECT_TIMEOUT_S = 30.0
"""Time limit from the end of the TLS handshake to the end of the first packet."""
MAX_QUEUED = 4000
"""Maximum messages queued for an offline client: four per device of the largest population that amqtt can serve."""
_OURS = "nightjar.coordinator.mqtt.embedded_broker"


def configuration(listeners: Listeners) -> dict[str, Any]:
    """The configuration of amqtt."""
    every: dict[str, Any] = {"type": "tcp", "max_connections": 0, "ssl": listeners.tls is not None}
    each = {DEVICES: {**every, "bind": f"{listeners.host}:{listeners.port}"}}
    plugins: dict[str, Any] = {
        f"{_OURS}.NamedClients": {
            "username": listeners.username,
            "password": "" if listeners.tls else listeners.password,
        }
    }
    if listeners.tls is not None:
        each[SERVICE] = {**every, "bind": f"127.0.0.1:{listeners.service_port}"}
        plugins[f"{_OURS}.OwnTopics"] = {"population": listeners.population, "shards": listeners.shards}
    return {"listeners": each, "plugins": plugins}


class NamedClients(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no types
    """Authentication: admits clients with a user name, and with the password if one is set.

    amqtt discards the sessions of anonymous clients, so a name is required even if any name will do.
    """

    @dataclass
    class Config:
        """Set by :func:`configuration`; an empty password admits any name."""

        username: str = ""
        password: str = ""

    async def authenticate(self, *, session: Session) -> bool:
        """Whether this client may connect."""
        if not session.username:
            return False
        return not self.config.password or _knows(
            session.username, session.password, self.config.username, self.config.password
        )


class OwnTopics(BaseTopicPlugin):  # type: ignore[misc] # amqtt has no types
    """Access control: a device may use its own topics and receive announcements; the coordinator may use all topics."""

    @dataclass
    class Config:
        """Set by :func:`configuration`."""

        population: str = ""
        shards: int = 1

    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        """Whether this client may perform the action on the topic."""
        if session is None or topic is None or action is None:
            return False
        if session.username == SERVICE_USER:
            return True
        if action is Action.PUBLISH:
            return may_say(session.username, topic, self.config.population, self.config.shards)
        return may_hear(session.username, topic, self.config.population)


def may_say(device: str, topic: str, population: str, shards: int) -> bool:
    """Whether a device may publish on a topic.

    >>> may_say("pi", "nightjar/1/demo/up/0/pi/report", "demo", 1)
    True
    >>> may_say("pi", "nightjar/1/demo/up/0/other/report", "demo", 1)
    False
    >>> may_say("pi", "nightjar/1/another/status/pi", "demo", 1)
    False
    """
    match _parsed(topic):
        case topics.UpTopic(population=where, shard=shard, device=whose):
            return whose == device and where == population and shard < shards
        case topics.StatusTopic(population=where, device=whose):
            return whose == device and where == population
        case _:
            return False


def may_hear(device: str, topic: str, population: str) -> bool:
    """Whether a device may receive messages on a topic, or subscribe to a filter.

    >>> may_hear("pi", "nightjar/1/demo/down/pi/+", "demo"), may_hear("pi", "nightjar/1/demo/down/+/receipt", "demo")
    (True, False)
    """
    if topic.endswith("/+"):
        topic = topic.removesuffix("+") + "receipt"
    match _parsed(topic):
        case topics.DownTopic(population=where, device=whose):
            return whose == device and where == population
        case topics.AnnounceTopic(population=where):
            return where == population
        case _:
            return False


class EmbeddedBroker(Broker):  # type: ignore[misc] # amqtt has no types
    """A broker that requires device certificates, rejects large packets, and retains only statuses and announcements.

    It counts a device's packets and connections where it reads them. A device above its rate limit is hung up on and
    refused, and what it sent and nobody got yet is dropped: amqtt's queues have no bound, so others would wait behind.

    It works around these bugs of amqtt 0.12:

    - amqtt ends the session with the client id of a new client *before* it authenticates that client. So this class
      checks the CONNECT first: a device's user name and client id are the name in its certificate, whatever it sends.
    - amqtt sends the retained messages of *all* clients' subscriptions to every client that connects. Here a client
      gets only those of its own subscriptions.
    - amqtt marks messages queued for an offline client as retained, so that they look like real retained messages.
    - amqtt awaits while it iterates over the subscription table (:class:`Subscriptions`).
    - amqtt writes every message out for a log that nobody asked for (:class:`Broadcasts`).
    """

    def __init__(self, settings: dict[str, Any], listeners: Listeners) -> None:
        super().__init__(settings)
        self._subscriptions = Subscriptions()
        self._broadcast_queue = Broadcasts()
        self._listeners = listeners
        self._contexts: list[ssl.SSLContext] = []
        self._open: dict[WriterAdapter, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._limits = DeviceRateLimits(time.monotonic, self._flooded)
        self._revoked: frozenset[str] = frozenset()
        self._authorities: frozenset[str] = frozenset()
        self.reload()

    def reload(self) -> None:
        """Reload certificates and revocations, and disconnect revoked devices. Runs in the broker's event loop."""
        if self._listeners.tls is None:
            return
        self._revoked, self._authorities = refused_serials(self._listeners.tls), authority_names(self._listeners.tls)
        for context in self._contexts:
            # Authorities can only be added to a context; removed ones are rejected by name in _counts.
            context.load_verify_locations(cafile=str(self._listeners.tls / "authorities.pem"))
            context.load_cert_chain(*broker_pair(self._listeners.tls))
        for writer, serial in self._open.items():
            if serial in self._revoked:
                task = asyncio.ensure_future(_close(writer))
                self._closing.add(task)  # asyncio keeps only a weak reference
                task.add_done_callback(self._closing.discard)

    def _create_ssl_context(self, listener: ListenerConfig) -> ssl.SSLContext:
        folder = self._listeners.tls
        assert folder is not None  # without it no listener has TLS
        context = server_context(folder, *broker_pair(folder))
        service = str(listener["bind"]).endswith(f":{self._listeners.service_port}")
        context.verify_mode = ssl.CERT_NONE if service else ssl.CERT_REQUIRED
        self._contexts.append(context)
        return context

    async def _client_connected(self, listener_name: str, reader: ReaderAdapter, writer: WriterAdapter) -> None:
        packets, connection = _Packets(reader), writer.get_ssl_info()
        try:
            allowed = self._listeners.tls is None or listener_name == SERVICE or self._counts(connection)
            if allowed and self._listeners.tls is not None and listener_name != SERVICE:
                device = client_name(connection)
                allowed = self._limits.admits(device, CONNECTION_COST)
                packets.admits = lambda size_bytes: self._limits.admits(device, cost_of(size_bytes))
            if allowed:
                await asyncio.wait_for(packets.wait(), CONNECT_TIMEOUT_S)
            if allowed and self._listeners.tls is not None:
                connect = await ConnectPacket.from_stream(packets)
                allowed = self._admit(listener_name, connect, connection)
                packets.put_back(connect.to_bytes())
        except (AMQTTError, MQTTError, NoDataError, OSError, EOFError, AttributeError):
            allowed = False  # not a CONNECT, a malformed one, or none in time
        if not allowed:
            await _close(writer)
            return
        if self._listeners.tls is not None:
            self._open[writer] = client_serial(connection)
        try:
            await super()._client_connected(listener_name, packets, writer)
        finally:
            self._open.pop(writer, None)

    def _flooded(self, cut_off: CutOff) -> None:
        waiting = [self._broadcast_queue.get_nowait() for _ in range(self._broadcast_queue.qsize())]
        for each in waiting:
            if not _is_of(each["session"], cut_off.device):
                self._broadcast_queue.put_nowait(each)
        if self._listeners.floods is not None:
            with contextlib.suppress(OSError):  # the coordinator ends, and we with it
                os.write(self._listeners.floods, f"{cut_off.device}\n".encode())

    async def _handle_message_delivery(self, client_session: Session, handler: Any, wait_deliver: Any) -> bool:
        if client_session.username and self._limits.is_cut_off(client_session.username):
            return True
        return bool(await super()._handle_message_delivery(client_session, handler, wait_deliver))

    def _counts(self, connection: ssl.SSLObject) -> bool:
        """Whether a device's certificate is valid beyond the TLS handshake: not revoked, and of a current authority."""
        shown: Any = connection.getpeercert()
        return client_serial(connection) not in self._revoked and _common_name(shown["issuer"]) in self._authorities

    def _admit(self, listener: str, connect: ConnectPacket, connection: ssl.SSLObject) -> bool:
        given, flags = connect.payload, connect.variable_header
        if listener == SERVICE:
            return _knows(given.username, given.password, self._listeners.username, self._listeners.password)
        shown: Any = connection.getpeercert()
        device = _common_name(shown["subject"])
        if not self._counts(connection):  # revoked while waiting for this packet
            return False
        given.client_id, given.username, given.password = device, device, None
        given.client_id_is_random = False
        flags.username_flag, flags.password_flag = True, False
        listeners = self._listeners
        return not flags.will_flag or may_say(device, given.will_topic or "", listeners.population, listeners.shards)

    async def retain_message(
        self, source_session: Session | None, topic_name: str | None, data: bytes | None, qos: int | None = None
    ) -> None:
        """Retain only statuses and announcements; clear any retained message."""
        if not data or isinstance(_parsed(topic_name or ""), topics.StatusTopic | topics.AnnounceTopic):
            await super().retain_message(source_session, topic_name, data, qos)

    async def _retain_broadcast_message(self, broadcast: dict[str, Any], qos: int, target_session: Session) -> None:
        if target_session.retained_messages.qsize() < MAX_QUEUED:
            await super()._retain_broadcast_message(broadcast, qos, target_session)

    async def _publish_session_retained_messages(self, session: Session) -> None:
        handler, waited = self._get_handler(session), session.retained_messages
        kept: list[RetainedApplicationMessage] = [waited.get_nowait() for _ in range(waited.qsize())]
        if handler and kept:
            await asyncio.wait(
                [asyncio.ensure_future(handler.mqtt_publish(m.topic, m.data, m.qos, retain=False)) for m in kept]
            )

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        subscribers: list[tuple[Any, int]] = self.subscriptions.get(subscription[0], [])
        if any(subscriber.client_id == session.client_id for subscriber, _ in subscribers):
            await super()._publish_retained_messages_for_subscription(subscription, session)


class Subscriptions(dict[str, list[tuple[Session, int]]]):
    """The subscription table: filter -> subscribers with their quality of service. Iteration uses a snapshot.

    amqtt iterates over this table for each message, and awaits in between. If a client subscribes or leaves meanwhile,
    iterating over a plain dict fails, and the remaining subscribers miss a message that was already acknowledged.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))

    def items(self) -> Any:  # a list instead of dict's view
        """A snapshot of the filters and their subscribers."""
        return [(wanted, list(subscribers)) for wanted, subscribers in super().items()]


class Broadcasts(asyncio.Queue[dict[str, Any]]):
    """The queue of messages that go out to subscribers. Written out they are short.

    amqtt formats each for its log before it asks whether to log: 120 KiB took a millisecond, more than all else.
    """

    def _put(self, item: dict[str, Any]) -> None:
        super()._put(_Short(item))


class _Short(dict[str, Any]):
    def __repr__(self) -> str:
        return f"{len(self['data'] or b'')} bytes on {self['topic']}"


class _Packets(ReaderAdapter):  # type: ignore[misc] # amqtt has no types
    """Reads a client's stream packet by packet: amqtt gets only complete packets, and never reads past their end.

    A packet above the limit closes the connection as soon as its length is known, before its body is read. So does one
    that :attr:`admits` refuses, which is given its size.
    """

    def __init__(self, reader: ReaderAdapter) -> None:
        self._reader = reader
        self.admits: Callable[[int], bool] = lambda _size_bytes: True
        self._begun = bytearray()  # kept when amqtt cancels the wait after the keep-alive time
        self._left = b""

    async def read(self, n: int = -1) -> bytes:
        if n and not self._left:
            await self.wait()
        piece, self._left = (self._left, b"") if n < 0 else (self._left[:n], self._left[n:])
        return piece

    async def wait(self) -> None:
        """Wait until a complete packet has arrived.

        Raises:
            ConnectionResetError: the packet is too large, or one too many.
            EOFError: the client closed the connection.
        """
        while (length := _packet_bytes(self._begun)) is None:
            self._begun += await self._reader.read(1)
        if length > MAX_PACKET_BYTES:
            msg = f"expected a packet of at most {MAX_PACKET_BYTES} bytes, got {length}"
            raise ConnectionResetError(msg)
        if length > len(self._begun):
            self._begun += await self._reader.read(length - len(self._begun))
        self._left, self._begun = bytes(self._begun), bytearray()
        if not self.admits(length):
            msg = "the device sent more than its rate limit"
            raise ConnectionResetError(msg)

    def put_back(self, packet: bytes) -> None:
        """Make this packet the next one to be read."""
        self._left = packet

    def feed_eof(self) -> None:
        self._reader.feed_eof()


def _packet_bytes(begun: bytes | bytearray) -> int | None:
    """Length of a packet including its header; None until the header is complete.

    >>> _packet_bytes(bytes([0x30, 0x80, 0x01])), _packet_bytes(bytes([0x30, 0x80]))
    (131, None)
    """
    length = 0
    for place, byte in enumerate(begun[1:5]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return 2 + place + length
    return None if len(begun) < 5 else sys.maxsize  # a length of more than four bytes: not MQTT


def _is_of(session: Session | None, device: str) -> bool:
    return session is not None and session.username == device


async def _close(writer: WriterAdapter) -> None:
    with contextlib.suppress(OSError):
        await writer.close()


def _common_name(name: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return next((value for part in name for key, value in part if key == "commonName"), "")


def _knows(username: str | None, password: str | None, wanted: str, secret: str) -> bool:
    return hmac.compare_digest(f"{username}\0{password or ''}".encode(), f"{wanted}\0{secret}".encode())


def _parsed(topic: str) -> topics.Topic | None:
    try:
        return topics.parse(topic)
    except RemoteProtocolError:
        return None
