"""What the agent's connection says of a broker's trouble, with a real mosquitto."""

import queue
import socket
import subprocess
import threading
import time

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.mqtt.broker import find_mosquitto, write_mosquitto_files
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.edge_agent.inbox import Arrived, LinkDown, LinkUp
from nightjar.edge_agent.shell.mqtt import BrokerAddress, MqttTransport
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.frame import MAX_PUBLISH_BYTES
from tests.brokers import hang_up
from tests.processes import end

PATIENCE_S = 60.0
UP, DOWN, STATUS = "nightjar/1/demo/up/0/phone/report", "nightjar/1/demo/down/phone/+", "nightjar/1/demo/status/phone"


@pytest.fixture
def start_mosquitto(tmp_path):
    """Starts mosquitto with our configuration and more lines; its port."""
    if not find_mosquitto():
        pytest.skip("mosquitto is not installed on this machine")
    children = []

    def start(replaced="", by=""):
        (port,) = free_ports(1)
        path = write_mosquitto_files(Listeners("127.0.0.1", port, "", ""), tmp_path)
        assert replaced in path.read_text()
        path.write_text(path.read_text().replace(replaced, by))
        children.append(subprocess.Popen([find_mosquitto(), "-c", str(path)], stderr=subprocess.DEVNULL))
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                return port
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.05)

    yield start
    for child in children:
        end(child, 20)


class Agent:
    """The transport, and what it posts."""

    def __init__(self, port, *, filters=(DOWN,), websocket=False):
        self.posted = queue.Queue()
        broker = BrokerAddress("127.0.0.1", port, "phone", websocket=websocket)
        self.transport = MqttTransport(broker, "agent", filters, (STATUS, b""), self.posted.put)

    def __enter__(self):
        self.transport.start()
        return self

    def __exit__(self, *_):
        self.transport.close(STATUS, b"")
        hang_up(self.transport._client)

    def hear(self, kind):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            item = self.posted.get(timeout=max(0.1, deadline - time.monotonic()))
            if isinstance(item, kind):
                return item


@pytest.mark.broker
def test_what_is_delivered_is_not_complained_of_and_answers_come(start_mosquitto):
    port = start_mosquitto()
    heard = queue.Queue()
    listener = paho.Client(CallbackAPIVersion.VERSION2, "listener")
    listener.username_pw_set("listener")
    listener.on_message = lambda _c, _u, message: heard.put(bytes(message.payload))
    listener.on_subscribe = lambda *_: heard.put(b"subscribed")
    listener.on_connect = lambda client, *_: client.subscribe("nightjar/#", 1)
    listener.connect("127.0.0.1", port)
    listener.loop_start()
    try:
        assert heard.get(timeout=PATIENCE_S) == b"subscribed"
        with Agent(port) as agent:
            agent.hear(LinkUp)
            assert agent.transport.publish(UP, bytes(MAX_PUBLISH_BYTES))
            assert heard.get(timeout=PATIENCE_S) == bytes(MAX_PUBLISH_BYTES)
            assert agent.posted.empty()
    finally:
        hang_up(listener)


@pytest.mark.broker
def test_a_lost_connection_is_said(start_mosquitto):
    with Agent(start_mosquitto()) as agent:
        agent.hear(LinkUp)
        agent.transport._client.socket().shutdown(socket.SHUT_RDWR)
        assert "ended" in agent.hear(LinkDown).reason
        agent.hear(LinkUp)


def test_a_larger_publish_is_an_error_of_ours():
    transport = Agent(1).transport
    with pytest.raises(LocalProtocolError, match=f"may have {MAX_PUBLISH_BYTES} bytes"):
        transport.publish(UP, bytes(MAX_PUBLISH_BYTES + 1))


@pytest.mark.broker
def test_an_agent_speaks_mqtt_over_websocket(start_mosquitto):
    (port,) = free_ports(1)
    start_mosquitto("max_inflight_messages", f"listener {port} 127.0.0.1\nprotocol websockets\nmax_inflight_messages")
    with Agent(port, filters=(UP,), websocket=True) as agent:
        agent.hear(LinkUp)  # the broker may open this port after the one that the fixture waits for
        payload = bytes(range(256)) * (MAX_PUBLISH_BYTES // 256)
        assert agent.transport.publish(UP, payload)
        assert agent.posted.get(timeout=PATIENCE_S) == Arrived(UP, payload)


@pytest.mark.broker
@pytest.mark.slow
def test_two_cards_with_one_identity_both_say_so_and_leave_each_other_in_peace(start_mosquitto):
    port = start_mosquitto()
    with Agent(port) as one, Agent(port) as other:
        for agent in (one, other):
            wait_until_twin(agent)
        # From then on each waits for seconds at least, and longer each time.
        for agent in (one, other):
            assert agent.transport._client._reconnect_min_delay >= 4.0


@pytest.mark.broker
@pytest.mark.slow
def test_a_twin_that_takes_the_connection_again_and_again_before_it_is_used_is_named(start_mosquitto):
    port, over = start_mosquitto(), threading.Event()

    def take():
        while not over.wait(0.05):
            client = paho.Client(CallbackAPIVersion.VERSION2, "agent", protocol=paho.MQTTv311)
            client.username_pw_set("phone")
            client.connect("127.0.0.1", port)
            client.loop()
            client.loop()
            hang_up(client)

    thread = threading.Thread(target=take)
    thread.start()
    try:
        with Agent(port) as agent:
            wait_until_twin(agent)
    finally:
        over.set()
        thread.join()


def wait_until_twin(agent):
    deadline = time.monotonic() + PATIENCE_S
    while not agent.transport.twin:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert "on " + socket.gethostname() + " at 127.0.0.1: the broker ended" in agent.transport.twin
