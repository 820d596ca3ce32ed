import asyncio
import os
from types import SimpleNamespace

import pytest
from amqtt.session import Session

from nightjar.coordinator.mqtt import embedded_broker
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.wire.frame import MAX_PACKET_BYTES


async def answer_to(*said: bytes) -> bytes:
    """What a fresh broker in plain text answers before it hangs up."""
    (port,) = free_ports(1)
    listeners = Listeners("127.0.0.1", port, "nightjar", "")
    ours = embedded_broker.EmbeddedBroker(embedded_broker.configuration(listeners), listeners)
    await ours.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for data in said:
            writer.write(data)
            await writer.drain()
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()
        await ours.shutdown()


def test_who_is_silent_after_the_handshake_is_hung_up_on(monkeypatch):
    monkeypatch.setattr(embedded_broker, "CONNECT_TIMEOUT_S", 0.05)
    assert asyncio.run(answer_to()) == b""
    assert asyncio.run(answer_to(b"\x10\x20\x00")) == b""


@pytest.mark.parametrize("length", [b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\x80\x80\x0a"])
def test_a_packet_that_is_too_large_is_not_waited_for(length):
    assert asyncio.run(answer_to(b"\x10" + length)) == b""


class _Pieces:
    """A reader to which a packet comes in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._stream = asyncio.StreamReader()
        for piece in pieces:
            self._stream.feed_data(piece)
        self._stream.feed_eof()

    async def read(self, n: int) -> bytes:
        return await self._stream.readexactly(n)


def test_a_packet_is_not_read_beyond_its_end():
    async def read() -> list[bytes]:
        packets = embedded_broker._Packets(_Pieces(b"\x30\x03", b"abc\x40", b"\x02\x00\x07"))
        found = [await packets.read(n) for n in (1, 1, 2, 9, 4)]
        with pytest.raises(EOFError):
            await packets.read(1)
        return found

    assert asyncio.run(read()) == [b"\x30", b"\x03", b"ab", b"c", b"\x40\x02\x00\x07"]


def test_the_largest_packet_counts_its_header():
    def packet(size: int) -> bytes:
        length = size - 4
        return bytes([0x30, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + bytes(length)

    async def read(size: int) -> int:
        packets = embedded_broker._Packets(_Pieces(packet(size)))
        return len(await packets.read(size))

    assert asyncio.run(read(MAX_PACKET_BYTES)) == MAX_PACKET_BYTES
    with pytest.raises(ConnectionResetError):
        asyncio.run(read(MAX_PACKET_BYTES + 1))


def test_what_waits_for_who_is_away_is_bounded(monkeypatch):
    monkeypatch.setattr(embedded_broker, "MAX_QUEUED", 3)

    async def waiting() -> int:
        listeners = Listeners("127.0.0.1", 0, "nightjar", "")
        ours = embedded_broker.EmbeddedBroker(embedded_broker.configuration(listeners), listeners)
        away = Session()
        away.client_id = "coordinator"
        for _ in range(5):
            sent = {"session": SimpleNamespace(client_id="phone"), "topic": "a", "data": b"b"}
            await ours._retain_broadcast_message(sent, 1, away)
        return away.retained_messages.qsize()

    assert asyncio.run(waiting()) == 3


class _Subscriber:
    def __init__(self, name):
        self.client_id = name


def test_a_walk_over_subscriptions_sees_them_as_it_began():
    table = embedded_broker.Subscriptions(a=["one", "two"], b=["three"])
    seen = []
    for wanted, subscribers in table.items():
        for subscriber in subscribers:
            seen.append((wanted, subscriber))
            table.pop("b", None)
            table[f"new {len(seen)}"] = []
            table["a"].clear()
    assert seen == [("a", "one"), ("a", "two"), ("b", "three")]
    for wanted in table:
        del table[wanted]
    assert not table


def test_a_message_reaches_everybody_though_subscriptions_change_while_it_goes_out(monkeypatch):
    asked = []

    async def deliver():
        listeners = Listeners("127.0.0.1", 0, "nightjar", "")
        ours = embedded_broker.EmbeddedBroker(embedded_broker.configuration(listeners), listeners)
        for name in "abc":
            ours.subscriptions[f"{name}/#"] = []
        ours.subscriptions["topic"] = [(_Subscriber("first"), 1), (_Subscriber("second"), 1)]
        ours.subscriptions["+"] = [(_Subscriber("third"), 1)]

        async def asks(session, topic, action):
            asked.append(session.client_id)
            await asyncio.sleep(0)
            ours.subscriptions[f"came with {len(asked)}"] = []
            ours.subscriptions["topic"][:] = ours.subscriptions["topic"][1:]
            return False  # what follows is amqtt's

        monkeypatch.setattr(ours, "_topic_filtering", asks)
        await ours._broadcast_message(None, "topic", b"data")
        await ours._run_broadcast(ours._tasks_queue)

    asyncio.run(deliver())
    assert asked == ["first", "second", "third"]


def test_a_packet_too_many_is_not_handed_on():
    async def read() -> None:
        packets, left = embedded_broker._Packets(_Pieces(*[b"\xc0\x00"] * 5)), iter([True, True, True, False])
        packets.admits = lambda _size_bytes: next(left)
        for _ in range(3):
            assert await packets.read(2) == b"\xc0\x00"
        with pytest.raises(ConnectionResetError, match="rate limit"):
            await packets.read(2)

    asyncio.run(read())


def test_what_waits_from_a_device_that_is_cut_off_reaches_nobody_and_others_keep_their_order():
    async def waiting() -> list[bytes]:
        told, floods = os.pipe()
        listeners = Listeners("127.0.0.1", 0, "nightjar", "", floods=floods)
        ours = embedded_broker.EmbeddedBroker(embedded_broker.configuration(listeners), listeners)
        flooder, other = Session(), Session()
        flooder.username, other.username = "flooder", "other"
        for number in range(3):
            for session in (flooder, other, None):
                await ours._broadcast_message(session, "topic", f"{number} {session and session.username}".encode())
        while ours._limits.admits("flooder"):
            pass
        taken = asyncio.get_running_loop().create_future()
        assert await ours._handle_message_delivery(flooder, None, taken)  # is dropped unread
        os.close(floods)
        with os.fdopen(told) as heard:
            assert heard.read() == "flooder\n"
        return [ours._broadcast_queue.get_nowait()["data"] for _ in range(ours._broadcast_queue.qsize())]

    assert asyncio.run(waiting()) == [f"{number} {who}".encode() for number in range(3) for who in ("other", None)]
