"""A relay that keeps every byte which goes through it in one direction."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Recorder:
    """Attributes:
    port: where to connect instead.
    sent: what went towards the other side, a piece for each read.
    """

    port: int
    sent: list[bytes] = field(default_factory=list)

    @property
    def outgoing(self) -> bytes:
        return b"".join(self.sent)


@contextlib.contextmanager
def recording(towards: int) -> Iterator[Recorder]:
    """Relay from a free port on the loopback to another one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        recorder = Recorder(listener.getsockname()[1])
        accepting = threading.Thread(target=_accept, args=(listener, towards, recorder.sent))
        accepting.start()
        try:
            yield recorder
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join()


def _accept(listener: socket.socket, towards: int, sent: list[bytes]) -> None:
    relays = []
    with contextlib.suppress(OSError):
        while True:
            near, _ = listener.accept()
            relays.append(threading.Thread(target=_relay, args=(near, towards, sent)))
            relays[-1].start()
    for relay in relays:
        relay.join()


def _relay(near: socket.socket, towards: int, sent: list[bytes]) -> None:
    with near, contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", towards)) as far:
        back = threading.Thread(target=_pump, args=(far, near, None))
        back.start()
        _pump(near, far, sent)
        back.join()


def _pump(source: socket.socket, target: socket.socket, keep: list[bytes] | None) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            if keep is not None:
                keep.append(data)
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
