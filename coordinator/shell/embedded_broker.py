"""amqtt as we need it: who may connect, and as whom; what devices may say and hear; and three of its faults mended."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from amqtt.adapters import BufferReader, ReaderAdapter, WriterAdapter
from amqtt.broker import Broker
from amqtt.contexts import Action, ListenerConfig
from amqtt.errors import AMQTTError, MQTTError, NoDataError
from amqtt.mqtt.connect import ConnectPacket
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin
from amqtt.session import Session

from coordinator.enrolment.premises import BROKER, BROKER_KEY, authority_names, revoked_serials
from coordinator.shell.broker import SERVICE_USER, Doors
from coordinator.shell.tls_front import client_serial, server_context
from wire import topics
from wire.errors import RemoteProtocolError

DEVICES, SERVICE = "default", "service"
"""Names of the listeners."""
_OURS = "coordinator.shell.embedded_broker"


def configuration(doors: Doors) -> dict[str, Any]:
    """What amqtt is told."""
    listeners: dict[str, Any] = {
        DEVICES: {
            "type": "tcp",
            "bind": f"{doors.host}:{doors.port}",
            "max_connections": 0,
            "ssl": doors.tls is not None,
        }
    }
    plugins: dict[str, Any] = {
        f"{_OURS}.NamedClients": {"username": doors.username, "password": "" if doors.tls else doors.password}
    }
    if doors.tls is not None:
        listeners[SERVICE] = {
            "type": "tcp",
            "bind": f"127.0.0.1:{doors.service_port}",
            "max_connections": 0,
            "ssl": True,
        }
        plugins[f"{_OURS}.OwnTopics"] = {}
    return {"listeners": listeners, "plugins": plugins}


class NamedClients(BaseAuthPlugin):  # type: ignore[misc] # amqtt has no types
    """Who may connect: clients with a name, and with the password if there is one.

    amqtt forgets the sessions of anonymous clients, so a name is asked for even where any will do.
    """

    @dataclass
    class Config:
        """Set by :func:`configuration`; an empty password lets any name in."""

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
    """What a device may say and hear: its own topics, and the announcement. The coordinator may everything."""

    @dataclass
    class Config:
        """Nothing to set."""

    async def topic_filtering(
        self, *, session: Session | None = None, topic: str | None = None, action: Action | None = None
    ) -> bool:
        """Whether this client may do that."""
        if session is None or topic is None or action is None:
            return False
        if session.username == SERVICE_USER:
            return True
        return may_say(session.username, topic) if action is Action.PUBLISH else may_hear(session.username, topic)


def may_say(device: str, topic: str) -> bool:
    """Whether a device may publish there.

    >>> may_say("pi", "nightjar/1/demo/up/0/pi/report"), may_say("pi", "nightjar/1/demo/up/0/other/report")
    (True, False)
    """
    match _parsed(topic):
        case topics.UpTopic(device=whose) | topics.StatusTopic(device=whose):
            return whose == device
        case _:
            return False


def may_hear(device: str, topic: str) -> bool:
    """Whether a device may get what is published there, or subscribe to that filter.

    >>> may_hear("pi", "nightjar/1/demo/down/pi/+"), may_hear("pi", "nightjar/1/demo/down/+/receipt")
    (True, False)
    """
    if topic.endswith("/+"):
        topic = topic.removesuffix("+") + "receipt"
    match _parsed(topic):
        case topics.DownTopic(device=whose):
            return whose == device
        case topics.AnnounceTopic():
            return True
        case _:
            return False


class EmbeddedBroker(Broker):  # type: ignore[misc] # amqtt has no types
    """A broker that asks devices for certificates.

    amqtt 0.12 ends the session of whoever has the client id of a newcomer *before* it looks who that is. So the CONNECT
    is looked at here, first: a device gets the name in its certificate as user name and client id, whatever it says.

    It also sends every client that connects the retained messages of *all* subscriptions, other clients' too; the last
    method below, which is asked for each subscription of anybody, sends a client its own only. And it waits in the
    middle of walking the table of subscriptions (:class:`Subscriptions`).

    Args:
        settings: see :func:`configuration`.
        doors: where to listen, and for whom.
    """

    def __init__(self, settings: dict[str, Any], doors: Doors) -> None:
        super().__init__(settings)
        self._subscriptions = Subscriptions()
        self._doors = doors
        self._contexts: list[ssl.SSLContext] = []
        self._open: dict[WriterAdapter, str] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._revoked: frozenset[str] = frozenset()
        self._authorities: frozenset[str] = frozenset()
        self.reload()

    def reload(self) -> None:
        """Read certificates and revocations again; who is revoked is out. In the broker's loop."""
        if self._doors.tls is None:
            return
        self._revoked, self._authorities = revoked_serials(self._doors.tls), authority_names(self._doors.tls)
        for context in self._contexts:
            # Authorities can only be added to a context; those that are no longer ours are told apart by their names.
            context.load_verify_locations(cafile=str(self._doors.tls / "authorities.pem"))
            context.load_cert_chain(self._doors.tls / BROKER, self._doors.tls / BROKER_KEY)
        for writer, serial in self._open.items():
            if serial in self._revoked:
                task = asyncio.ensure_future(_close(writer))
                self._closing.add(task)  # asyncio itself keeps no hold of it
                task.add_done_callback(self._closing.discard)

    def _create_ssl_context(self, listener: ListenerConfig) -> ssl.SSLContext:
        context = server_context(_folder(self._doors))
        service = str(listener["bind"]).endswith(f":{self._doors.service_port}")
        context.verify_mode = ssl.CERT_NONE if service else ssl.CERT_REQUIRED
        self._contexts.append(context)
        return context

    async def _client_connected(self, listener_name: str, reader: ReaderAdapter, writer: WriterAdapter) -> None:
        if self._doors.tls is not None:
            connection = writer.get_ssl_info()
            try:
                allowed = listener_name == SERVICE or self._counts(connection)
                if allowed:
                    connect = await ConnectPacket.from_stream(reader)
                    allowed = self._admit(listener_name, connect, connection)
            except (AMQTTError, MQTTError, NoDataError, OSError, AttributeError):
                allowed = False  # not a CONNECT, or none that can be read
            if not allowed:
                await _close(writer)
                return
            reader = _Replayed(connect.to_bytes(), reader)
            self._open[writer] = client_serial(connection)
        try:
            await super()._client_connected(listener_name, reader, writer)
        finally:
            self._open.pop(writer, None)

    def _counts(self, connection: ssl.SSLObject) -> bool:
        """Whether the certificate of a device does, beyond what its handshake showed."""
        shown: Any = connection.getpeercert()
        return client_serial(connection) not in self._revoked and _common_name(shown["issuer"]) in self._authorities

    def _admit(self, listener: str, connect: ConnectPacket, connection: ssl.SSLObject) -> bool:
        given, flags = connect.payload, connect.variable_header
        if listener == SERVICE:
            return _knows(given.username, given.password, self._doors.username, self._doors.password)
        shown: Any = connection.getpeercert()
        device = _common_name(shown["subject"])
        if not self._counts(connection):  # revoked while we waited for this packet
            return False
        given.client_id, given.username, given.password = device, device, None
        given.client_id_is_random = False
        flags.username_flag, flags.password_flag = True, False
        return not flags.will_flag or may_say(device, given.will_topic or "")

    async def _publish_retained_messages_for_subscription(
        self, subscription: tuple[str, int], session: Session
    ) -> None:
        subscribers: list[tuple[Any, int]] = self.subscriptions.get(subscription[0], [])
        if any(subscriber.client_id == session.client_id for subscriber, _ in subscribers):
            await super()._publish_retained_messages_for_subscription(subscription, session)


