"""The broker's configuration for containers: our limits, TLS, passwords, and to each device its own topics only."""

import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from coordinator.shell.broker import find_mosquitto
from coordinator.shell.free_ports import free_ports
from tests.brokers import hang_up
from tests.deploy.certificates import write_certificate
from wire import topics
from wire.identifiers import DeviceId, Population

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "mosquitto"
DEMO = Population("demo")


def lines(path):
    return {line for line in path.read_text().splitlines() if line and not line.startswith("#")}


def test_the_limits_are_ours():
    ours = {line for line in lines(ROOT / "coordinator" / "shell" / "mosquitto.conf") if "$" not in line}
    assert ours <= lines(FOLDER / "mosquitto.conf")


def test_the_access_list_is_the_one_of_the_page():
    page = (ROOT / "docs" / "brokers.md").read_text()
    assert lines(FOLDER / "acl") <= set(page.splitlines())


class Broker:
    def __init__(self, folder):
        self.port, inside = free_ports(2)
        self.chain = write_certificate(folder / "certificates")
        (folder / "data").mkdir()
        (folder / "passwords").write_text("")
        for name in ("coordinator", "phone-1", "phone-2"):
            subprocess.run(
                ["mosquitto_passwd", "-b", folder / "passwords", name, name], check=True, capture_output=True
            )
        text = (FOLDER / "mosquitto.conf").read_text()
        for old, new in {
            "listener 1883": f"listener {inside} 127.0.0.1",
            "listener 8883": f"listener {self.port} 127.0.0.1",
            "/mosquitto/certificates": str(folder / "certificates"),
            "/mosquitto/config/passwords": str(folder / "passwords"),
            "/mosquitto/config/acl": str(FOLDER / "acl"),
            "/mosquitto/data": str(folder / "data"),
        }.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "mosquitto.conf").write_text(f"{text}user root\n")
        self._log = (folder / "log").open("wb")
        self.process = subprocess.Popen([find_mosquitto(), "-c", folder / "mosquitto.conf"], stderr=self._log)

    def close(self):
        self.process.terminate()
        self.process.wait(60)
        self._log.close()

    def client(self, name, password):
        made = paho.Client(CallbackAPIVersion.VERSION2, client_id=f"{name}-client", protocol=paho.MQTTv311)
        made.username_pw_set(name, password)
        made.tls_set_context(ssl.create_default_context(cafile=str(self.chain)))
        deadline = time.monotonic() + 60
        while True:
            try:
                made.connect("127.0.0.1", self.port)
            except ConnectionRefusedError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            else:
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
