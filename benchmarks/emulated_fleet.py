"""Load generator of the ingest and web benchmarks: thousands of emulated phones that check in and report.

They are not agents: their reports are made in advance. A fleet is a child process with one event loop; the benchmark
sends it orders over a pipe. Times are of ``time.monotonic``, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import multiprocessing
import ssl
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from nightjar.benchmarks.mqtt_client import LoadClient
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.frame import Report, encode_report
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import Assignment, CheckIn, Receipt

POPULATION = Population("demo")
SHARDS = 1
CONNECTS_AT_ONCE = 200
RESEND_AFTER_S = 5.0
"""First wait of the agent's outbox; later waits double, as in the outbox, but without jitter."""
LOOK_EVERY_S, LOOK_AGAIN_S = 0.25, 1.0
OFFER_AGAIN_S = 20.0
"""Time after which an unanswered check-in is repeated. Queued check-ins would delay the reports to be measured."""
PING_EVERY_S = 30.0
"""The agent's keep-alive."""
TIMEOUT_S = 300.0
AUTHORITIES = "authorities.pem"
OFFER = messages.encode(CheckIn(agent_version="9.9.9", runtime="none", examples=10**6, emulated=True, codecs=to_name()))


@dataclass(frozen=True, slots=True)
class Update:
    """The reports of the phones: payloads are shared, headers differ."""

    codec: int  # wire id
    layout: str  # fingerprint
    payloads: tuple[bytes, ...]  # phone i sends number i modulo their count

    def frame(self, phone: int, round_number: int, attempt: int, version: int) -> bytes:
        """The report of one phone; all reports of a round differ."""
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
    """Measurements of a burst."""

    begun_s: float  # when the first report was sent
    ended_s: float  # when the last receipt arrived
    waits_s: list[float] = field(default_factory=list)  # from report to receipt of each phone
    verdicts: dict[str, int] = field(default_factory=dict)  # number of receipts by verdict
    resent: int = 0  # number of reports resent after a timeout


@dataclass(frozen=True, slots=True)
class Answered:
    """Measurements of check-ins at a fixed rate."""

    sent: int  # number of check-ins
    seconds: float  # from the first check-in to the last
    waits_s: list[float]  # from each answered check-in to its rejection


