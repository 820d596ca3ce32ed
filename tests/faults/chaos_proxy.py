"""A TCP proxy that misbehaves on demand: for networks that this machine's kernel cannot emulate.

It stands between agents and their broker. What it does to a connection is decided anew for each piece of bytes, so a
fault begins and ends while connections stand. It runs in a thread with an asyncio loop of its own; a test changes
``fault`` from its own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PIECE_BYTES = 4096
"""Small enough that a rate limit is smooth and a cut hits where it should."""


@dataclass(frozen=True)
class Fault:
    """What the network does.

    Attributes:
        delay_s: each piece comes so much later.
        rate_bytes_per_s: of each connection and direction; 0: as fast as it can.
        cut_after_bytes: a connection that sent so many bytes upstream since the fault began is reset; 0: never.
        black_hole: nothing passes, and nobody is told.
        refuse: new connections are closed at once, and those that stand are cut.
    """

    delay_s: float = 0.0
    rate_bytes_per_s: float = 0.0
    cut_after_bytes: int = 0
    black_hole: bool = False
    refuse: bool = False


HEALTHY = Fault()


class ChaosProxy:
    """Listens on ``port`` of the loopback and connects onwards to ``target``."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self.accepted = 0
        self.cuts = 0
        self.upstream_bytes = 0
        self._fault = HEALTHY
        self._epoch = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chaos proxy", daemon=True)

    @property
    def fault(self) -> Fault:
        return self._fault

    @fault.setter
    def fault(self, fault: Fault) -> None:
        def change() -> None:
            self._fault = fault
            self._epoch += 1
            if fault.refuse:
                self._cut_all()

        self._do(change)

    def cut(self) -> None:
        """Reset every connection once."""
        self._do(self._cut_all)

    def _do(self, change: Callable[[], None]) -> None:
        done = threading.Event()
        self._loop.call_soon_threadsafe(lambda: (change(), done.set()))
        assert done.wait(10)

    def __enter__(self) -> ChaosProxy:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        self._cut_all()

    def _cut_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._open.add(writer)
        try:
            if self._fault.refuse:
                return
            with contextlib.suppress(OSError):
                there, onwards = await asyncio.open_connection("127.0.0.1", self.target)
                self._open.add(onwards)
                try:
                    await asyncio.wait(
                        {
                            asyncio.ensure_future(self._pass_on(reader, onwards, upstream=True)),
                            asyncio.ensure_future(self._pass_on(there, writer, upstream=False)),
                        },
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                finally:
                    self._open.discard(onwards)
                    onwards.transport.abort()
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, upstream: bool) -> None:
        epoch, sent = self._epoch, 0
        with contextlib.suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                while self._fault.black_hole:
                    await asyncio.sleep(0.02)
                fault = self._fault
                if epoch != self._epoch:
                    epoch, sent = self._epoch, 0
                if fault.delay_s:
                    await asyncio.sleep(fault.delay_s)
                if fault.rate_bytes_per_s:
                    await asyncio.sleep(len(piece) / fault.rate_bytes_per_s)
                if upstream and fault.cut_after_bytes and sent + len(piece) >= fault.cut_after_bytes:
                    writer.write(piece[: fault.cut_after_bytes - sent])
                    await writer.drain()
                    self.cuts += 1
                    return
                writer.write(piece)
                await writer.drain()
                sent += len(piece)
                self.upstream_bytes += len(piece) if upstream else 0


@contextlib.contextmanager
def chaos(target: int) -> Iterator[ChaosProxy]:
    """A proxy in front of a port of the loopback while the block runs."""
    with ChaosProxy(target) as proxy:
        yield proxy
