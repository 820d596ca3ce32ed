"""Thousands of connections that speak just enough MQTT 3.1.1 to be phones: the load of the ingest and round benchmarks.

Not the agent and not paho: one of those for each connection would be the bottleneck that is measured. A fleet is a
child process with one asyncio loop; the benchmark tells it over a pipe what its phones do next. Times are of
``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from wire import messages, topics
from wire.frame import Report, encode_report
from wire.identifiers import DeviceId, Population
from wire.messages import Assignment, CheckIn, Receipt

POPULATION = Population("demo")
CONNECTS_AT_ONCE = 200
RESEND_AFTER_S = 5.0
"""As the agent's outbox, without its jitter."""
TIMEOUT_S = 120.0

_CONNECT, _CONNACK, _PUBLISH, _PUBACK, _SUBSCRIBE, _SUBACK = 0x10, 0x20, 0x30, 0x40, 0x82, 0x90
_QOS1 = 0x02


@dataclass(frozen=True, slots=True)
class Update:
    """What the phones report: payloads are shared, headers differ.

    Attributes:
        codec: wire id.
        layout: fingerprint.
        payloads: encoded updates; phone i sends number i modulo their count.
    """

    codec: int
    layout: str
    payloads: tuple[bytes, ...]

    def frame(self, phone: int, round_number: int, attempt: int, version: int) -> bytes:
        """The report of one phone; no two of a round are equal."""
        return encode_report(
            Report(
                round=round_number,
                attempt=attempt,
                codec=self.codec,
                layout=self.layout,
                version=version,
                num_examples=1 + phone % 500,
                steps=phone,
                loss=4.0,
                seconds=1.0,
                payload=self.payloads[phone % len(self.payloads)],
            )
        )


@dataclass(frozen=True, slots=True)
class Fired:
    """How a burst went.

    Attributes:
        begun_s: when the first byte was handed to the kernel.
        ended_s: when the last answer came.
        waits_s: from sending to the answer, one a phone.
        verdicts: answers by verdict.
        resent: reports that were sent again for want of an answer.
    """

    begun_s: float
    ended_s: float
    waits_s: list[float] = field(default_factory=list)
    verdicts: dict[str, int] = field(default_factory=dict)
    resent: int = 0


class Phone(asyncio.Protocol):
    """One connection."""

    def __init__(self, name: str) -> None:
        self.device = DeviceId(name)
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.took: Callable[[str, bytes], None] = lambda _topic, _payload: None
        self.acknowledged: Callable[[], None] = lambda: None
        self._buffer = b""
        self._transport: asyncio.Transport | None = None
        self._message = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce ourselves."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        flags = struct.pack(">4sBBH", b"MQTT", 4, 0x82, 600)  # clean session, with a name
        self._send(_CONNECT, struct.pack(">H", 4) + flags + _text(self.device) + _text("device"))

    def data_received(self, data: bytes) -> None:
        """Take packets."""
        self._buffer = self._buffer + data if self._buffer else data
        while (packet := _packet(self._buffer)) is not None:
            kind, body, self._buffer = packet
            match kind & 0xF0:
                case 0x20:  # CONNACK
                    filters = b"".join(
                        _text(one) + b"\x01" for one in topics.device_filters(POPULATION, self.device)[:1]
                    )
                    self._send(_SUBSCRIBE, struct.pack(">H", 1) + filters)
                case 0x90:  # SUBACK
                    if not self.ready.done():
                        self.ready.set_result(None)
                case 0x40:  # PUBACK
                    self.acknowledged()
                case 0x30:
                    self._take(kind, body)

    def publish(self, topic: str, payload: bytes) -> None:
        """QoS 1."""
        self._message = self._message % 65535 + 1
        self._send(_PUBLISH | _QOS1, _text(topic) + struct.pack(">H", self._message) + payload)

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def _take(self, kind: int, body: bytes) -> None:
        (length,) = struct.unpack_from(">H", body)
        topic, rest = body[2 : 2 + length].decode(), body[2 + length :]
        if kind & _QOS1:
            self._send(_PUBACK, rest[:2])
            rest = rest[2:]
        self.took(topic, rest)

    def _send(self, kind: int, body: bytes) -> None:
        if self._transport is not None:
            self._transport.write(bytes([kind]) + _length(len(body)) + body)


class Fleet:
    """A child process full of phones.

    Args:
        port: of the broker on the loopback.
        names: of the phones.
        update: what they report.
        first: number of the first phone among all fleets.
    """

    def __init__(self, port: int, names: Sequence[str], update: Update, first: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_run, args=(theirs, port, list(names), update, first), daemon=True)
        self._process.start()

    def begin(self, order: str, *arguments: Any) -> None:
        """Give an order: ``connect``, ``check_in``, ``load``, ``fire`` or ``round``."""
        self._pipe.send((order, *arguments))

    def result(self) -> Any:
        """What became of the order.

        Raises:
            RuntimeError: it failed in the child.
        """
        answer = self._pipe.recv()
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer[0]

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def together(fleets: Sequence[Fleet], order: str, *arguments: Any) -> list[Any]:
    """Give all fleets an order at once, and wait for all of them."""
    for fleet in fleets:
        fleet.begin(order, *arguments)
    return [fleet.result() for fleet in fleets]