class Fleet:
    """A child process with many emulated phones, which connect to a broker on loopback.

    ``first`` is the number of the first phone among all fleets. The folder of credentials has ``authorities.pem``, and
    ``NAME.pem`` with key and certificate of each phone; None is for plain text.
    """

    def __init__(
        self, port: int, names: Sequence[str], update: Update, first: int, credentials: Path | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, port, list(names), update, first, credentials)
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    def begin(self, order: str, *arguments: Any) -> None:
        """Send an order: ``connect``, ``check_in``, ``fire``, ``idle`` or ``ask``."""
        self._pipe.send((order, *arguments))

    def result(self) -> Any:
        """Wait for the result of the order.

        Raises:
            RuntimeError: the order failed in the child.
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
    """Send all fleets an order at once, and wait for all results."""
    for fleet in fleets:
        fleet.begin(order, *arguments)
    return [fleet.result() for fleet in fleets]


def _run(pipe: Pipe, *arguments: Any) -> None:
    asyncio.run(_Child(pipe, *arguments).serve())


class _Child:
    """The fleet's side of the pipe."""

    def __init__(
        self, pipe: Pipe, port: int, names: list[str], update: Update, first: int, credentials: Path | None
    ) -> None:
        self._pipe, self._port, self._update, self._first = pipe, port, update, first
        self._names = [DeviceId(name) for name in names]
        self._credentials = credentials
        self._phones: dict[DeviceId, LoadClient] = {}
        self._frames: dict[DeviceId, bytes] = {}

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
        folder, context = self._credentials, None
        if folder is not None:
            context = ssl.create_default_context(cafile=folder / AUTHORITIES)
            context.check_hostname = False

        def phone(name: DeviceId) -> LoadClient:
            if folder is not None and context is not None:
                context.load_cert_chain(folder / f"{name}.pem")  # for connections made from now on
            return LoadClient(name, topics.device_filters(POPULATION, name)[0], context)

        async def connect(name: DeviceId) -> LoadClient:
            async with gate:
                _, made = await loop.create_connection(lambda: phone(name), "127.0.0.1", self._port)
                await made.ready
                return made

        made = await asyncio.gather(*(connect(name) for name in self._names))
        self._phones = dict(zip(self._names, made, strict=True))

    async def _check_in(self) -> int:
        """Check in every phone until it is selected; returns the round number."""
        waiting, rejected = set(self._names), set(self._names)
        done = asyncio.Event()
        numbers: set[int] = set()

        def take(name: DeviceId, number: int, topic: str, payload: bytes) -> None:
            if topic.endswith("/rejection"):
                rejected.add(name)
            message = messages.decode("assignment", payload) if topic.endswith("/assignment") else None
            if isinstance(message, Assignment) and name in waiting:
                numbers.add(message.round)
                self._frames[name] = self._update.frame(number, message.round, message.attempt, message.version)
                waiting.remove(name)
                if not waiting:
                    done.set()

        for number, (name, phone) in enumerate(self._phones.items(), self._first):
            phone.took = functools.partial(take, name, number)
        offered_s = time.monotonic()
        while waiting:
            if time.monotonic() > offered_s + OFFER_AGAIN_S:  # the coordinator may have been down
                rejected |= waiting
            if rejected:
                offered_s = time.monotonic()
            for name in rejected & waiting:
                self._phones[name].publish(topics.up(POPULATION, name, "check-in", SHARDS), OFFER)
            rejected.clear()
            await _within(done, LOOK_AGAIN_S)
        (number,) = numbers
        return number

    async def _idle(self, seconds: float) -> None:
        """Do nothing but ping, each phone once in an agent's keep-alive."""
        begun_s, phones = time.monotonic(), list(self._phones.values())
        for number in range(int(seconds * len(phones) / PING_EVERY_S)):
            await asyncio.sleep(max(begun_s + number * PING_EVERY_S / len(phones) - time.monotonic(), 0.0))
            phones[number % len(phones)].ping()
        await asyncio.sleep(max(begun_s + seconds - time.monotonic(), 0.0))

    async def _ask(self, rate: float, seconds: float) -> Answered:
        """Check in phone after phone, and wait for the rejections."""
        sent_s: dict[DeviceId, float] = {}
        waits_s: list[float] = []
        answered = asyncio.Event()

        def take(name: DeviceId, topic: str, _payload: bytes) -> None:
            if topic.endswith("/rejection") and name in sent_s:
                waits_s.append(time.monotonic() - sent_s.pop(name))
                answered.set()

        for name, phone in self._phones.items():
            phone.took = functools.partial(take, name)
        begun_s, sent = time.monotonic(), int(rate * seconds)
        for number in range(sent):
            await asyncio.sleep(max(begun_s + number / rate - time.monotonic(), 0.0))
            name = self._names[number % len(self._names)]
            sent_s[name] = time.monotonic()
            self._phones[name].publish(topics.up(POPULATION, name, "check-in", SHARDS), OFFER)
        ended_s = time.monotonic()
        while sent_s and time.monotonic() < ended_s + OFFER_AGAIN_S:
            answered.clear()
            await _within(answered, LOOK_AGAIN_S)
        return Answered(sent, ended_s - begun_s, waits_s)

    async def _fire(self, within_s: float = 0.0) -> Fired:
        """Send every phone's report, spread evenly over ``within_s`` seconds, and wait for all receipts."""
        done = asyncio.Event()
        sent_s: dict[DeviceId, float] = {}
        receipts: dict[DeviceId, tuple[float, bytes]] = {}
        resent = 0

        def take(name: DeviceId, topic: str, payload: bytes) -> None:
            if topic.endswith("/receipt") and name not in receipts:
                receipts[name] = time.monotonic() - sent_s[name], payload  # decoded after the burst
                if len(receipts) == len(self._names):
                    done.set()

        def send(name: DeviceId) -> None:
            self._phones[name].publish(topics.up(POPULATION, name, "report", SHARDS), self._frames[name])

        async def send_again() -> None:
            nonlocal resent
            waits_s: dict[DeviceId, float] = {}
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                for name in [name for name in sent_s if name not in receipts]:
                    wait_s = waits_s.get(name, RESEND_AFTER_S)
                    if time.monotonic() > sent_s[name] + wait_s:
                        waits_s[name] = 2 * wait_s + RESEND_AFTER_S
                        resent += 1
                        send(name)

        for name, phone in self._phones.items():
            phone.took = functools.partial(take, name)
        begun_s = time.monotonic()
        again = asyncio.create_task(send_again())
        try:
            for number, name in enumerate(self._names):
                if within_s:
                    await asyncio.sleep(max(begun_s + within_s * number / len(self._names) - time.monotonic(), 0.0))
                sent_s[name] = time.monotonic()
                send(name)
            await done.wait()
        finally:
            again.cancel()
        ended_s = time.monotonic()
        verdicts = Counter(_verdict(payload) for _, payload in receipts.values())
        return Fired(begun_s, ended_s, [wait for wait, _ in receipts.values()], dict(verdicts), resent)


def _verdict(receipt: bytes) -> str:
    message = messages.decode("receipt", receipt)
    return message.verdict.value if isinstance(message, Receipt) else ""


async def _within(event: asyncio.Event, timeout_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), timeout_s)
