"""Thousands of connections that speak just enough MQTT 3.1.1 to be phones: the load of the ingest and round benchmarks.

Not the agent and not paho: one of those for each connection would be the bottleneck that is measured. A fleet is a
child process with one asyncio loop; the benchmark tells it over a pipe what its phones do next. Times are of
``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from coordinator.shell import mqtt_packets as packets
from wire import messages, topics
from wire.frame import Report, encode_report
from wire.identifiers import DeviceId, Population
from wire.messages import Assignment, CheckIn, Receipt

POPULATION = Population("demo")
CONNECTS_AT_ONCE = 200
RESEND_AFTER_S = 5.0
"""As the agent's outbox, which doubles its waits as well; without its jitter."""
TIMEOUT_S = 300.0

KEEPALIVE_S = 600
"""Longer than any benchmark, so that no phone has to ping."""


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
        self._reader = packets.Reader()
        self._transport: asyncio.Transport | None = None
        self._message = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Introduce ourselves."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport
        self._write(packets.connect(self.device, "device", "", KEEPALIVE_S, clean=True))

    def data_received(self, data: bytes) -> None:
        """Take packets."""
        for first, body in self._reader.feed(data):
            match first & 0xF0:
                case packets.CONNACK:
                    self._write(packets.subscribe(1, [(topics.device_filters(POPULATION, self.device)[0], 1)]))
                case packets.SUBACK:
                    if not self.ready.done():
                        self.ready.set_result(None)
                case packets.PUBACK:
                    self.acknowledged()
                case packets.PUBLISH:
                    message = packets.read_publish(first, body)
                    if message.number is not None:
                        self._write(packets.puback(message.number))
                    self.took(message.topic, message.payload)
                case _:
                    pass

    def publish(self, topic: str, payload: bytes) -> None:
        """QoS 1."""
        self._message = self._message % 65535 + 1
        self._write(packets.publish(topic, payload, self._message))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


class Fleet:
    """A child process full of phones.

    Args:
        port: of the broker on the loopback.
        names: of the phones.
        update: what they report.
        first: number of the first phone among all fleets.
        shards: of the coordinator.
    """

    def __init__(self, port: int, names: Sequence[str], update: Update, first: int, shards: int = 1) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_run, args=(theirs, port, list(names), update, first, shards), daemon=True
        )
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
            raise RuntimeError(answer)  # noqa: TRY004 - not a type at fault; the child failed
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


def _run(pipe: Connection, port: int, names: list[str], update: Update, first: int, shards: int) -> None:
    asyncio.run(_Child(pipe, port, names, update, first, shards).serve())


class _Child:
    """The fleet's side of the pipe."""

    def __init__(self, pipe: Connection, port: int, names: list[str], update: Update, first: int, shards: int) -> None:
        self._pipe, self._port, self._names, self._update, self._first = pipe, port, names, update, first
        self._shards = shards
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
            except Exception as error:
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
                phone.publish(topics.up(POPULATION, phone.device, "check-in", self._shards), offer)
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
        resent = 0

        answers: list[bytes] = []

        def answered(phone: Phone) -> None:
            if phone.device not in waits:
                waits[phone.device] = time.monotonic() - sent[phone.device]
                if len(waits) == len(self._phones) and not done.done():
                    done.set_result(None)

        def take(phone: Phone, topic: str, payload: bytes) -> None:
            if topic.endswith("/receipt") and phone.device not in waits:
                answers.append(payload)  # read when the burst is over
                answered(phone)

        where = Population(population)
        publishes = [
            (phone, topics.up(where, phone.device, "report", self._shards), data)
            for phone, data in zip(self._phones, self._frames, strict=True)
        ]
        for phone in self._phones:
            if until_receipt:
                phone.took = _bound(take, phone)
            else:
                phone.acknowledged = _bound(answered, phone)
        begun_s = time.monotonic()
        for phone, topic, data in publishes:
            sent[phone.device] = time.monotonic()
            phone.publish(topic, data)
        wait_s = RESEND_AFTER_S
        while not done.done():
            await asyncio.wait([done], timeout=wait_s)
            wait_s *= 2
            for phone, topic, data in publishes:
                if phone.device not in waits:
                    phone.publish(topic, data)
                    resent += 1
        ended_s = time.monotonic()
        for phone in self._phones:
            phone.acknowledged = lambda: None
        verdicts = Counter(_verdict(answer) for answer in answers)
        return Fired(begun_s, ended_s, list(waits.values()), dict(verdicts), resent)


def _verdict(answer: bytes) -> str:
    message = messages.decode("receipt", answer)
    return message.verdict.value if isinstance(message, Receipt) else ""


def _bound(function: Callable[..., None], *first: Any) -> Callable[..., None]:
    return lambda *rest: function(*first, *rest)
