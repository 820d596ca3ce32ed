"""What a broker does wrong, told by its real reason and tried again, without a broker."""

import contextlib
import faulthandler
import queue
import socket
import ssl
import threading

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from nightjar.edge_agent.inbox import LinkUp
from nightjar.edge_agent.shell import mqtt
from nightjar.edge_agent.shell.mqtt import BrokerAddress, MqttTransport
from nightjar.wire.backoff import BackOff
from tests.deploy.certificates import write_certificate

CONNACK = bytes.fromhex("20020000")
ACCEPTED = ReasonCode(PacketTypes.CONNACK, "Success")
GRANTED = ReasonCode(PacketTypes.SUBACK, "Granted QoS 1")
ENDED = ReasonCode(PacketTypes.DISCONNECT, "Unspecified error")


def transport_to(port, post, tls=None, host="127.0.0.1"):
    return MqttTransport(BrokerAddress(host, port, "pi-kitchen", tls=tls), "one", ["a/#"], ("will", b""), post)


OTHER_NUMBER, TWO, CLOSE = "other number", "two answers to one", "close"


class MoodyBroker:
    """Answers each SUBSCRIBE by a byte of the SUBACK, None for no answer, or what is named above; then it grants."""

    def __init__(self, answers):
        self.answers, self.subscribed, self.connections = list(answers), 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with self.listener, contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                with connection, contextlib.suppress(ConnectionError):
                    self.hold(connection)

    def hold(self, connection):
        while data := connection.recv(4096):
            kind = data[0] & 0xF0
            if kind == 0x10:
                connection.sendall(CONNACK)
            elif kind == 0x80:
                self.subscribed += 1
                answer, number = self.answers.pop(0) if self.answers else 1, data[2:4]
                match answer:
                    case None:
                        pass
                    case "close":
                        return
                    case "other number":
                        connection.sendall(b"\x90\x03" + bytes([number[0], number[1] ^ 0x40]) + b"\x01")
                    case "two answers to one":
                        connection.sendall(b"\x90\x04" + number + b"\x01\x01")
                    case _:
                        connection.sendall(b"\x90\x03" + number + bytes([answer]))


def until_connected(transport, happened):
    """Start it; returns what it says until it is connected."""
    transport.start()
    said = []
    try:
        while not isinstance(item := happened.get(timeout=60), LinkUp):
            said.append(item.reason)
    except queue.Empty:
        faulthandler.dump_traceback()  # paho's thread ended once: select takes no file beyond the first 1,024
        pytest.fail(f"silent for a minute after {said}")
    transport.close("status", b"")
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", [None, 0x80, 0x87, OTHER_NUMBER, TWO], ids=["no answer", "refused", "refused as in MQTT 5", "other", "two"]
)
def test_a_subscription_that_is_refused_or_not_answered_is_tried_again(monkeypatch, first):
    monkeypatch.setattr(mqtt, "SUBSCRIBE_AGAIN", BackOff(0.2, 10.0))
    broker, happened = MoodyBroker([first, first]), queue.SimpleQueue()
    said = until_connected(transport_to(broker.port, happened.put), happened)
    assert broker.subscribed >= 3  # more, where the machine is too busy to answer in time
    assert len(said) >= 2
    assert all("we ask again" in reason for reason in said)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0x03, 0x7F, 0xFF, CLOSE])
def test_a_broker_that_answers_what_is_no_mqtt_or_forgets_us_is_connected_to_again(monkeypatch, first):
    monkeypatch.setattr(mqtt, "SUBSCRIBE_AGAIN", BackOff(0.2, 10.0))
    broker, happened = MoodyBroker([first]), queue.SimpleQueue()
    said = until_connected(transport_to(broker.port, happened.put), happened)
    assert broker.connections >= 2
    assert "the connection to the broker ended" in said[0]


def reasons(transport, happened):
    transport.start()
    try:
        return happened.get(timeout=30).reason
    finally:
        transport.close("status", b"")


def test_a_port_where_nobody_listens_and_a_name_that_nobody_knows():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    happened = queue.SimpleQueue()
    assert "Connection refused" in reasons(transport_to(port, happened.put), happened)
    happened = queue.SimpleQueue()
    found = reasons(transport_to(port, happened.put, host="broker.invalid"), happened)
    assert "the name of the broker, broker.invalid, cannot be resolved" in found


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves such a socket open
@pytest.mark.parametrize(
    ("days", "trusted", "said"),
    [
        ((-9, -2), True, "certificate has expired"),
        ((2, 9), True, "certificate is not yet valid"),
        ((-1, 1), False, "self-signed certificate"),
    ],
    ids=["expired", "not yet valid", "of another authority"],
)
def test_a_certificate_that_is_not_accepted_is_told_with_its_reason(tmp_path, days, trusted, said):
    chain = write_certificate(tmp_path, begins_days=days[0], ends_days=days[1])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, tmp_path / "privkey.pem")
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            connection, _ = listener.accept()
            with server.wrap_socket(connection, server_side=True, do_handshake_on_connect=False) as held:
                held.do_handshake()

    threading.Thread(target=serve, daemon=True).start()
    ours = chain if trusted else write_certificate(tmp_path / "other")
    happened = queue.SimpleQueue()
    port = listener.getsockname()[1]
    found = reasons(transport_to(port, happened.put, ssl.create_default_context(cafile=ours)), happened)
    listener.close()
    assert said in found.replace("self signed", "self-signed")
    assert "clock is right" in found


@pytest.fixture
def transport():
    happened = queue.SimpleQueue()
    made = transport_to(1, happened.put)
    made.happened = happened
    return made


def lives(transport, monkeypatch, seconds, granted=True):
    now_s = [0.0]
    monkeypatch.setattr(mqtt.time, "monotonic", lambda: now_s[0])
    transport._on_connect(None, None, None, ACCEPTED, None)
    if granted:
        transport._asked.add(1)
        transport._on_subscribe(None, None, 1, [GRANTED], None)
    now_s[0] = seconds
    transport._on_disconnect(None, None, None, ENDED, None)
    return transport._client._reconnect_min_delay


@pytest.mark.parametrize("granted", [True, False], ids=["subscribed", "taken before it has subscribed"])
def test_two_devices_with_one_identity_pause_longer_and_longer_and_say_who_they_are(transport, monkeypatch, granted):
    pauses = [lives(transport, monkeypatch, 1.0, granted) for _ in range(12)]
    assert pauses[0] < 3
    assert pauses[-1] >= 300
    assert sorted(pauses[2:7]) == pauses[2:7]
    assert f"the identity of this one, pi-kitchen on {socket.gethostname()} at " in transport.twin
    assert lives(transport, monkeypatch, 3600.0) < 3
    assert transport.twin == ""


def test_a_connection_that_breaks_now_and_then_is_no_twin(transport, monkeypatch):
    for _ in range(5):
        lives(transport, monkeypatch, 1.0)
        assert lives(transport, monkeypatch, 120.0) < 5
    assert transport.twin == ""
