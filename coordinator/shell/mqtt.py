"""MQTT for the driver: one durable session for each ingest shard.

Callbacks only queue bytes. A message is acknowledged after the driver has dealt with it; until then the broker keeps it
for us, also while we are down. What a broker does wrong is seen here and said: messages thrown away, a session that was
lost, a refusal.
"""

from __future__ import annotations

import contextlib
import functools
import ssl
from collections.abc import Callable, Iterator

import structlog

from coordinator.config import BrokerConfig
from coordinator.inbox import (
    BrokerDropped,
    BrokerRefused,
    Connected,
    Disconnected,
    Inbox,
    MessageArrived,
    SessionLost,
)
from coordinator.shell.mqtt_packets import Message
from coordinator.shell.mqtt_session import Hooks, Session
from wire import topics
from wire.identifiers import Population

DROPPED_TOPIC = "$SYS/broker/publish/messages/dropped"
"""mosquitto's count of messages that it threw away; publishers are never told."""

NOT_YET = "the broker is not connected"

_log = structlog.get_logger("coordinator")


class MqttTransport:
    """The coordinator's side of the broker.

    Args:
        broker: where it is.
        population: whose topics.
        shards: ingest sessions.
        post: takes what comes.
        tls: encrypts; None speaks plain text.
    """

    def __init__(
        self,
        broker: BrokerConfig,
        population: Population,
        shards: int,
        post: Callable[[Inbox], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        self._broker = broker
        self._post = post
        self._population = population
        self._dropped: int | None = None
        self._trouble = NOT_YET
        self._been_up = [False] * shards
        self._sessions = [self._session(shard) for shard in range(shards)]

    @property
    def connected(self) -> bool:
        """Whether all sessions stand."""
        return all(session.connected for session in self._sessions)

    @property
    def trouble(self) -> str:
        """Why not all sessions stand; empty if they do."""
        return "" if self.connected else self._trouble

    def start(self) -> None:
        """Begin to connect, and keep trying for ever."""
        for session in self._sessions:
            session.start()

    def close(self) -> None:
        """Say goodbye to the broker; it keeps our sessions."""
        for session in self._sessions:
            session.close()

    def publish(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Send at least once while the process lives; never blocks."""
        self._sessions[0].publish(topic, payload, retain=retain)

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """What is published and acknowledged meanwhile goes out in the end, at once."""
        with contextlib.ExitStack() as stack:
            for session in self._sessions:
                stack.enter_context(session.together())
            yield

    def _session(self, shard: int) -> Session:
        filters = [(topics.shard_filter(self._population, shard), 1)]
        if shard == 0:
            filters += [(topics.status_filter(self._population), 1), (DROPPED_TOPIC, 0)]
        return Session(
            address=(self._broker.host, self._broker.port),
            client_id=f"nightjar-coordinator-{self._population}-{shard}",
            login=(self._broker.username, self._broker.password),
            filters=filters,
            hooks=Hooks(
                up=functools.partial(self._up, shard),
                down=functools.partial(self._down, shard),
                refused=self._refused,
                unreachable=self._unreachable,
                arrived=self._arrived,
            ),
            tls=self._tls,
        )

    def _up(self, shard: int, session_kept: bool) -> None:
        _log.info("broker_connected", host=self._broker.host, port=self._broker.port, shard=shard)
        if self._been_up[shard] and not session_kept:
            # What waited for us there, and what devices send until we are subscribed, is gone with PUBACKs.
            self._post(SessionLost(shard))
        self._been_up[shard] = True
        if shard == 0:
            self._post(Connected())

    def _down(self, shard: int, reason: str) -> None:
        _log.warning("broker_lost", shard=shard, reason=reason)
        self._trouble = f"the broker is not connected: {reason}"
        if shard == 0:
            self._post(Disconnected())

    def _refused(self, reason: str) -> None:
        self._trouble = f"the broker is not connected: {reason}"
        self._post(BrokerRefused(reason))

    def _unreachable(self) -> None:
        where = f"{self._broker.host}:{self._broker.port}"
        _log.warning("broker_unreachable", broker=where, again="with back-off, for ever")
        self._trouble = f"the broker is not connected: nobody answers at {where}"

    def _arrived(self, message: Message, acknowledge: Callable[[], None]) -> None:
        if message.topic != DROPPED_TOPIC:
            self._post(MessageArrived(message.topic, message.payload, message.retained, acknowledge))
        elif message.payload.isdigit():
            self._watch_dropped(int(message.payload))

    def _watch_dropped(self, total: int) -> None:
        before = self._dropped if self._dropped is not None else total
        self._dropped = total
        lost = total - before if total >= before else total  # less than before: the broker was restarted
        if lost:
            self._post(BrokerDropped(lost))
