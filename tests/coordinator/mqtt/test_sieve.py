"""What a device that is cut off sent is taken out of the stream before paho parses it, and nothing else is."""

import contextlib
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.config import BrokerConfig
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.mqtt.sieve import FLOOD, Sieve, sieve
from nightjar.wire import topics
from nightjar.wire.identifiers import DeviceId, Population
from tests.deploy.certificates import write_certificate
from tests.enrolment.flooder import packet

REFUSED, TAKEN = "up/flooder", "up/neighbour"


def publish(topic, payload, level=0, number=7):
    name = topic.encode()
    behind = number.to_bytes(2, "big") if level else b""
    return packet(0x30 | level << 1, len(name).to_bytes(2, "big") + name + behind + payload)


PUBLISHES = st.tuples(
    st.sampled_from([REFUSED, TAKEN, "", "up/ü"]), st.binary(max_size=300), st.integers(0, 1), st.integers(1, 65535)
)
OTHERS = st.builds(packet, st.sampled_from([0x20, 0x40, 0x90, 0xD0, 0x34]), st.binary(max_size=9))


@given(st.lists(PUBLISHES | OTHERS, max_size=12), st.lists(st.integers(1, 50), min_size=1, max_size=30))
def test_only_what_is_refused_is_taken_out_however_the_stream_is_cut(packets, cuts):
    tested = Sieve(lambda topic: topic == REFUSED)
    stream, expected, acknowledged = b"", b"", b""
    for each in packets:
        whole = publish(*each) if isinstance(each, tuple) else each
        stream += whole
        if isinstance(each, tuple) and each[0] == REFUSED:
            acknowledged += b"\x40\x02" + each[3].to_bytes(2, "big") if each[2] else b""
        else:
            expected += whole
    kept, turn = b"", 0
    while stream:
        size = cuts[turn % len(cuts)]
        kept, stream, turn = kept + tested.feed(stream[:size]), stream[size:], turn + 1
    assert (kept, bytes(tested.acknowledgements)) == (expected, acknowledged)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_bytes_are_read_and_those_that_are_no_packets_reach_the_client(pieces):
    tested = Sieve(lambda _topic: False)
    sent, kept = b"".join(pieces), b"".join(tested.feed(piece) for piece in pieces)
    assert sent.startswith(kept)
    assert not tested.acknowledgements


def test_a_length_that_no_packet_can_have_is_left_to_the_client():
    tested = Sieve(lambda _topic: True)
    assert tested.feed(b"\x30\xff\xff\xff\xff\xff") == b"\x30\xff\xff\xff\xff\xff"
    assert tested.feed(publish(REFUSED, b"")) == publish(REFUSED, b"")


@pytest.fixture
def connected(tmp_path):
    """A sieved client's socket, and the server's."""
    chain = write_certificate(tmp_path, begins_days=-1, ends_days=1)
    ours, theirs = ssl.create_default_context(cafile=chain), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.check_hostname = False
    theirs.load_cert_chain(chain, tmp_path / "privkey.pem")
    sieve(ours, lambda topic: topic == REFUSED)
    here, there = socket.socketpair()
    with ThreadPoolExecutor(1) as other:
        accepted = other.submit(theirs.wrap_socket, there, server_side=True)
        with ours.wrap_socket(here) as client, accepted.result() as server:
            client.settimeout(20)
            server.settimeout(20)
            yield client, server


def test_a_socket_reads_past_a_flood_and_acknowledges_it_between_the_packets_of_its_client(connected):
    client, server = connected
    flood = b"".join(publish(REFUSED, b"x", 1, number) for number in range(1, 1001))
    server.sendall(flood + publish(TAKEN, b"check-in"))
    assert client.recv(1) == b"\x30"
    assert client.recv(1000) == publish(TAKEN, b"check-in")[1:]
    assert client.send(b"the client's own") == 16
    received = b""
    while len(received) < 4016:
        received += server.recv(5000)
    numbers = b"".join(b"\x40\x02" + number.to_bytes(2, "big") for number in range(1, 1001))
    assert received == numbers + b"the client's own"


