"""The simulated broker and network: QoS 1 with faults.

Messages are bytes on topics. The coordinator has a durable session: messages that it has not acknowledged are kept and
resent. Phones have clean sessions: messages to a disconnected phone are lost. Retained messages and last wills work.
Each message may be dropped, duplicated, delayed, reordered or corrupted; when a connection breaks, messages in flight
are lost as well. Source: MQTT 3.1.1, sections 3.1.2.4, 3.1.2.5, 3.3.1.3 and 4.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from nightjar.simulation.rounds.faults import MESSAGE_FAULTS, Dice, SimulatedFault
from nightjar.simulation.rounds.timeline import Timeline
from nightjar.wire import topics
from nightjar.wire.identifiers import DeviceId, Population

LATENCY_S = 0.05
"""Latency between a client and the broker; 50 ms is a usual mobile round trip."""
MOST_WAITING = 100_000
"""Maximum number of messages queued for a disconnected coordinator, as in our mosquitto configuration."""
WILL_AFTER_S = 45.0
"""Time until the broker notices a lost connection: 1.5 times the agents' keep-alive of 30 s."""
FIRST_RETRY_S = (1.0, 2.0)
"""Bounds of the wait before the first reconnect; later waits double, as in paho."""
MOST_RETRY_S = 60.0


class Subscriber(Protocol):
    """A phone as a client of the broker."""

    @property
    def device(self) -> DeviceId:
        """The device name."""

    @property
    def awake(self) -> bool:
        """Whether the phone is awake; a sleeping one ignores announcements."""

    def arrived(self, topic: str, payload: bytes) -> None:
        """Handle a message."""

    def link_down(self) -> None:
        """Handle the loss of the connection."""

    def link_up(self) -> None:
        """Handle a new connection with all subscriptions."""


Deliver = Callable[[str, bytes, bool, Callable[[], None]], None]
"""(topic, payload, retained, acknowledge): a message for the coordinator."""


