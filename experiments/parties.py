"""Parties of a protocol as processes of their own, and a record of every message between them.

A party has its own data and a :class:`Post`; nothing else connects it with the others. The parent process forwards the
messages and keeps them, so a test can say who sent what to whom, and count the bytes. For experiments: there are no
signatures, no encryption of the links and no dropouts.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
_PARENT = ""


class Message(msgspec.Struct, frozen=True, array_like=True):
    """A message between two parties.

    Attributes:
        sender: name of the party.
        receiver: name of the party; "" is the parent process, which is sent a party's result at its end.
        kind: what it is.
        body: MessagePack.
    """

    sender: str
    receiver: str
    kind: str
    body: bytes

    @property
    def value(self) -> Any:
        """What the body says."""
        return msgspec.msgpack.decode(self.body)


@dataclass(frozen=True, slots=True)
class Post:
    """What a party sends and receives with."""

    name: str
    line: Connection
    waiting: list[Message] = field(default_factory=list)
    """What arrived while another party was waited for."""

    def send(self, receiver: str, kind: str, value: Any) -> None:
        """Send numbers, bytes, or lists of them."""
        message = Message(self.name, receiver, kind, msgspec.msgpack.encode(value))
        self.line.send_bytes(msgspec.msgpack.encode(message))

    def receive(self, sender: str, kind: str) -> Any:
        """The next message of a party, which must be the one that the protocol has here.

        Raises:
            ValueError: it is another.
        """
        message = self.receive_any(sender)
        if message.kind != kind:
            msg = f"{self.name} expected {kind} from {sender}; got {message.kind}"
            raise ValueError(msg)
        return message.value

    def receive_any(self, sender: str) -> Message:
        """The next message of a party, of any kind."""
        while not any(message.sender == sender for message in self.waiting):
            self.waiting.append(msgspec.msgpack.decode(self.line.recv_bytes(), type=Message))
        message = next(message for message in self.waiting if message.sender == sender)
        self.waiting.remove(message)
        return message


Role = Callable[[Post], Any]
"""What a party does; returns what MessagePack can hold. It is sent to a new process: a function of a module, or a
:func:`functools.partial` of one with the party's data."""


@dataclass(frozen=True, slots=True)
class ProtocolRun:
    """What came of a protocol.

    Attributes:
        results: what each party returned.
        messages: all messages between parties, in the order of their arrival.
        seconds: processor time of each party.
    """

    results: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def sent_bytes(self, *, sender: str | None = None, receiver: str | None = None, kinds: Iterable[str] = ()) -> int:
        """Bytes of the bodies of messages; None and () stand for all."""
        wanted = set(kinds)
        return sum(
            len(each.body)
            for each in self.messages
            if sender in {None, each.sender}
            and receiver in {None, each.receiver}
            and (not wanted or each.kind in wanted)
        )


def run_parties(roles: Mapping[str, Role]) -> ProtocolRun:
    """Run each role in a process of its own until all have returned.

    Args:
        roles: by the names of the parties.

    Raises:
        RuntimeError: a party failed; its traceback is on the standard error.
    """
    run, context = ProtocolRun(), multiprocessing.get_context("spawn")
    lines: dict[str, Connection] = {}
    processes: list[SpawnProcess] = []
    for name, role in roles.items():
        lines[name], theirs = context.Pipe()
        processes.append(context.Process(target=_play, args=(name, role, theirs), daemon=True))
        processes[-1].start()
        theirs.close()  # so that the end of the process ends the line
    locks = {name: threading.Lock() for name in roles}

    def forward(name: str) -> None:
        try:
            while (message := msgspec.msgpack.decode(lines[name].recv_bytes(), type=Message)).receiver != _PARENT:
                run.messages.append(message)
                with locks[message.receiver]:
                    lines[message.receiver].send_bytes(msgspec.msgpack.encode(message))
            run.results[name], run.seconds[name] = message.value
        except (EOFError, OSError):  # it failed; the others would wait for it for ever
            for process in processes:
                process.terminate()

    # A thread for each party: one that is sending still gets what others send to it.
    threads = [threading.Thread(target=forward, args=(name,), daemon=True) for name in roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for process in processes:
        process.join()
    missing = roles.keys() - run.results.keys()
    if missing:
        msg = f"without a result: {', '.join(sorted(missing))}"
        raise RuntimeError(msg)
    return run


def _play(name: str, role: Role, line: Connection) -> None:
    post, begin_s = Post(name, line), time.process_time()
    result = role(post)
    post.send(_PARENT, "result", (result, time.process_time() - begin_s))


def from_floats(values: npt.NDArray[Any]) -> bytes:
    """Numbers as little-endian float32, four bytes each."""
    return np.ascontiguousarray(values, "<f4").tobytes()


def to_floats(data: bytes, *shape: int) -> Floats:
    """Inverse of :func:`from_floats`, an array of a shape."""
    return np.frombuffer(data, "<f4").reshape(shape).astype(np.float32)