def test_a_client_that_began_a_packet_ends_it_before_anything_is_acknowledged(connected):
    client, server = connected
    client.setblocking(False)
    sent, large = 0, bytes(1 << 16)
    with contextlib.suppress(ssl.SSLWantWriteError):
        while True:
            sent += client.send(large)
    server.sendall(publish(REFUSED, b"x", 1) + publish(TAKEN, b""))
    while True:
        with contextlib.suppress(ssl.SSLWantReadError):
            assert client.recv(100) == publish(TAKEN, b"")
            break
    received = b""
    while len(received) < sent:
        received += server.recv(1 << 16)
    client.setblocking(True)
    sent += client.send(large)
    assert client.pending() == 0  # it sends what waits
    while len(received) < sent + 4:
        received += server.recv(1 << 16)
    assert received == bytes(sent) + b"\x40\x02\x00\x07"


def test_a_flood_without_end_leaves_the_client_its_turn(connected, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.mqtt.sieve.LONGEST_READ_S", 0.0)
    client, server = connected
    server.sendall(publish(REFUSED, b"x"))
    with pytest.raises(ssl.SSLWantReadError):
        client.recv(1)


def test_a_connection_that_ends_is_seen(connected):
    client, server = connected
    server.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(ssl.SSLEOFError, BrokenPipeError):  # the latter where OpenSSL answers the end
        assert client.recv(1) == b""


def test_the_sessions_of_the_coordinator_refuse_what_a_device_that_is_cut_off_sends():
    context, where = ssl.create_default_context(), Population("demo")
    MqttSessions(BrokerConfig(), where, 1, lambda _: None, context, is_cut_off=lambda device: device == "flooder")
    names = [DeviceId("flooder"), DeviceId("neighbour")]
    found = [topics.up(where, name, "check-in", 1) for name in names] + [topics.status(where, name) for name in names]
    assert [context.sslsocket_class.refuses(topic) for topic in found] == [True, False, True, False]


@pytest.mark.parametrize(("level", "ended"), [(0, True), (1, False)])
def test_a_flood_that_the_broker_may_forget_ends_the_connection(connected, monkeypatch, level, ended):
    monkeypatch.setattr("nightjar.coordinator.mqtt.sieve.LASTS_AT_LEAST_S", 0.0)
    client, server = connected
    server.sendall(b"".join(publish(REFUSED, b"x", level, number) for number in range(1, FLOOD + 1)))
    server.sendall(publish(TAKEN, b"a"))
    assert client.recv(100) == publish(TAKEN, b"a")
    server.sendall(publish(TAKEN, b"b"))
    with pytest.raises(ConnectionResetError) if ended else contextlib.nullcontext():
        assert client.recv(100) == publish(TAKEN, b"b")


def test_a_young_connection_is_not_ended_so_that_floods_do_not_keep_us_away(connected):
    client, server = connected
    server.sendall(publish(REFUSED, b"x") * (FLOOD + 1) + publish(TAKEN, b"a"))
    assert client.recv(100) == publish(TAKEN, b"a")
    server.sendall(publish(TAKEN, b"b"))
    assert client.recv(100) == publish(TAKEN, b"b")


def test_a_flood_that_is_over_does_not_end_the_connection(connected, monkeypatch):
    monkeypatch.setattr("nightjar.coordinator.mqtt.sieve.LASTS_AT_LEAST_S", 0.0)
    monkeypatch.setattr("nightjar.coordinator.mqtt.sieve.SHORTLY_S", 0.0)
    client, server = connected
    server.sendall(publish(REFUSED, b"x") * FLOOD + publish(TAKEN, b"a"))
    assert client.recv(100) == publish(TAKEN, b"a")
    server.sendall(publish(TAKEN, b"b"))
    assert client.recv(100) == publish(TAKEN, b"b")
    assert not client.left_flood