class Broker:
    """One broker between all phones and one coordinator.

    ``seen`` is called with topic and payload of every message when the coordinator publishes it.
    """

    def __init__(
        self, timeline: Timeline, dice: Dice, population: Population, seen: Callable[[str, bytes], None]
    ) -> None:
        self._timeline = timeline
        self._dice = dice
        self._announce_topic = topics.announce(population)
        self._seen = seen
        self._up = True
        self._epoch = 0
        self._retained: dict[str, bytes] = {}
        self._phones: dict[DeviceId, tuple[Subscriber, int]] = {}
        self._connections = 0
        self._deliver: Deliver | None = None
        self._coordinator_epoch = 0
        self._waiting: dict[int, tuple[str, bytes, bool]] = {}
        self._number = 0
        self.messages = 0  # to and from the coordinator so far
        self.peak_per_s = 0  # most of these messages in one second
        self._second = (0, 0)
        self.lost: Counter[str] = Counter()  # messages by cause
        self.on_coordinator_link: Callable[[bool], None] = lambda _up: None

    @property
    def up(self) -> bool:
        """Whether it runs."""
        return self._up

    # Phones

    def connect(self, phone: Subscriber, will: tuple[str, bytes], wanted: Callable[[], bool], tries: int = 1) -> None:
        """Let a phone try to connect until it succeeds or ``wanted`` returns false."""
        self._timeline.after(self._retry_s(tries), partial(self._try_connect, phone, will, wanted, tries))

    def _retry_s(self, tries: int) -> float:
        return min(MOST_RETRY_S, self._dice.between(*FIRST_RETRY_S) * 2.0 ** min(tries - 1, 10))

    def _try_connect(self, phone: Subscriber, will: tuple[str, bytes], wanted: Callable[[], bool], tries: int) -> None:
        if not wanted():
            return
        if not self._up:
            self.connect(phone, will, wanted, tries + 1)
            return
        if phone.device in self._phones:
            self._tell_will(phone, self._phones[phone.device][1], will)
        self._connections += 1
        self._phones[phone.device] = (phone, self._connections)
        phone.link_up()
        announced = self._retained.get(self._announce_topic)
        if announced is not None:
            self._to_phone(phone, self._announce_topic, announced)

    def vanished(self, phone: Subscriber, will: tuple[str, bytes]) -> None:
        """Note that a phone vanished; its last will is published when the keep-alive expires."""
        entry = self._phones.get(phone.device)
        if entry is not None:
            self._timeline.after(WILL_AFTER_S, partial(self._tell_will, phone, entry[1], will))

    def _tell_will(self, phone: Subscriber, connection: int, will: tuple[str, bytes]) -> None:
        entry = self._phones.get(phone.device)
        if entry is None or entry[1] != connection:
            return
        del self._phones[phone.device]
        self._receive(self._epoch, will[0], will[1], retain=True)

    def from_phone(self, topic: str, payload: bytes, *, retain: bool) -> bool:
        """Publish for a connected phone; False if the broker is down."""
        if not self._up:
            return False
        epoch = self._epoch
        self._send(payload, lambda whole_or_damaged: self._receive(epoch, topic, whole_or_damaged, retain=retain))
        return True

    def _to_phone(self, phone: Subscriber, topic: str, payload: bytes) -> None:
        self._send(payload, lambda whole_or_damaged: self._arrive(phone, topic, whole_or_damaged))

    def _arrive(self, phone: Subscriber, topic: str, payload: bytes) -> None:
        if phone.device in self._phones:
            phone.arrived(topic, payload)
        else:
            self.lost["phone away"] += 1

    # The coordinator

    def connect_coordinator(self, deliver: Deliver, wanted: Callable[[], bool], tries: int = 1) -> None:
        """Like :meth:`connect`, for the coordinator; calls ``on_coordinator_link`` at each change."""
        self._timeline.after(self._retry_s(tries) / 2, partial(self._try_connect_coordinator, deliver, wanted, tries))

    def _try_connect_coordinator(self, deliver: Deliver, wanted: Callable[[], bool], tries: int) -> None:
        if not wanted():
            return
        if not self._up:
            self.connect_coordinator(deliver, wanted, tries + 1)
            return
        self._coordinator_epoch += 1
        self._deliver = deliver
        self.on_coordinator_link(True)
        for number in self._waiting:
            self._hand_over(number)
        for topic, payload in list(self._retained.items()):
            if topic != self._announce_topic:
                self._queue(topic, payload, retained=True)

    def coordinator_vanished(self) -> None:
        """Note that the coordinator's process is gone; unacknowledged messages are kept for the next one."""
        self._deliver = None
        self._coordinator_epoch += 1

    def from_coordinator(self, topic: str, payload: bytes, *, retain: bool) -> None:
        """Publish for the connected coordinator."""
        self._count()
        self._seen(topic, payload)
        if retain:
            self._retained[topic] = payload
        if topic == self._announce_topic:
            for phone, _ in list(self._phones.values()):
                if phone.awake:
                    self._to_phone(phone, topic, payload)
            return
        match topics.parse(topic):
            case topics.DownTopic(device=device) if device in self._phones:
                self._to_phone(self._phones[device][0], topic, payload)
            case _:
                self.lost["phone away"] += 1

    def _receive(self, epoch: int, topic: str, payload: bytes, *, retain: bool) -> None:
        if epoch != self._epoch or not self._up:
            self.lost["broker away"] += 1
            return
        if retain:
            self._retained[topic] = payload
        self._queue(topic, payload, retained=False)

    def _queue(self, topic: str, payload: bytes, *, retained: bool) -> None:
        if len(self._waiting) >= MOST_WAITING:
            self.lost["queue full"] += 1
            return
        self._number += 1
        self._waiting[self._number] = (topic, payload, retained)
        if self._deliver is not None:
            self._hand_over(self._number)

    def _hand_over(self, number: int) -> None:
        self._timeline.after(LATENCY_S, partial(self._reach_coordinator, number, self._coordinator_epoch))

    def _reach_coordinator(self, number: int, epoch: int) -> None:
        message = self._waiting.get(number)
        if self._deliver is None or message is None or epoch != self._coordinator_epoch:
            return
        self._count()
        topic, payload, retained = message
        self._deliver(topic, payload, retained, lambda: self._acknowledged(number))

    def _acknowledged(self, number: int) -> None:
        self._waiting.pop(number, None)

    # The broker itself

    def restart(self, down_s: float, *, forget: bool) -> None:
        """Kill the broker, and restart it after ``down_s``, with or without its sessions and retained messages."""
        if not self._up:
            return
        self._up = False
        self._epoch += 1
        if forget:
            self._retained.clear()
            self._waiting.clear()
        phones, self._phones = self._phones, {}
        if self._deliver is not None:
            self.coordinator_vanished()
            self.on_coordinator_link(False)
        self._timeline.after(down_s, self._start)
        for phone, _ in phones.values():
            phone.link_down()

    def _start(self) -> None:
        self._up = True

    # The network

    def _send(self, payload: bytes, arrive: Callable[[bytes], None]) -> None:
        delay_s = LATENCY_S
        fault = self._dice.one_of(MESSAGE_FAULTS)
        if fault is not None:
            self._dice.note(fault)
        match fault:
            case SimulatedFault.DROP:
                self.lost["dropped"] += 1
                return
            case SimulatedFault.DUPLICATE:
                self._timeline.after(delay_s + self._dice.between(0.1, 20.0), partial(arrive, payload))
            case SimulatedFault.DELAY:
                delay_s += self._dice.between(1.0, 120.0)
            case SimulatedFault.REORDER:
                delay_s += self._dice.between(0.0, 1.0)
            case SimulatedFault.CORRUPT:
                payload = self._dice.flipped(payload)
            case _:
                pass
        self._timeline.after(delay_s, partial(arrive, payload))

    def _count(self) -> None:
        second, count = self._second
        now = int(self._timeline.now_s)
        self._second = (now, count + 1 if now == second else 1)
        self.peak_per_s = max(self.peak_per_s, self._second[1])
        self.messages += 1
