"""The adapter around paho against a broker that the test plays itself, byte by byte."""

import contextlib
import queue
import socket
import ssl
import time

import pytest

from nightjar.benchmarks.mqtt_client import publish, take_packets
from nightjar.coordinator.config import BrokerConfig, BrokerKind
from nightjar.coordinator.mqtt import client as mqtt
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.sieve import FLOOD
from nightjar.coordinator.records.inbox import (
    BrokerConnected,
    BrokerDisconnected,
    BrokerRefused,
    MessageArrived,
    SessionLost,
)
from nightjar.wire.frame import MAX_PACKET_BYTES
from nightjar.wire.identifiers import Population
from tests.deploy.certificates import write_certificate
from tests.enrolment.flooder import packet, text

CONNACK, CONNACK_KEPT, REFUSED = b"\x20\x02\x00\x00", b"\x20\x02\x01\x00", b"\x20\x02\x00\x05"
DUPLICATE, QOS_1, RETAIN = 0x08, 0x02, 0x01
WAIT_S = 60


class ScriptedBroker:
    """Accepts connections and speaks when the test says so."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(WAIT_S)
        self.port = self._listener.getsockname()[1]
        self._buffer = bytearray()
        self._unread: list[tuple[int, bytes]] = []
        self.connection: socket.socket | None = None

    def accept(self) -> bytes:
        self.hang_up()
        self.connection, _ = self._listener.accept()
        self.connection.settimeout(WAIT_S)
        if self._tls is not None:
            self.connection = self._tls.wrap_socket(self.connection, server_side=True)
        self._buffer, self._unread = bytearray(), []
        first, body = self.next()
        assert first == 0x10
        return body

    def greet(self, connack: bytes = CONNACK, granted: bytes = b"\x01\x01\x00") -> None:
        self.say(connack)
        first, body = self.next()
        assert first == 0x82
        self.say(bytes([0x90, 2 + len(granted)]) + body[:2] + granted)

    def accept_and_greet(self, connack: bytes = CONNACK) -> None:
        self.accept()
        self.greet(connack)

    def say(self, data: bytes) -> None:
        self.connection.sendall(data)

    def next(self) -> tuple[int, bytes]:
        while not self._unread:
            data = self.connection.recv(65536)
            assert data, "the client hung up"
            self._buffer += data
            self._unread += take_packets(self._buffer)
        return self._unread.pop(0)

    def next_message(self) -> tuple[int, bytes, bytes]:
        """Flags, number and payload."""
        first, body = self.next()
        assert first & 0xF0 == 0x30
        end = 2 + int.from_bytes(body[:2], "big")
        return first & 0x0F, body[end : end + 2], body[end + 2 :]

    def hang_up(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def close(self) -> None:
        self.hang_up()
        self._listener.close()


def transport_to(port, post):
    return MqttSessions(BrokerConfig(kind=BrokerKind.EXTERNAL, port=port), Population("demo"), 1, post)


@pytest.fixture
def world(monkeypatch):
    monkeypatch.setattr(mqtt, "RECONNECT_S", (0.01, 0.02))
    posted: queue.Queue = queue.Queue()
    with contextlib.ExitStack() as stack:
        broker = ScriptedBroker()
        stack.callback(broker.close)
        transport = transport_to(broker.port, posted.put)
        stack.callback(transport.close)
        transport.start()
        yield broker, transport, lambda timeout_s=WAIT_S: posted.get(timeout=timeout_s)


def test_the_session_is_durable_and_connected_when_its_subscriptions_are_granted(world):
    broker, transport, told = world
    body = broker.accept()
    assert (body[6], body[7] & 0x02) == (4, 0), "MQTT 3.1.1, and not a clean session"
    assert b"nightjar-coordinator-demo-0" in body
    assert transport.trouble
    broker.greet(CONNACK_KEPT)
    assert told() == BrokerConnected()
    assert not transport.trouble


def test_a_refusal_is_said_and_tried_again(world):
    broker, transport, told = world
    broker.accept()
    broker.say(REFUSED)
    assert told() == BrokerRefused("the broker refused us: not authorized")
    assert told() == BrokerDisconnected()
    assert "not authorized" in transport.trouble
    broker.accept_and_greet()
    assert told() == BrokerConnected()
    assert transport.trouble == ""


def test_refused_subscriptions_are_said_and_asked_for_again(world):
    broker, transport, told = world
    broker.accept()
    broker.greet(granted=b"\x80\x80\x00")
    assert "access list" in told().reason
    assert told() == BrokerDisconnected()
    assert "access list" in transport.trouble
    broker.accept_and_greet()
    assert told() == BrokerConnected()


def test_a_message_is_acknowledged_when_it_is_dealt_with_and_not_before(world):
    broker, _, told = world
    broker.accept_and_greet()
    told()
    broker.say(publish("a/1", b"first", 7) + publish("a/2", b"second", 8))
    first, second = told(), told()
    assert (first.payload, second.payload) == (b"first", b"second")
    second.acknowledge()
    assert broker.next() == (0x40, b"\x00\x08")
    first.acknowledge()
    assert broker.next() == (0x40, b"\x00\x07")


def test_an_acknowledgement_of_the_connection_before_is_not_sent(world):
    broker, _, told = world
    broker.accept_and_greet()
    told()
    broker.say(publish("a/1", b"old", 7))
    old = told()
    broker.hang_up()
    assert told() == BrokerDisconnected()
    broker.accept_and_greet(CONNACK_KEPT)
    assert told() == BrokerConnected()
    old.acknowledge()
    broker.say(publish("a/1", b"old", 8))
    again = told()
    assert isinstance(again, MessageArrived)
    again.acknowledge()
    assert broker.next() == (0x40, b"\x00\x08")


def test_a_message_that_cannot_be_taken_is_acknowledged_and_the_next_one_is_taken(world):
    broker, _, told = world
    broker.accept_and_greet()
    told()
    broker.say(b"\x32\x07\x00\x03\xff\xff\xff\x00\x07" + publish("a/1", b"next", 8))  # a topic that is no UTF-8
    assert broker.next() == (0x40, b"\x00\x07")
    assert told().payload == b"next"


def test_of_a_packet_that_is_too_large_only_as_much_is_kept_as_shows_it_and_the_next_one_is_taken(world):
    broker, transport, told = world
    broker.accept_and_greet()
    told()
    broker.say(publish("a/1", bytes(17 * 2**20), 7) + publish("a/1", b"next", 8))
    large, following = told(), told()
    assert (large.payload, following.payload) == (bytes(MAX_PACKET_BYTES + 1), b"next")
    large.acknowledge()
    assert broker.next() == (0x40, b"\x00\x07")
    assert not transport.trouble


def test_while_the_driver_is_far_behind_nothing_is_read(world, monkeypatch):
    monkeypatch.setattr(mqtt, "MAX_WAITING_BYTES", 2 * mqtt.OVERHEAD_BYTES)
    broker, _, told = world
    broker.accept_and_greet()
    told()
    broker.say(b"".join(publish("a/1", b"%d" % number, number) for number in range(1, 5)))
    first, second = told(), told()
    with pytest.raises(queue.Empty):
        told(0.2)
    second.acknowledge()
    assert told().payload == b"3"
    first.acknowledge()
    assert told().payload == b"4"


def test_who_is_far_behind_can_be_closed(world, monkeypatch):
    monkeypatch.setattr(mqtt, "MAX_WAITING_BYTES", 1)
    broker, transport, told = world
    broker.accept_and_greet()
    told()
    broker.say(publish("a/1", b"", 1) + publish("a/1", b"", 2))
    told()
    transport.close()
    assert told().payload == b""


def test_now_and_then_the_broker_is_asked_for_what_it_retained_since(world, monkeypatch):
    monkeypatch.setattr(mqtt, "SWEEP_S", -1.0)
    broker, _, told = world
    broker.accept_and_greet()
    told()
    broker.say(publish("a/1", b"any", 1))
    assert told().payload == b"any"
    first, body = broker.next()
    assert (first, body[4:]) == (0x82, b"nightjar/1/demo/up/0/+/+\x01")
    broker.say(b"\x90\x03" + body[:2] + b"\x01" + publish("a/1", b"more", 2))
    assert told().payload == b"more"  # and not that we were connected anew


def test_what_was_not_acknowledged_is_sent_again_as_such_and_what_waited_after_it(world):
    broker, transport, told = world
    broker.accept_and_greet()
    told()
    transport.publish("x", b"one")
    transport.publish("x", b"two")
    _, number, _ = broker.next_message()
    broker.next_message()
    broker.say(b"\x40\x02" + number)
    broker.say(publish("a/1", b"", 1))
    told()  # so the PUBACK was read
    broker.hang_up()
    told()
    transport.publish("x", b"three", retain=True)
    broker.accept_and_greet()
    assert told() == SessionLost(0)
    flags, _, again = broker.next_message()
    assert (flags, again) == (DUPLICATE | QOS_1, b"two")
    flags, _, fresh = broker.next_message()
    assert (flags, fresh) == (QOS_1 | RETAIN, b"three")


def test_the_end_sends_what_waits_and_says_goodbye(world):
    broker, transport, told = world
    broker.accept_and_greet()
    told()
    transport.publish("x", b"last")
    transport.close()
    assert broker.next_message()[2] == b"last"
    assert broker.next() == (0xE0, b"")


def test_nobody_there_is_said_with_the_address(monkeypatch):
    monkeypatch.setattr(mqtt, "RECONNECT_S", (0.01, 0.02))
    posted: queue.Queue = queue.Queue()
    port = free_ports(1)[0]
    transport = transport_to(port, posted.put)
    transport.start()
    with pytest.raises(queue.Empty):
        posted.get(timeout=0.3)
    assert transport.trouble == f"the broker is not connected: nobody answers at 127.0.0.1:{port}"
    transport.close()


def test_who_left_a_flood_is_back_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(mqtt, "RECONNECT_S", (30.0, 30.0))
    monkeypatch.setattr("nightjar.coordinator.mqtt.sieve.LASTS_AT_LEAST_S", 0.0)
    chain = write_certificate(tmp_path, begins_days=-1, ends_days=1)
    ours, theirs = ssl.create_default_context(cafile=chain), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.check_hostname = False
    theirs.load_cert_chain(chain, tmp_path / "privkey.pem")
    posted = queue.Queue()
    with contextlib.closing(ScriptedBroker(theirs)) as broker:
        config = BrokerConfig(kind=BrokerKind.EXTERNAL, port=broker.port)
        sessions = MqttSessions(config, Population("demo"), 1, posted.put, ours, is_cut_off=lambda _device: True)
        with contextlib.closing(sessions):
            sessions.start()
            broker.accept_and_greet()
            flood, begun = packet(0x30, text("nightjar/1/demo/up/flooder/query/1")) * FLOOD, time.monotonic()
            with contextlib.suppress(OSError):
                while time.monotonic() - begun < WAIT_S:
                    broker.say(flood)
            begun = time.monotonic()
            broker.accept_and_greet()
            assert time.monotonic() - begun < mqtt.RECONNECT_S[0] / 2
            assert [type(posted.get(timeout=WAIT_S)) for _ in range(4)] == [
                BrokerConnected,
                BrokerDisconnected,
                SessionLost,
                BrokerConnected,
            ]
