"""The MQTT connection to the broker: paho in its own thread, whose callbacks only enqueue events.

MQTT 3.1.1, clean session, QoS 1. A message that arrives while we are offline is lost by design: whatever matters is
resent by one side or the other until it is answered. Callbacks never raise (paho would redeliver the same message for
ever) and never block. Connecting is retried for ever, with exponential back-off that differs from device to device.

A PUBACK only shows that the broker is there.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nightjar.edge_agent.inbox import Arrived, LinkDown, LinkUp
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.frame import MAX_PUBLISH_BYTES

KEEP_ALIVE_S = 30
"""The broker publishes our last will after 1.5 times this silence."""
MOST_QUEUED = 1_000
"""Most publishes that paho holds without a PUBACK; a report of 64 MiB needs 550."""
FAREWELL_S = 1.0

log = structlog.get_logger()


Post = Callable[[LinkUp | LinkDown | Arrived], None]


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """Address and credentials of the broker; None as ``tls`` connects without TLS."""

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    websocket: bool = False


class MqttTransport:
    """Implements :class:`nightjar.edge_agent.ports.Transport`.

    ``client_id`` is the same for every process of this device; ``will`` is the topic and retained payload of the last
    will; ``post`` receives the events, on paho's thread.
    """

    def __init__(
        self, broker: BrokerAddress, client_id: str, filters: Sequence[str], will: tuple[str, bytes], post: Post
    ) -> None:
        self._broker = broker
        self._filters = [(topic, 1) for topic in filters]
        self._post = post
        self._connected = threading.Event()
        self._gone = threading.Event()
        client = client_of(broker, client_id)
        client.will_set(will[0], will[1], qos=1, retain=True)
        client.max_queued_messages_set(MOST_QUEUED)
        # paho doubles its waits without jitter: we randomise the first wait, and with it all the others.
        client.reconnect_delay_set(1 + random.random(), 60)  # type: ignore[arg-type]  # noqa: S311 - floats work
        client.on_socket_open = _send_at_once
        client.on_connect = self._on_connect
        client.on_connect_fail = self._on_connect_fail
        client.on_subscribe = self._on_subscribe
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        self._client = client

    @property
    def connected(self) -> bool:
        """Whether we are connected and the broker has granted our subscriptions."""
        return self._connected.is_set()

    def start(self) -> None:
        """Start connecting, and retry for ever."""
        self._client.connect_async(self._broker.host, self._broker.port, KEEP_ALIVE_S)
        self._client.loop_start()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        """Hand a message to the connection; False if there is none, or its queue is full."""
        if len(payload) > MAX_PUBLISH_BYTES:
            msg = f"a publish may have {MAX_PUBLISH_BYTES} bytes, this one for {topic} has {len(payload)}"
            raise LocalProtocolError(msg)
        if not self.connected:
            return False
        return self._client.publish(topic, payload, qos=1, retain=retain).rc == MQTTErrorCode.MQTT_ERR_SUCCESS

    def close(self, topic: str, payload: bytes) -> None:
        """Publish a retained farewell, and disconnect; waits about one second at most for each."""
        if self.connected:
            published = threading.Event()
            farewell = self._client.publish(topic, payload, qos=1, retain=True)
            self._client.on_publish = lambda _c, _u, mid, _r, _p: published.set() if mid == farewell.mid else None
            if not farewell.is_published():
                published.wait(FAREWELL_S)
        self._client.disconnect()
        if self.connected:
            self._gone.wait(FAREWELL_S)

    # --- paho's thread from here on ---

    def _on_connect(
        self, client: paho.Client, _userdata: Any, _flags: Any, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._post(LinkDown(f"the broker refused us: {reason}"))
        else:
            # A clean session loses its subscriptions on reconnect. We count as connected only once they are granted:
            # the answer to a check-in could arrive earlier and be lost.
            client.subscribe(self._filters)

    def _on_connect_fail(self, _client: paho.Client, _userdata: Any) -> None:
        self._post(LinkDown(f"no broker answers at {self._broker.host}:{self._broker.port}"))

    def _on_subscribe(
        self,
        _client: paho.Client,
        _userdata: Any,
        _mid: int,
        reasons: Sequence[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        if any(reason.is_failure for reason in reasons):
            self._post(LinkDown("the broker refused our subscriptions; check its access list"))
        else:
            self._connected.set()
            self._post(LinkUp())

    def _on_disconnect(
        self, _client: paho.Client, _userdata: Any, _flags: Any, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        self._connected.clear()
        self._gone.set()
        self._post(LinkDown(f"the connection to the broker ended: {reason}"))

    def _on_message(self, _client: paho.Client, _userdata: Any, message: paho.MQTTMessage) -> None:
        try:
            self._post(Arrived(message.topic, bytes(message.payload)))
        except Exception:
            # If this raised, paho would redeliver the same message for ever.
            log.exception("message_not_taken")


def client_of(broker: BrokerAddress, client_id: str) -> paho.Client:
    """A client for a broker that is not connected yet; its session is clean."""
    client = paho.Client(
        CallbackAPIVersion.VERSION2,
        client_id,
        protocol=paho.MQTTv311,
        transport="websockets" if broker.websocket else "tcp",  # on /mqtt
    )
    if broker.username:
        client.username_pw_set(broker.username, broker.password or None)
    if broker.tls is not None:
        client.tls_set_context(broker.tls)
    return client


def _send_at_once(_client: paho.Client, _userdata: Any, connection: Any) -> None:
    # Otherwise a small message after another would wait some 40 ms for the first one's acknowledgement (Nagle).
    with socket.socket(fileno=os.dup(connection.fileno())) as same:  # paho's WebSocket has no setsockopt
        same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
