"""The session against a broker that the test plays itself, byte by byte."""

import contextlib
import queue
import socket

import pytest

from coordinator.shell import mqtt_packets as packets
from coordinator.shell import mqtt_session
from coordinator.shell.free_ports import free_ports
from coordinator.shell.mqtt_session import Hooks, Session

CONNACK, CONNACK_KEPT, REFUSED = b"\x20\x02\x00\x00", b"\x20\x02\x01\x00", b"\x20\x02\x00\x05"
SUBACK, SUBACK_REFUSED = b"\x90\x03\xff\xff\x01", b"\x90\x03\xff\xff\x80"
WAIT_S = 60


class ScriptedBroker:
    """Accepts connections and speaks when the test says so."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self.address = self._listener.getsockname()
        self._reader = packets.Reader(range(256))
        self._unread: list[tuple[int, bytes]] = []
        self.connection: socket.socket | None = None

    def accept(self) -> None:
        self.hang_up()
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(WAIT_S)
        self._reader, self._unread = packets.Reader(range(256)), []
        assert self.next()[0] == 0x10

    def accept_and_greet(self, connack: bytes = CONNACK) -> None:
        self.accept()
        self.say(connack)
        assert self.next()[0] == 0x82
        self.say(SUBACK)

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def next(self) -> tuple[int, bytes]:
        while not self._unread:
            data = self.connection.recv(65536)
            assert data, "the session hung up"
            self._unread += self._reader.feed(data)
        return self._unread.pop(0)

    def next_message(self) -> tuple[int, packets.Message]:
        first, body = self.next()
        return first, packets.read_publish(first, body)

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def close(self) -> None:
        self.hang_up()
        self._listener.close()


class Told:
    """What the hooks were told."""

    def __init__(self) -> None:
        self.queue: queue.Queue = queue.Queue()

    def hooks(self) -> Hooks:
        return Hooks(
            up=lambda kept: self.queue.put(("up", kept)),
            down=lambda reason: self.queue.put(("down", reason)),
            refused=lambda reason: self.queue.put(("refused", reason)),
            unreachable=lambda: self.queue.put(("unreachable", None)),
            arrived=lambda message, acknowledge: self.queue.put((message, acknowledge)),
        )

    def next(self):
        return self.queue.get(timeout=WAIT_S)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(mqtt_session, "RECONNECT_S", (0.01, 0.02))
    with contextlib.ExitStack() as stack:
        broker, told = ScriptedBroker(), Told()
        session = Session(broker.address, "worker", ("name", "secret"), [("a/+", 1)], told.hooks())
        stack.callback(broker.close)
        stack.callback(session.close)
        session.start()
        yield broker, session, told


def test_it_is_connected_when_its_subscriptions_are_granted(world):
    broker, session, told = world
    broker.accept()
    assert not session.connected
    broker.say(CONNACK_KEPT)
    assert broker.next() == (0x82, b"\xff\xff\x00\x03a/+\x01")
    assert not session.connected
    broker.say(SUBACK)
    assert told.next() == ("up", True)
    assert session.connected


@pytest.mark.parametrize(("connack", "suback"), [(REFUSED, b""), (CONNACK, SUBACK_REFUSED)])
def test_a_refusal_is_said_and_tried_again(world, connack, suback):
    broker, session, told = world
    broker.accept()
    broker.say(connack + suback)
    what, reason = told.next()
    assert what == "refused"
    assert "refused" in reason
    assert told.next() == ("down", reason)
    assert not session.connected
    broker.accept_and_greet()
    assert told.next() == ("up", False)


def test_a_message_is_acknowledged_when_it_is_dealt_with_and_not_before(world):
    broker, _, told = world
    broker.accept_and_greet()
    told.next()
    broker.say(packets.publish("a/1", b"first", 7) + packets.publish("a/2", b"second", 8))
    first, acknowledge_first = told.next()
    second, acknowledge_second = told.next()
    assert (first.payload, second.payload) == (b"first", b"second")
    acknowledge_second()
    assert broker.next() == (0x40, b"\x00\x08")
    acknowledge_first()
    assert broker.next() == (0x40, b"\x00\x07")


def test_an_acknowledgement_of_the_connection_before_is_not_sent(world):
    broker, _, told = world
    broker.accept_and_greet()
    told.next()
    broker.say(packets.publish("a/1", b"old", 7))
    _, acknowledge = told.next()
    broker.hang_up()
    assert told.next()[0] == "down"
    broker.accept_and_greet(CONNACK_KEPT)
    assert told.next() == ("up", True)
    acknowledge()
    broker.say(packets.publish("a/1", b"old", 7))
    _, acknowledge = told.next()
    acknowledge()
    assert broker.next() == (0x40, b"\x00\x07")


def test_what_was_not_acknowledged_is_sent_again_as_such_and_what_waited_after_it(world):
    broker, session, told = world
    broker.accept_and_greet()
    told.next()
    session.publish("x", b"one")
    session.publish("x", b"two")
    _, one = broker.next_message()
    broker.next_message()
    broker.say(packets.puback(one.number))
    broker.say(packets.publish("a/1", b"", 1))
    told.next()  # so the PUBACK was read
    broker.hang_up()
    told.next()
    session.publish("x", b"three", retain=True)
    broker.accept_and_greet()
    first, again = broker.next_message()
    assert (first & 0x08, again.payload) == (0x08, b"two")
    first, fresh = broker.next_message()
    assert (first & 0x08, fresh.payload, fresh.retained) == (0, b"three", True)


def test_what_is_published_together_goes_out_in_the_end_in_order(world):
    broker, session, told = world
    broker.accept_and_greet()
    told.next()
    with session.together():
        for number in range(300):
            session.publish("x", str(number).encode())
    assert [int(broker.next_message()[1].payload) for _ in range(300)] == list(range(300))


def test_after_a_read_it_rests_so_that_what_dribbles_in_is_read_at_once_but_sends_meanwhile(world, monkeypatch):
    broker, session, told = world
    monkeypatch.setattr(mqtt_session, "_REST_S", WAIT_S)
    broker.accept_and_greet()
    told.next()
    session.publish("a/1", b"while it rests")  # which wakes it, so what came meanwhile is read as well
    assert broker.next_message()[1].payload == b"while it rests"
    broker.say(packets.publish("a/1", b"one", 7))
    assert told.next()[0].payload == b"one"
    for number in range(8, 12):
        broker.say(packets.publish("a/1", b"more", number))
    with pytest.raises(queue.Empty):
        told.queue.get(timeout=0.2)
    session.publish("a/1", b"again")
    assert [told.next()[0].payload for _ in range(4)] == [b"more"] * 4


def test_no_more_than_the_window_is_under_way(world, monkeypatch):
    monkeypatch.setattr(mqtt_session, "MAX_IN_FLIGHT", 2)
    broker, session, told = world
    broker.accept_and_greet()
    told.next()
    for number in range(3):
        session.publish("x", bytes([number]))
    _, first = broker.next_message()
    broker.next_message()
    broker.connection.settimeout(0.2)
    with pytest.raises(TimeoutError):
        broker.next()
    broker.connection.settimeout(WAIT_S)
    broker.say(packets.puback(first.number))
    assert broker.next_message()[1].payload == b"\x02"


@pytest.mark.parametrize("noise", [b"HTTP/1.1 400 Bad Request\r\n", b"\x40\x01\x00"])
def test_a_server_that_does_not_speak_mqtt_is_left_and_said(world, noise):
    broker, _, told = world
    broker.accept()
    broker.say(noise)
    what, reason = told.next()
    assert (what, "is it an MQTT broker" in reason) == ("down", True)


def test_a_silent_broker_is_left(world, monkeypatch):
    monkeypatch.setattr(mqtt_session, "_POLL_S", 0.02)
    broker, _, told = world
    broker.accept_and_greet()
    assert told.next() == ("up", False)
    monkeypatch.setattr(mqtt_session, "KEEPALIVE_S", 3)
    assert broker.next() == (0xC0, b"")  # PINGREQ, which nobody answers
    assert told.next() == ("down", "the broker is silent")


def test_the_end_sends_what_waits_and_says_goodbye(world):
    broker, session, told = world
    broker.accept_and_greet()
    told.next()
    session.publish("x", b"last")
    session.close()
    assert broker.next_message()[1].payload == b"last"
    assert broker.next() == (0xE0, b"")


def test_nobody_there_is_said_once(monkeypatch):
    monkeypatch.setattr(mqtt_session, "RECONNECT_S", (0.01, 0.02))
    told = Told()
    session = Session(("127.0.0.1", free_ports(1)[0]), "worker", ("", ""), [("a", 1)], told.hooks())
    session.start()
    assert told.next() == ("unreachable", None)
    with pytest.raises(queue.Empty):
        told.queue.get(timeout=0.3)
    session.close()
