"""The packets of MQTT 3.1.1 that a client of ours needs, as bytes: built and read, without a socket.

Source: MQTT Version 3.1.1, OASIS Standard, 2014; chapter numbers beside each packet. QoS 0 and 1 only.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Iterator, Sequence

import msgspec

from wire.errors import RemoteProtocolError

CONNACK, PUBLISH, PUBACK, SUBACK, PINGRESP = 0x20, 0x30, 0x40, 0x90, 0xD0
"""Upper four bits of a packet's first byte (2.2.1), for the packets that a broker sends us."""
REFUSED = 0x80
"""Return code of a subscription that was not granted (3.9.3)."""
MAX_PACKET_BYTES = 16 * 2**20
"""A broker that announces more than this has lost its place in the stream; our messages have 120 KiB at most."""

PINGREQ = b"\xc0\x00"
DISCONNECT = b"\xe0\x00"

FROM_BROKER = frozenset({CONNACK, PUBACK, SUBACK, PINGRESP, *range(PUBLISH, PUBLISH + 16)})
"""First bytes of the packets above."""
_QOS1, _RETAIN, _DUP = 0x02, 0x01, 0x08


class Malformed(RemoteProtocolError):  # noqa: N818 - reads as what the packet is
    """What came is not a packet of MQTT.

    Args:
        what: the part that cannot be read.
    """

    def __init__(self, what: str) -> None:
        super().__init__(f"the broker sent a malformed {what}; is it an MQTT broker?", code="mqtt")


class Message(msgspec.Struct, frozen=True):
    """A PUBLISH that came (3.3); ``number`` is None at QoS 0."""

    topic: str
    payload: bytes
    retained: bool
    number: int | None


def connect(client_id: str, username: str, password: str, keepalive_s: int, *, clean: bool) -> bytes:
    """CONNECT (3.1)."""
    flags = 0x02 * clean | 0x80 * bool(username) | 0x40 * bool(username and password)
    body = _text("MQTT") + struct.pack(">BBH", 4, flags, keepalive_s) + _text(client_id)
    body += _text(username) if username else b""
    body += _text(password) if username and password else b""
    return _packet(0x10, body)


def subscribe(number: int, filters: Sequence[tuple[str, int]]) -> bytes:
    """SUBSCRIBE (3.8) to (filter, QoS) pairs."""
    return _packet(0x82, struct.pack(">H", number) + b"".join(_text(one) + bytes([qos]) for one, qos in filters))


def publish(topic: str, payload: bytes, number: int, *, retain: bool = False) -> bytes:
    """PUBLISH at QoS 1 (3.3)."""
    return _packet(PUBLISH | _QOS1 | retain * _RETAIN, _text(topic) + struct.pack(">H", number) + payload)


def again(published: bytes) -> bytes:
    """The same PUBLISH as one that may have come before (3.3.1.1)."""
    return bytes([published[0] | _DUP]) + published[1:]


def puback(number: int) -> bytes:
    """PUBACK (3.4)."""
    return struct.pack(">BBH", PUBACK, 2, number)


def read_connack(body: bytes | memoryview) -> tuple[bool, int]:
    """Whether the broker kept our session, and the return code: 0 is yes (3.2)."""
    if len(body) != 2:
        raise Malformed(what="CONNACK")
    return bool(body[0] & 1), body[1]


def read_number(body: bytes | memoryview) -> int:
    """The packet identifier that a PUBACK or SUBACK begins with."""
    if len(body) < 2:
        raise Malformed(what="acknowledgement")
    return body[0] << 8 | body[1]


def read_publish(first: int, body: bytes | memoryview) -> Message:
    """A PUBLISH.

    Raises:
        Malformed: it is cut.
    """
    end = 2 + (body[0] << 8 | body[1]) if len(body) >= 2 else 2
    start = end + 2 if first & 0x06 else end
    if len(body) < start:
        raise Malformed(what="PUBLISH")
    number = body[end] << 8 | body[end + 1] if first & 0x06 else None
    try:
        topic = str(body[2:end], "utf-8")
    except UnicodeDecodeError:
        topic = ""  # nobody's; but the message must be acknowledged, so it goes on its way
    return Message(topic, bytes(body[start:]), bool(first & _RETAIN), number)


class Reader:
    """Cuts a stream into packets.

    What comes is received into one buffer that is used again and again: a report is copied once, out of it, and fresh
    memory for each read would cost more than the copy.

    Args:
        first_bytes: what a packet may begin with; those that a broker sends, if not given.
        room_bytes: of the buffer; it grows when a packet is larger.
    """

    def __init__(self, first_bytes: Container[int] = FROM_BROKER, room_bytes: int = 4096) -> None:
        self._first_bytes = first_bytes
        self._buffer = bytearray(room_bytes)
        self._filled = 0

    def room(self) -> memoryview:
        """Where what comes next is to be put, before :meth:`packets` is told how much it was."""
        if self._filled == len(self._buffer):
            self._buffer += bytes(len(self._buffer))
        return memoryview(self._buffer)[self._filled :]

    def packets(self, size_bytes: int) -> Iterator[tuple[int, memoryview]]:
        """The packets that are whole now: first byte and body of each, which is only there until the next one.

        Args:
            size_bytes: how much was put into the room.

        Raises:
            Malformed: this is not a stream of packets.
        """
        at, end = 0, self._filled + size_bytes
        with memoryview(self._buffer) as data:
            try:
                while end - at >= 2:
                    if data[at] not in self._first_bytes:
                        raise Malformed(what="packet type")
                    size, shift, body = 0, 0, at + 1
                    while True:
                        if body == end:
                            return
                        low = data[body]
                        size |= (low & 0x7F) << shift
                        shift, body = shift + 7, body + 1
                        if low < 0x80:
                            break
                        if shift > 21:
                            raise Malformed(what="length")
                    if size > MAX_PACKET_BYTES:
                        raise Malformed(what="length")
                    if end - body < size:
                        return
                    first, at = data[at], body + size
                    with data[body:at] as packet:
                        yield first, packet
            finally:
                self._filled = end - at
                data[: self._filled] = bytes(data[at:end])

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """The packets that are whole with what came, for whoever has received it already.

        Raises:
            Malformed: this is not a stream of packets.
        """
        while data:
            room = self.room()
            size_bytes = min(len(room), len(data))
            room[:size_bytes] = data[:size_bytes]
            room.release()
            for first, body in self.packets(size_bytes):
                yield first, bytes(body)
            data = data[size_bytes:]


def _packet(first: int, body: bytes) -> bytes:
    size = len(body)
    length = bytearray()
    while True:
        size, low = size >> 7, size & 0x7F
        length.append(low | 0x80 if size else low)
        if not size:
            return bytes([first]) + length + body


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data
