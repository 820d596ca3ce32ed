"""MQTT: one durable session for each ingest shard, over paho.

Callbacks only queue bytes. paho would call a callback that raises again and again with the same message, so each is
wrapped. A message is acknowledged after the driver has dealt with it; until then the broker keeps it for us, also
while we are down. MQTT 3.1.1, QoS 1.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho
import structlog
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.config import BrokerConfig
from coordinator.inbox import BrokerDropped, Connected, Disconnected, Inbox, MessageArrived
from wire import topics
from wire.identifiers import Population

DROPPED_TOPIC = "$SYS/broker/publish/messages/dropped"
"""mosquitto's count of messages that it threw away; publishers are never told."""
KEEPALIVE_S = 30
MAX_QUEUED = 100_000
"""Outgoing messages kept while the broker is away; devices ask again for what is beyond."""
RECONNECT_S = (1.0, 30.0)
"""First and longest wait between attempts; each process draws its own within half of that."""

_log = structlog.get_logger("coordinator")


class MqttTransport:
    """The coordinator's side of the broker.

    Args:
        broker: where it is.
        population: whose topics.
        shards: ingest sessions.
        post: takes what comes.
    """

    def __init__(
        self, broker: BrokerConfig, population: Population, shards: int, post: Callable[[Inbox], None]
    ) -> None:
        self._broker = broker
        self._post = post
        self._population = population
        self._dropped: int | None = None
        self._said_down = False
        self._sessions = [0] * shards
        self._clients = [self._make_client(shard) for shard in range(shards)]

    @property
    def connected(self) -> bool:
        """Whether all sessions stand."""
        return all(client.is_connected() for client in self._clients)

    def start(self) -> None:
        """Begin to connect, and keep trying for ever."""
        for client in self._clients:
            client.connect_async(self._broker.host, self._broker.port, KEEPALIVE_S)
            client.loop_start()

    def close(self) -> None:
        """Say goodbye to the broker; it keeps our sessions."""
        for client in self._clients:
            client.disconnect()
            client.loop_stop()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once while the process lives; never blocks."""
        self._clients[0].publish(topic, payload, qos=1, retain=retain)

    def _make_client(self, shard: int) -> paho.Client:
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"nightjar-coordinator-{self._population}-{shard}",
            clean_session=False,
            protocol=paho.MQTTv311,
            manual_ack=True,
        )
        client.username_pw_set(self._broker.username or None, self._broker.password or None)
        client.max_queued_messages_set(MAX_QUEUED)
        jitter = random.uniform(0.5, 1.5)  # noqa: S311 - spreads reconnects, protects nothing
        client.reconnect_delay_set(RECONNECT_S[0] * jitter, RECONNECT_S[1] * jitter)  # type: ignore[arg-type] # floats work
        client.on_connect = functools.partial(self._on_connect, shard)
        client.on_disconnect = functools.partial(self._on_disconnect, shard)
        client.on_connect_fail = self._on_connect_fail
        client.on_message = functools.partial(self._on_message, shard)
        return client

    def _on_connect(self, shard: int, client: paho.Client, _data: Any, _flags: Any, code: Any, _props: Any) -> None:
        if code.is_failure:
            _log.error("broker_refused_us", host=self._broker.host, port=self._broker.port, reason=str(code))
            return
        self._sessions[shard] += 1
        filters = [(topics.shard_filter(self._population, shard), 1)]
        if shard == 0:
            filters += [(topics.status_filter(self._population), 1), (DROPPED_TOPIC, 0)]
        client.subscribe(filters)
        _log.info("broker_connected", host=self._broker.host, port=self._broker.port, shard=shard)
        self._said_down = False
        if shard == 0:
            self._post(Connected())

    def _on_disconnect(self, shard: int, _client: paho.Client, _data: Any, _flags: Any, code: Any, _props: Any) -> None:
        if code.is_failure:
            _log.warning("broker_lost", shard=shard, reason=str(code))
        if shard == 0:
            self._post(Disconnected())

    def _on_connect_fail(self, _client: paho.Client, _data: Any) -> None:
        if not self._said_down:
            self._said_down = True
            where = f"{self._broker.host}:{self._broker.port}"
            _log.warning("broker_unreachable", broker=where, again="with back-off, for ever")

    def _on_message(self, shard: int, client: paho.Client, _data: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
            if topic == DROPPED_TOPIC:
                self._watch_dropped(int(message.payload))
                return
            acknowledge = functools.partial(self._acknowledge, shard, client, self._sessions[shard], message.mid)
            self._post(MessageArrived(topic, bytes(message.payload), message.retain, acknowledge))
        except Exception:
            # A topic that is not UTF-8, say. Acknowledged, or the broker would send it for ever.
            _log.exception("message could not be taken")
            client.ack(message.mid, message.qos)

    def _acknowledge(self, shard: int, client: paho.Client, session: int, mid: int) -> None:
        # After a reconnect the same number may mean another message; the old one will be sent again anyway.
        if session == self._sessions[shard]:
            client.ack(mid, 1)

    def _watch_dropped(self, total: int) -> None:
        before = self._dropped if self._dropped is not None else total
        self._dropped = total
        lost = total - before if total >= before else total  # less than before: the broker was restarted
        if lost:
            self._post(BrokerDropped(lost))
