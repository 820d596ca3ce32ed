"""The coordinator's MQTT client: paho, with one persistent session per ingest shard.

Callbacks only queue bytes and never raise, because paho would deliver the same message forever. A message is
acknowledged after the driver has stored its effect; until then the broker keeps it, even while the coordinator is down.
The client reports what the broker does wrong: dropped messages, a lost session, a refusal.

Not every broker enforces limits, so the client has its own. It truncates an oversized packet to one byte more than the
limit. It stops reading while the driver is far behind; if the broker then closes the connection, it keeps the messages.
It drops what a device sends beyond its rate limit, and what still waits for the driver when the device is cut off, so
that the messages of others are reached soon. With TLS, what it still sends then is dropped before paho parses it
(:mod:`nightjar.coordinator.mqtt.sieve`).
"""

from __future__ import annotations

import functools
import random
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.reasoncodes import ReasonCode

from nightjar.coordinator.config import BrokerConfig
from nightjar.coordinator.mqtt.sieve import SievedSocket, sieve
from nightjar.coordinator.rate_limits import cost_of
from nightjar.coordinator.records.inbox import (
    BrokerConnected,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    Inbox,
    MessageArrived,
    SessionLost,
)
from nightjar.wire import topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.frame import MAX_PACKET_BYTES
from nightjar.wire.identifiers import Population

DROPPED_TOPIC = "$SYS/broker/publish/messages/dropped"
"""Topic on which mosquitto publishes how many messages it dropped; publishers are not notified."""
NOT_YET = "the broker is not connected"
KEEP_ALIVE_S = 30
"""MQTT keep-alive: after 1.5 times this silence the broker closes the connection."""
MAX_IN_FLIGHT = 1000
"""Maximum messages published but not yet acknowledged by the broker; more wait in memory."""
MAX_QUEUED = 60_000
"""Maximum queued messages while the broker is away: MQTT has 65,535 packet ids. More are dropped; devices ask again."""
RECONNECT_S = (1.0, 30.0)
"""First and longest wait between connection attempts; jitter of up to the first wait is added to it."""
BACK_FROM_FLOOD_S = 0.05
"""The first wait where we ended the connection because of a flood: the broker is there, and others wait for us."""
CLOSE_S = 5.0
MAX_WAITING_BYTES = 256 * 2**20
"""Maximum bytes of unhandled messages; our mosquitto configuration has up to 156 MiB in flight to a session."""
OVERHEAD_BYTES = 1024
"""Memory per message in addition to its payload."""
SWEEP_S = 60.0
"""Interval between re-subscriptions, which make the broker send newly retained messages so that they are cleared."""

_log = structlog.get_logger("coordinator")


class MqttSessions:
    """The coordinator's connections to the broker, one per shard.

    ``post`` gets each event, and must not block. ``admits`` counts a device's message by its cost, and says whether to
    read it.
    ``is_cut_off`` says whether not to handle one that was admitted. All sockets of ``tls`` drop what is cut off.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        population: Population,
        shards: int,
        post: Callable[[Inbox], None],
        tls: ssl.SSLContext | None = None,
        admits: Callable[[str, float], bool] = lambda _device, _cost: True,
        is_cut_off: Callable[[str], bool] = lambda _device: False,
    ) -> None:
        self._waiting = _Waiting()
        if tls is not None:
            sieve(tls, lambda topic: topic != DROPPED_TOPIC and is_cut_off(_sender(topic)))
        self._sessions = [
            _Session(broker, population, shard, post, tls, self._waiting, admits, is_cut_off) for shard in range(shards)
        ]

    @property
    def trouble(self) -> str:
        """Why not all sessions are connected and subscribed; empty if they are."""
        return next((session.trouble for session in self._sessions if session.trouble), "")

    def start(self) -> None:
        """Start connecting, and retry until it succeeds."""
        for session in self._sessions:
            session.start()

    def close(self) -> None:
        """Disconnect; the broker keeps the sessions."""
        self._waiting.close()
        for session in self._sessions:
            session.close()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once, as long as the process lives; never blocks."""
        self._sessions[0].publish(topic, payload, retain=retain)


