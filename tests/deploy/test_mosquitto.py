"""The broker's configuration for containers: our limits, TLS, passwords, and to each device its own topics only."""

import socket
import ssl
import threading
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.mqtt.broker import MAX_QUEUED_BYTES, access_list, find_mosquitto
from tests.brokers import HandMade, hang_up
from wire import topics
from wire.frame import MAX_PACKET_BYTES
from wire.identifiers import DeviceId, Population

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "mosquitto"
DEMO = Population("demo")


def lines(path):
    return {line for line in path.read_text().splitlines() if line and not line.startswith("#")}


def test_the_limits_are_ours():
    ours = {line for line in lines(ROOT / "coordinator" / "mqtt" / "mosquitto.conf") if "$" not in line}
    assert ours <= lines(FOLDER / "mosquitto.conf")

    assert f"memory_limit {2 * MAX_QUEUED_BYTES}" in lines(FOLDER / "mosquitto.conf")
    page = (ROOT / "docs" / "brokers.md").read_text()
    assert {line for line in ours if line.startswith("max_")} <= set(page.splitlines())


def test_the_limits_are_sound():
    limits = dict(line.split() for line in lines(FOLDER / "mosquitto.conf") if len(line.split()) == 2)
    assert int(limits["max_packet_size"]) == MAX_PACKET_BYTES
    assert int(limits["max_queued_bytes"]) == MAX_QUEUED_BYTES < int(limits["memory_limit"])
    under_way = int(limits["max_inflight_messages"]) * MAX_PACKET_BYTES
    assert under_way <= 200 * 2**20, "what the coordinator holds while its disk stalls"
    retained = (len(topics.UP_KINDS) + 1) * MAX_PACKET_BYTES  # of one device
    assert int(limits["memory_limit"]) - MAX_QUEUED_BYTES > 500 * retained


def test_the_access_list_is_ours_and_the_one_of_the_page():
    page = (ROOT / "docs" / "brokers.md").read_text()
    access = {line for line in access_list("coordinator", "demo", 1).splitlines() if line and line[0] != "#"}
    assert lines(FOLDER / "acl") == access <= set(page.splitlines())


class Broker(HandMade):
    def __init__(self, folder):
        super().__init__(folder, "of deploy/", ["phone-1", "phone-2"])

    def client(self, name, password):
        made = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"{name}-client", protocol=paho.MQTTv311)
        made.username_pw_set(name, password)
        made.tls_set_context(ssl.create_default_context(cafile=str(self.authority)))
        made.connect("127.0.0.1", self.port)
        return made


@pytest.fixture
def broker(tmp_path):
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    made = Broker(tmp_path)
    yield made
    made.close()


class Heard:
    """A connected client that keeps what comes."""

    def __init__(self, broker, name, password, filters):
        self.messages, self._event = [], threading.Condition()
        self.refused, self.subscribed = None, threading.Event()
        self.client = broker.client(name, password)
        self.client.on_connect = lambda client, _d, _f, code, _p: self._connected(client, code, filters)
        self.client.on_subscribe = lambda *_: self.subscribed.set()
        self.client.on_message = self._arrived
        self.client.loop_start()
        assert self.subscribed.wait(60)

    def _connected(self, client, code, filters):
        self.refused = code.is_failure
        if self.refused:
            self.subscribed.set()
        else:
            client.subscribe([(one, 1) for one in filters])

    def _arrived(self, _client, _data, message):
        with self._event:
            self.messages.append((message.topic, message.payload))
            self._event.notify_all()

    def wait_for(self, payload):
        with self._event:
            assert self._event.wait_for(lambda: any(body == payload for _, body in self.messages), 60)

    def publish(self, topic, payload):
        self.client.publish(topic, payload, qos=1).wait_for_publish(60)

    def close(self):
        hang_up(self.client)


@pytest.mark.broker
def test_a_device_reaches_its_own_topics_and_nobody_elses(broker):
    coordinator = Heard(
        broker, "coordinator", "coordinator", [topics.shard_filter(DEMO, 0), topics.status_filter(DEMO)]
    )
    one, two = DeviceId("phone-1"), DeviceId("phone-2")
    phone = Heard(
        broker, one, one, [*topics.device_filters(DEMO, one), topics.down(DEMO, two, "receipt"), "nightjar/#"]
    )
    stranger = Heard(broker, one, "guessed", [])
    try:
        assert stranger.refused
        for topic in (topics.up(DEMO, two, "report", 1), topics.status(DEMO, two), topics.announce(DEMO)):
            phone.publish(topic, b"forged")
        phone.publish(topics.up(DEMO, one, "report", 1), b"mine")
        coordinator.wait_for(b"mine")
        assert all(body == b"mine" for _, body in coordinator.messages)
        for topic in (topics.down(DEMO, two, "receipt"), topics.up(DEMO, two, "report", 1)):
            coordinator.publish(topic, b"for somebody else")
        coordinator.publish(topics.down(DEMO, one, "receipt"), b"for me")
        phone.wait_for(b"for me")
        assert all(body == b"for me" for _, body in phone.messages)
    finally:
        for client in (coordinator, phone, stranger):
            client.close()


@pytest.mark.broker
def test_who_does_not_trust_the_certificate_does_not_connect(broker):
    hang_up(broker.client("phone-1", "phone-1"))
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", broker.port), timeout=60) as line,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(line, server_hostname="127.0.0.1")
