"""Drops what devices that are cut off sent before the MQTT client parses it.

A broker that does not count by device, as mosquitto, passes on what a flooder sent until it was cut off: up to 100,000
messages that others' wait behind. paho takes several reads and callbacks for each; the sieve only looks at their topics
and acknowledges what it drops. On a busy machine the broker itself takes half a minute to send them all. So the sieve
ends the connection once, when a flood was seen: the broker then throws away what it sends without acknowledgement
(QoS 0), and sends everything else when paho has connected again. Agents send nothing without acknowledgement.

It sits below paho as the class of its TLS sockets (``ssl.SSLContext.sslsocket_class``). Names of devices mean something
only with certificates, so it is not needed without TLS. All of a socket's calls come from paho's one thread.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any, Self

READ_BYTES = 1 << 16
LONGEST_READ_S = 0.05
"""How long one read goes on while all is dropped; then paho gets its turn to send."""
FLOOD = 1000
"""Messages without acknowledgement that are dropped from a connection within ``SHORTLY_S`` before it is ended."""
SHORTLY_S = 1.0
LASTS_AT_LEAST_S = 5.0
"""Age of a connection before a flood ends it, so that floods do not keep us from connecting."""
_PUBLISH = 3
_LENGTH_BYTES = 4


class Sieve:
    """Takes the messages that ``refuses`` says by their topic out of a stream of MQTT 3.1.1 packets. No I/O.

    What it cannot read it passes on, so that the client refuses it.
    """

    def __init__(self, refuses: Callable[[str], bool]) -> None:
        self._refuses = refuses
        self._held = b""  # the beginning of a packet, until its topic is complete
        self._left, self._keeps = 0, True  # bytes to come of a packet that was judged
        self._acknowledgement = b""  # sent when that packet is over
        self._unreadable = False
        self.acknowledgements = bytearray()
        """Packets to send for what was dropped; the caller takes them out."""
        self.unacknowledged = 0
        """How many messages were dropped that the broker wants no acknowledgement of."""

    def feed(self, data: bytes) -> bytes:
        """The part of these bytes, and of those held back before, that is not dropped.

        >>> sieve = Sieve(lambda topic: topic == "a")
        >>> sieve.feed(bytes.fromhex("3206 0001 61 0007 ff" "3004 0001 62 ff")).hex(), sieve.acknowledgements.hex()
        ('3004000162ff', '40020007')
        """
        data, self._held = self._held + data, b""
        kept: list[bytes] = []
        refused: dict[bytes, bool] = {}  # a verdict holds for these bytes only: it changes with time
        at, end = 0, len(data)
        while at < end and not self._unreadable:
            if not self._left:
                known = self._judge(data, at, refused)
                if not known:
                    self._held = data[at:]
                    break
            until = min(at + self._left, end)
            if self._keeps:
                kept.append(data[at:until])
            self._left -= until - at
            at = until
            if not self._left:
                self.acknowledgements += self._acknowledgement
                self._acknowledgement = b""
        if self._unreadable:
            kept.append(data[at:])
        return b"".join(kept)

    def _judge(self, data: bytes, at: int, refused: dict[bytes, bool]) -> bool:
        """Decide on the packet that begins here; False if not enough of it has come."""
        length, body = 0, at + 1
        while True:
            if body >= len(data):
                return False
            digit = data[body]
            length |= (digit & 0x7F) << (7 * (body - at - 1))
            body += 1
            if digit < 0x80:
                break
            if body - at > _LENGTH_BYTES:
                self._unreadable = True
                return True
        self._left, self._keeps = body - at + length, True
        level = data[at] >> 1 & 3
        if data[at] >> 4 != _PUBLISH or level > 1 or length < 2:
            return True
        if body + 2 > len(data):
            self._left = 0
            return False
        name = body + 2
        number = name + (data[body] << 8 | data[body + 1])
        needed = number + 2 * level
        if needed > body + length:
            return True
        if needed > len(data):
            self._left = 0
            return False
        topic = data[name:number]
        verdict = refused.get(topic)
        if verdict is None:
            verdict = refused[topic] = self._refuses(topic.decode("utf-8", "replace"))
        if verdict:
            self._keeps = False
            self._acknowledgement = b"\x40\x02" + data[number:needed] if level else b""
            self.unacknowledged += not level
        return True


class SievedSocket(ssl.SSLSocket):
    """A TLS socket that reads through a sieve. ``refuses`` belongs to the class that :func:`sieve` makes."""

    refuses: Callable[[str], bool]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Made by a context, which does not call ``__init__``."""
        made = super().__new__(cls, *args, **kwargs)
        made._sieve, made._kept = Sieve(cls.refuses), bytearray()
        made._between_packets = True  # of the client, where an acknowledgement may be sent
        made._begun_s = made._counted_from_s = time.monotonic()
        made.left_flood = False
        return made

    _sieve: Sieve
    _kept: bytearray
    _between_packets: bool
    _begun_s: float
    _counted_from_s: float
    left_flood: bool
    """Whether it was ended because of a flood."""

    def recv(self, buflen: int = READ_BYTES, flags: int = 0) -> bytes:
        """Up to so many bytes of what is not dropped.

        Raises:
            ssl.SSLWantReadError: nothing has come that is not dropped.
            ConnectionResetError: a flood is to be thrown away by the broker; connect again.
        """
        now_s = time.monotonic()
        if now_s > self._counted_from_s + SHORTLY_S:  # nothing waits behind a flood that is over
            self._counted_from_s, self._sieve.unacknowledged = now_s, 0
        if self._sieve.unacknowledged >= FLOOD and now_s > self._begun_s + LASTS_AT_LEAST_S:
            self.left_flood = True
            msg = "left what a flood has queued in the broker"
            raise ConnectionResetError(msg)
        until_s = now_s + LONGEST_READ_S
        while not self._kept:
            data = super().recv(READ_BYTES, flags)
            if not data:
                return b""
            self._kept += self._sieve.feed(data)
            self._acknowledge()
            if not self._kept and time.monotonic() > until_s:
                raise ssl.SSLWantReadError
        taken = bytes(self._kept[:buflen])
        del self._kept[:buflen]
        return taken

    def pending(self) -> int:
        """Bytes that were read and not taken. paho asks before it waits, so acknowledgements that were held go out."""
        self._acknowledge()
        return len(self._kept) + super().pending()

    def send(self, data: Any, flags: int = 0) -> int:
        """Send a packet of the client, or what is left of it.

        Raises:
            ssl.SSLWantWriteError: nothing can be sent now.
        """
        self._acknowledge()
        if self._between_packets and self._sieve.acknowledgements:
            raise ssl.SSLWantWriteError  # TLS has to go on with what it began to write
        self._between_packets = False
        sent = super().send(data, flags)
        self._between_packets = sent == len(data)
        return sent

    def _acknowledge(self) -> None:
        waiting = self._sieve.acknowledgements
        if not waiting or not self._between_packets:
            return
        try:
            sent = super().send(waiting)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return
        del waiting[:sent]


def sieve(context: ssl.SSLContext, refuses: Callable[[str], bool]) -> None:
    """Make the sockets of a context drop the messages whose topic is refused."""
    context.sslsocket_class = type("_Sieved", (SievedSocket,), {"refuses": staticmethod(refuses)})
