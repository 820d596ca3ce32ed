"""A minimal MQTT 3.1.1 client for load generation: thousands of connections in one event loop, with or without TLS.

Not paho: a client with a thread for each of 5,000 connections would itself be the bottleneck. QoS 1 and clean sessions
only, without retransmission. TLS uses memory buffers, because asyncio's TLS transport keeps 256 KiB for each
connection.

Source: MQTT Version 3.1.1, OASIS Standard, 2014.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Callable, Iterator

PUBLISH, PUBACK = 0x30, 0x40
"""First bytes of packets (2.2.1); PUBLISH without its flags."""
KEEPALIVE_S = 3600
"""Longer than any benchmark, so no connection has to ping."""
READ_BYTES = 65536


def connect(name: str) -> bytes:
    """CONNECT with a clean session (3.1); the name is both client id and user name."""
    return _packet(0x10, _text("MQTT") + struct.pack(">BBH", 4, 0x82, KEEPALIVE_S) + _text(name) + _text(name))


def subscribe(topic_filter: str) -> bytes:
    """SUBSCRIBE at QoS 1 (3.8)."""
    return _packet(0x82, struct.pack(">H", 1) + _text(topic_filter) + b"\x01")


def publish(topic: str, payload: bytes, number: int) -> bytes:
    """PUBLISH at QoS 1 (3.3)."""
    return _packet(PUBLISH | 0x02, _text(topic) + struct.pack(">H", number) + payload)


def take_packets(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    r"""Remove the complete packets from the front of a buffer; yields first byte and body of each.

    >>> buffer = bytearray(b"\x40\x02\x00\x07\x20")
    >>> list(take_packets(buffer)), bytes(buffer)
    ([(64, b'\x00\x07')], b' ')
    """
    while True:
        size, at = 0, 1
        while at < len(buffer):
            size |= (buffer[at] & 0x7F) << 7 * (at - 1)
            at += 1
            if buffer[at - 1] < 0x80:
                break
        else:
            return
        if len(buffer) < at + size:
            return
        first, body = buffer[0], bytes(buffer[at : at + size])
        del buffer[: at + size]
        yield first, body


def _packet(first: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes([first]) + length + body


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">H", len(data)) + data


class LoadClient(asyncio.Protocol):
    """One client, which subscribes as soon as it is connected; its name is client id and user name.

    The TLS context has the client's certificate; None is for plain text. ``ready`` is done when the client has
    subscribed, and an exception if it could not.
    """

    def __init__(self, name: str, topic_filter: str, context: ssl.SSLContext | None) -> None:
        self.name = name
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.took: Callable[[str, bytes], None] = lambda _topic, _payload: None  # topic and payload of each message
        self._filter = topic_filter
        self._buffer = bytearray()
        self._transport: asyncio.WriteTransport | None = None
        self._number = 0
        self._encrypted, self._to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = None if context is None else context.wrap_bio(self._encrypted, self._to_send)
        self._shaken_hands = False

    def publish(self, topic: str, payload: bytes) -> None:
        """Publish at QoS 1."""
        self._number = self._number % 65535 + 1
        self._send(publish(topic, payload, self._number))

    def ping(self) -> None:
        """Send PINGREQ (3.12)."""
        self._send(b"\xc0\x00")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the TLS handshake, or send CONNECT in plain text."""
        assert isinstance(transport, asyncio.WriteTransport)  # create_connection makes one
        self._transport = transport
        if self._tls is None:
            self._send(connect(self.name))
        else:
            self._shake_hands(self._tls)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail ``ready`` if it is not done."""
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError(f"the broker closed the connection of {self.name}"))

    def data_received(self, data: bytes) -> None:
        """Decrypt the data and handle the packets."""
        if self._tls is None:
            self._take(data)
            return
        self._encrypted.write(data)
        if not self._shaken_hands:
            self._shake_hands(self._tls)
        if self._shaken_hands:
            with contextlib.suppress(ssl.SSLWantReadError):
                while plain := self._tls.read(READ_BYTES):
                    self._take(plain)
        self._flush()

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        with contextlib.suppress(ssl.SSLWantReadError):
            tls.do_handshake()
            self._shaken_hands = True
            self._send(connect(self.name))
        self._flush()

    def _take(self, data: bytes) -> None:
        self._buffer += data
        for first, body in take_packets(self._buffer):
            match first & 0xF0:
                case 0x20 if body[1]:
                    self.ready.set_exception(ConnectionError(f"the broker refused {self.name}: {body[1]}"))
                case 0x20:
                    self._send(subscribe(self._filter))
                case 0x90:
                    self.ready.set_result(None)
                case 0x30:
                    end = 2 + int.from_bytes(body[:2], "big")
                    start = end + 2 if first & 0x06 else end
                    if first & 0x06:
                        self._send(struct.pack(">BB", PUBACK, 2) + body[end:start])
                    self.took(body[2:end].decode(), body[start:])
                case _:
                    pass

    def _send(self, data: bytes) -> None:
        if self._tls is None:
            if self._transport is not None:
                self._transport.write(data)
        else:
            self._tls.write(data)
            self._flush()

    def _flush(self) -> None:
        if self._transport is not None and self._to_send.pending:
            self._transport.write(self._to_send.read())