class _Waiting:
    """Counts the bytes of unhandled messages, and blocks the receiving thread above the limit."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes, self._closed = 0, False

    def add(self, size_bytes: int) -> None:
        """Wait until there is room, and reserve it."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._bytes < MAX_WAITING_BYTES)
            self._bytes += size_bytes

    def remove(self, size_bytes: int) -> None:
        with self._changed:
            self._bytes -= size_bytes
            self._changed.notify_all()

    def close(self) -> None:
        """Release all waiting threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class _Session:
    """One paho client. Its callbacks run on its own thread."""

    def __init__(
        self,
        broker: BrokerConfig,
        population: Population,
        shard: int,
        post: Callable[[Inbox], None],
        tls: ssl.SSLContext | None,
        waiting: _Waiting,
        admits: Callable[[str, float], bool],
        is_cut_off: Callable[[str], bool],
    ) -> None:
        self.trouble = NOT_YET
        self._admits, self._is_cut_off = admits, is_cut_off
        self._broker, self._shard, self._post, self._waiting = broker, shard, post, waiting
        self._filters = [(topics.shard_filter(population, shard), 1)]
        if shard == 0:
            self._filters += [(topics.status_filter(population), 1), (DROPPED_TOPIC, 0)]
        self._dropped: int | None = None
        self._subscribing: int | None = None  # packet id of the SUBSCRIBE that follows a CONNECT
        self._swept_s = 0.0
        self._lock = threading.Lock()
        self._connection = 0  # counts connections
        self._been_up = self._session_kept = self._full_logged = self._unreachable_logged = False
        self._closing, self._gone = threading.Event(), threading.Event()
        self._gone.set()
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            f"nightjar-coordinator-{population}-{shard}",
            clean_session=False,
            protocol=paho.MQTTv311,
            manual_ack=True,
        )
        if broker.username:
            client.username_pw_set(broker.username, broker.password or None)
        if tls is not None:
            client.tls_set_context(tls)
        client.max_inflight_messages_set(MAX_IN_FLIGHT)
        client.max_queued_messages_set(MAX_QUEUED)
        # paho doubles its waits without jitter; a random first wait makes all of them differ.
        self._first_wait_s = RECONNECT_S[0] * (1 + random.random())  # noqa: S311
        client.reconnect_delay_set(self._first_wait_s, RECONNECT_S[1])  # type: ignore[arg-type]
        client.on_socket_open = self._on_socket_open
        client.on_socket_close = self._on_socket_close
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        self._client = client

    def start(self) -> None:
        self._client.connect_async(self._broker.host, self._broker.port, KEEP_ALIVE_S)
        self._client.loop_start()

    def close(self) -> None:
        self._closing.set()
        self._client.disconnect()  # sent after the published messages
        if self._gone.wait(CLOSE_S):
            self._client.loop_stop()
            self._client.reinitialise()  # closes paho's internal socket pair

    def publish(self, topic: str, payload: bytes, *, retain: bool) -> None:
        published = self._client.publish(topic, payload, qos=1, retain=retain)
        if published.rc == MQTTErrorCode.MQTT_ERR_QUEUE_SIZE and not self._full_logged:
            self._full_logged = True
            _log.error("outgoing_queue_full", messages=MAX_QUEUED, remedy="devices will ask again")

    def _done(self, connection: int, number: int, size_bytes: int) -> None:
        self._waiting.remove(size_bytes)
        # After a reconnect the packet id may belong to another message; the broker resends the old one anyway.
        with self._lock:
            if number and connection == self._connection:
                self._client.ack(number, 1)

    # paho's thread from here on

    def _on_socket_open(self, _client: paho.Client, _userdata: Any, connection: Any) -> None:
        # Otherwise a small message waits some 40 ms for the acknowledgement of the one before it (Nagle).
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._gone.clear()

    def _on_socket_close(self, client: paho.Client, _userdata: Any, connection: Any) -> None:
        with self._lock:
            self._connection += 1
        if isinstance(connection, SievedSocket) and connection.left_flood:
            client.reconnect_delay_set(BACK_FROM_FLOOD_S, RECONNECT_S[1])  # type: ignore[arg-type]

    def _on_connect(
        self, client: paho.Client, _userdata: Any, flags: paho.ConnectFlags, reason: ReasonCode, _properties: Any
    ) -> None:
        if reason.is_failure:
            self._refused(f"the broker refused us: {str(reason).lower()}")
            return
        client.reconnect_delay_set(self._first_wait_s, RECONNECT_S[1])  # type: ignore[arg-type]
        self._session_kept = flags.session_present
        _, self._subscribing = client.subscribe(self._filters)
        self._swept_s = time.monotonic()

    def _on_connect_fail(self, _client: paho.Client, _userdata: Any) -> None:
        error = sys.exc_info()[1]  # paho calls this from its except block
        if isinstance(error, ssl.SSLError):
            self._refused(f"no encrypted connection: {error.reason}")
            return
        where = f"{self._broker.host}:{self._broker.port}"
        self.trouble = f"{NOT_YET}: nobody answers at {where}"
        if not self._unreachable_logged:
            self._unreachable_logged = True
            _log.warning("broker_unreachable", broker=where, again="with back-off, for ever")

    def _on_subscribe(
        self, client: paho.Client, _userdata: Any, number: int, reasons: Sequence[ReasonCode], _properties: Any
    ) -> None:
        if number != self._subscribing:
            return  # the answer to a periodic re-subscription
        if any(reason.is_failure for reason in reasons):
            self._refused("the broker refused our subscriptions; check its access list")
            connection = client.socket()
            if isinstance(connection, socket.socket):
                connection.shutdown(socket.SHUT_RDWR)  # paho reconnects and subscribes again
            return
        self.trouble, self._full_logged, self._unreachable_logged = "", False, False
        _log.info("broker_connected", host=self._broker.host, port=self._broker.port, shard=self._shard)
        if self._been_up and not self._session_kept:
            # Queued messages, and those sent before the SUBSCRIBE, are lost although their senders got a PUBACK.
            self._post(SessionLost(self._shard))
        self._been_up = True
        if self._shard == 0:
            self._post(BrokerConnected())

    def _on_disconnect(
        self, _client: paho.Client, _userdata: Any, _flags: Any, reason: ReasonCode, _properties: Any
    ) -> None:
        self._gone.set()
        if self._closing.is_set():
            return
        _log.warning("broker_lost", shard=self._shard, reason=str(reason))
        if not self.trouble:
            self.trouble = f"{NOT_YET}: {str(reason).lower()}"
        if self._shard == 0:
            self._post(BrokerDisconnected())

    def _refused(self, reason: str) -> None:
        self.trouble = f"{NOT_YET}: {reason}"
        self._post(BrokerRefused(reason))

    def _on_message(self, client: paho.Client, _userdata: Any, message: paho.MQTTMessage) -> None:
        try:
            if message.topic == DROPPED_TOPIC:
                self._watch_dropped(int(message.payload))
                return
            sender = _sender(message.topic)
            if not self._admits(sender, cost_of(len(message.payload))):
                client.ack(message.mid, message.qos)
                return
            payload = bytes(message.payload[: MAX_PACKET_BYTES + 1])
            number, size_bytes = message.mid if message.qos else 0, len(payload) + OVERHEAD_BYTES
            done = functools.partial(self._done, self._connection, number, size_bytes)
            self._waiting.add(size_bytes)
            refused = functools.partial(self._is_cut_off, sender)
            self._post(MessageArrived(message.topic, payload, message.retain, done, refused))
            if time.monotonic() > self._swept_s + SWEEP_S:
                self._swept_s = time.monotonic()
                client.subscribe(self._filters[:1])
        except Exception:
            _log.exception("message_not_taken")
            client.ack(message.mid, message.qos)

    def _watch_dropped(self, total: int) -> None:
        before = self._dropped if self._dropped is not None else total
        self._dropped = total
        lost = total - before if total >= before else total  # a lower total: the broker was restarted
        if lost:
            self._post(BrokerDropped(lost))


def _sender(topic: str) -> str:
    """The device whose topic this is; all topics that are no device's, which a broker should refuse, count as one."""
    try:
        parsed = topics.parse(topic)
    except RemoteProtocolError:
        return ""
    return parsed.device if isinstance(parsed, topics.UpTopic | topics.StatusTopic) else ""
