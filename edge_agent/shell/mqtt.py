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
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from nightjar.edge_agent.inbox import Arrived, LinkDown, LinkUp
from nightjar.wire.backoff import BackOff
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.frame import MAX_PUBLISH_BYTES

KEEP_ALIVE_S = 30
"""The broker publishes our last will after 1.5 times this silence."""
MOST_QUEUED = 1_000
"""Most publishes that paho holds without a PUBACK; a report of 64 MiB needs 550."""
FAREWELL_S = 1.0
SUBSCRIBE_AGAIN = BackOff(first_s=20.0, most_s=300.0)
"""Waits for the answer to our subscriptions, and after a refusal: an access list may be mended a moment later."""
SHORT_S, LONG_S = 60.0, 600.0
"""A connection that the broker ends sooner is short, as if another device had taken it; a long one clears that up."""
TWIN_AFTER = 3
"""Short connections in a row after which another device with our identity is the likely reason."""
MOST_PAUSE_S = 300.0
MOST_WAIT_S = 30.0
"""Longest wait between attempts to connect, unless a twin is likely: once a wrong clock is set, which let no
certificate count, a device is back within a minute."""

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
        self._timer: threading.Timer | None = None
        self._tries = self._short = 0
        self._begun_s: float | None = None
        self._asked: set[int | None] = set()  # numbers of the subscriptions of this connection
        self._asking = threading.Lock()
        self._address = ""
        self._connected = threading.Event()
        self._gone = threading.Event()
        client = client_of(broker, client_id)
        client.will_set(will[0], will[1], qos=1, retain=True)
        client.max_queued_messages_set(MOST_QUEUED)
        # paho doubles its waits without jitter: we randomise the first wait, and with it all the others.
        _pause_at_first(client, 1 + random.random())  # noqa: S311 - spreads devices
        client.on_socket_open = self._on_socket_open
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

    @property
    def twin(self) -> str:
        """Words for another device that seems to use our identity; empty if none does."""
        if self._short < TWIN_AFTER:
            return ""
        return (
            f"another device seems to use the identity of this one, {self._broker.username} on {socket.gethostname()} "
            f"at {self._address or 'an unknown address'}: "
            f"the broker ended {self._short} connections within a minute each; copied cards need a claim of their own"
        )

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
        self._cancel()
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
        self, _client: paho.Client, _userdata: Any, _flags: Any, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._post(LinkDown(f"the broker refused us: {reason}"))
        else:
            # A clean session loses its subscriptions on reconnect. We count as connected only once they are granted:
            # the answer to a check-in could arrive earlier and be lost.
            self._tries, self._begun_s = 0, time.monotonic()
            self._asked.clear()
            self._subscribe()

    def _on_socket_open(self, _client: paho.Client, _userdata: Any, connection: Any) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as same:  # paho's WebSocket has no setsockopt
            # Otherwise a small message after another would wait some 40 ms for the first one's acknowledgement (Nagle).
            same.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._address = str(same.getsockname()[0])

    def _on_connect_fail(self, _client: paho.Client, _userdata: Any) -> None:
        # paho calls this while it handles the error, and passes it to nobody.
        self._post(LinkDown(why_unreachable(self._broker.host, self._broker.port, sys.exception())))

    def _subscribe(self) -> None:
        """Subscribe, and again if the answer does not come or is a refusal."""
        self._tries += 1
        with self._asking:
            self._asked.add(self._client.subscribe(self._filters)[1])
        self._again(self._unanswered)

    def _unanswered(self) -> None:
        if not self._connected.is_set() and self._client.is_connected():
            self._post(LinkDown("the broker does not answer our subscriptions; we ask again"))
            self._subscribe()

    def _again(self, action: Callable[[], None]) -> None:
        self._cancel()
        wait_s = SUBSCRIBE_AGAIN.delay_s(self._tries, random.random())  # noqa: S311 - spreads devices
        self._timer = threading.Timer(wait_s, action)
        self._timer.daemon = True
        self._timer.start()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_subscribe(
        self,
        _client: paho.Client,
        _userdata: Any,
        mid: int,
        reasons: Sequence[ReasonCode],
        _properties: Properties | None,
    ) -> None:
        with self._asking:
            if mid not in self._asked:
                return  # the answer to nothing that we asked on this connection
        if len(reasons) != len(self._filters) or any(reason.is_failure for reason in reasons):
            self._post(LinkDown("the broker refused our subscriptions; check its access list; we ask again"))
            self._again(self._resubscribe)
        else:
            self._cancel()
            self._connected.set()
            self._post(LinkUp())

    def _on_disconnect(
        self, _client: paho.Client, _userdata: Any, _flags: Any, reason: ReasonCode, _properties: Properties | None
    ) -> None:
        self._cancel()
        self._connected.clear()
        self._gone.set()
        self._note_length()
        self._post(LinkDown(self.twin or f"the connection to the broker ended: {reason}"))

    def _resubscribe(self) -> None:
        if not self._connected.is_set() and self._client.is_connected():
            self._subscribe()

    def _note_length(self) -> None:
        """Pause the longer, the more connections in a row were short: two devices would go on for ever."""
        if self._begun_s is None:
            return
        lasted_s, self._begun_s = time.monotonic() - self._begun_s, None
        self._short = self._short + 1 if lasted_s < SHORT_S else 0 if lasted_s >= LONG_S else max(0, self._short - 1)
        pause_s = min(MOST_PAUSE_S, 2.0 ** max(0, self._short - 1))
        _pause_at_first(self._client, pause_s * (1 + random.random()))  # noqa: S311 - spreads devices

    def _on_message(self, _client: paho.Client, _userdata: Any, message: paho.MQTTMessage) -> None:
        try:
            self._post(Arrived(message.topic, bytes(message.payload)))
        except Exception:
            # If this raised, paho would redeliver the same message for ever.
            log.exception("message_not_taken")


def why_unreachable(host: str, port: int, error: BaseException | None) -> str:
    """Why no connection to a broker was made, in words.

    >>> why_unreachable("broker", 8883, ConnectionRefusedError(111, "Connection refused"))
    'no broker answers at broker:8883: Connection refused'
    >>> why_unreachable("broker", 8883, None)
    'no broker answers at broker:8883'
    """
    where = f"{host}:{port}"
    match error:
        case ssl.SSLCertVerificationError():
            remedy = "see that this device's clock is right, and that it was enrolled with this coordinator"
            return f"the certificate of the broker at {where} is not accepted: {error.verify_message}; {remedy}"
        case ssl.SSLError():
            return f"no encrypted connection to the broker at {where}: {error.reason or error}"
        case socket.gaierror():
            return f"the name of the broker, {host}, cannot be resolved: {error.strerror or error}"
        case TimeoutError():
            return f"no broker answers at {where}: no answer in time"
        case OSError():
            return f"no broker answers at {where}: {error.strerror or error}"
        case _:
            return f"no broker answers at {where}"


def _pause_at_first(client: paho.Client, first_s: float) -> None:
    client.reconnect_delay_set(first_s, max(MOST_WAIT_S, first_s))  # type: ignore[arg-type]  # floats work


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