def _run(pipe: Connection, port: int, names: list[str], update: Update, first: int) -> None:
    asyncio.run(_Child(pipe, port, names, update, first).serve())


class _Child:
    """The fleet's side of the pipe."""

    def __init__(self, pipe: Connection, port: int, names: list[str], update: Update, first: int) -> None:
        self._pipe, self._port, self._names, self._update, self._first = pipe, port, names, update, first
        self._phones: list[Phone] = []
        self._frames: list[bytes] = []

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                order, *arguments = await loop.run_in_executor(None, self._pipe.recv)
                done = await asyncio.wait_for(getattr(self, f"_{order}")(*arguments), TIMEOUT_S)
            except EOFError:
                return
            except Exception as error:  # noqa: BLE001 - the benchmark says it
                self._pipe.send(f"{type(error).__name__}: {error}")
            else:
                self._pipe.send((done,))

    async def _connect(self) -> None:
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTS_AT_ONCE)

        async def connect(name: str) -> Phone:
            async with gate:
                _, phone = await loop.create_connection(lambda: Phone(name), "127.0.0.1", self._port)
                await phone.ready
                return phone

        self._phones = await asyncio.gather(*(connect(name) for name in self._names))

    async def _check_in(self) -> int:
        """Offer every phone until it is selected; the number of the round."""
        asked = await self._assignments()
        self._frames = [
            self._update.frame(self._first + index, one.round, one.attempt, one.version)
            for index, one in enumerate(asked)
        ]
        return asked[0].round

    async def _assignments(self) -> list[Assignment]:
        waiting = {phone.device: phone for phone in self._phones}
        found: dict[str, Assignment] = {}
        done = asyncio.get_running_loop().create_future()
        offer = messages.encode(CheckIn(agent_version="9.9.9", runtime="none", examples=10**6, emulated=True))

        def take(phone: Phone, topic: str, payload: bytes) -> None:
            if topic.endswith("/assignment"):
                message = messages.decode("assignment", payload)
                if isinstance(message, Assignment):
                    found[phone.device] = message
                    waiting.pop(phone.device, None)
                    if not waiting and not done.done():
                        done.set_result(None)

        for phone in self._phones:
            phone.took = _bound(take, phone)
        while not done.done():
            for phone in list(waiting.values()):
                phone.publish(topics.up(POPULATION, phone.device, "check-in", 1), offer)
            await asyncio.wait([done], timeout=2.0)
        return [found[phone.device] for phone in self._phones]

    async def _load(self) -> None:
        """Frames for nobody in particular: the bare subscriber does not look inside."""
        self._frames = [self._update.frame(self._first + index, 1, 1, 0) for index in range(len(self._phones))]

    async def _fire(self, population: str, until_receipt: bool) -> Fired:
        """Every phone sends its report at the same moment."""
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        sent: dict[str, float] = {}
        waits: dict[str, float] = {}
        verdicts: Counter[str] = Counter()
        resent = 0

        def answered(phone: Phone, verdict: str) -> None:
            if phone.device not in waits:
                waits[phone.device] = time.monotonic() - sent[phone.device]
                verdicts[verdict] += 1
                if len(waits) == len(self._phones) and not done.done():
                    done.set_result(None)

        def take(phone: Phone, topic: str, payload: bytes) -> None:
            if topic.endswith("/receipt"):
                message = messages.decode("receipt", payload)
                if isinstance(message, Receipt):
                    answered(phone, message.verdict.value)

        where = Population(population)
        publishes = [
            (phone, topics.up(where, phone.device, "report", 1), data)
            for phone, data in zip(self._phones, self._frames, strict=True)
        ]
        for phone in self._phones:
            if until_receipt:
                phone.took = _bound(take, phone)
            else:
                phone.acknowledged = _bound(answered, phone, "puback")
        begun_s = time.monotonic()
        for phone, topic, data in publishes:
            sent[phone.device] = time.monotonic()
            phone.publish(topic, data)
        while not done.done():
            await asyncio.wait([done], timeout=RESEND_AFTER_S)
            for phone, topic, data in publishes:
                if phone.device not in waits:
                    phone.publish(topic, data)
                    resent += 1
        ended_s = time.monotonic()
        for phone in self._phones:
            phone.acknowledged = lambda: None
        return Fired(begun_s, ended_s, list(waits.values()), dict(verdicts), resent)


def _bound(function: Callable[..., None], *first: Any) -> Callable[..., None]:
    return lambda *rest: function(*first, *rest)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _length(count: int) -> bytes:
    """MQTT's variable byte integer."""
    data = bytearray()
    while True:
        count, low = divmod(count, 128)
        data.append(low | (0x80 if count else 0))
        if not count:
            return bytes(data)


def _packet(data: bytes) -> tuple[int, bytes, bytes] | None:
    """The first packet of a stream, and what follows it; None while it is not whole."""
    size, shift = 0, 0
    for at in range(1, min(len(data), 5)):
        size |= (data[at] & 0x7F) << shift
        shift += 7
        if not data[at] & 0x80:
            end = at + 1 + size
            return (data[0], data[at + 1 : end], data[end:]) if len(data) >= end else None
    return None