class Subscriptions(dict[str, list[tuple[Session, int]]]):
    """Who wants which topics: filter -> subscribers with their quality of service. A walk sees it as it began.

    amqtt walks this table for each message, and waits in between. If somebody subscribed or left meanwhile, the
    walk of a dict breaks off, and who comes after never gets a message for which its sender has been thanked.
    """

    def __iter__(self) -> Iterator[str]:
        return iter(list(super().__iter__()))

    def items(self) -> Any:  # a list, where dict promises a view
        """Filters and their subscribers, at this moment."""
        return [(wanted, list(subscribers)) for wanted, subscribers in super().items()]


class _Replayed(ReaderAdapter):  # type: ignore[misc] # amqtt has no types
    """What was read already, and then the rest."""

    def __init__(self, begun: bytes, rest: ReaderAdapter) -> None:
        self._begun, self._rest, self._left = BufferReader(begun), rest, len(begun)

    async def read(self, n: int = -1) -> bytes:
        if not self._left:
            return bytes(await self._rest.read(n))
        piece = bytes(await self._begun.read(n))
        self._left -= len(piece)
        return piece

    def feed_eof(self) -> None:
        self._rest.feed_eof()


async def _close(writer: WriterAdapter) -> None:
    with contextlib.suppress(OSError):
        await writer.close()


def _folder(doors: Doors) -> Path:
    if doors.tls is None:
        msg = "a listener with TLS needs a folder with certificates"
        raise ValueError(msg)
    return doors.tls


def _common_name(name: tuple[tuple[tuple[str, str], ...], ...]) -> str:
    return next((value for part in name for key, value in part if key == "commonName"), "")


def _knows(username: str | None, password: str | None, wanted: str, secret: str) -> bool:
    return hmac.compare_digest(f"{username}\0{password or ''}".encode(), f"{wanted}\0{secret}".encode())


def _parsed(topic: str) -> topics.Topic | None:
    try:
        return topics.parse(topic)
    except RemoteProtocolError:
        return None
