"""A broker's trouble as the coordinator sees it: real mosquittos that throw away, forget and refuse."""

import queue
import time

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.config import BrokerConfig, BrokerKind
from nightjar.coordinator.mqtt import client as mqtt
from nightjar.coordinator.mqtt.broker import find_mosquitto
from nightjar.coordinator.mqtt.client import MqttSessions
from nightjar.coordinator.records.inbox import (
    BrokerConnected,
    BrokerDisconnected,
    BrokerDropped,
    BrokerRefused,
    MessageArrived,
    SessionLost,
)
from nightjar.wire import topics
from nightjar.wire.identifiers import DeviceId, Population
from tests.brokers import hang_up
from tests.faults.world import Mosquitto

PATIENCE_S = 60.0
POPULATION = Population("demo")
REPORT = topics.up(POPULATION, DeviceId("phone"), "report", 1)

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine"),
]


@pytest.fixture(autouse=True)
def _quick_reconnects(monkeypatch):
    monkeypatch.setattr(mqtt, "RECONNECT_S", (0.05, 0.2))


@pytest.fixture
def broker(tmp_path):
    with Mosquitto(tmp_path / "broker") as one:
        yield one


class Side:
    """The coordinator's transport and what it posts."""

    def __init__(self, port, shards=1, password="", username="nightjar"):
        self.posted = queue.Queue()
        config = BrokerConfig(kind=BrokerKind.EXTERNAL, port=port, username=username, password=password)
        self.transport = MqttSessions(config, POPULATION, shards, self.posted.put)

    def __enter__(self):
        self.transport.start()
        return self

    def __exit__(self, *_):
        self.transport.close()

    def hear(self, kind):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            item = self.posted.get(timeout=max(0.1, deadline - time.monotonic()))
            if isinstance(item, kind):
                return item


def publish(port, count, payload=b"report", topic=REPORT, password=None):
    """As a device does, until every PUBACK is there."""
    client = paho.Client(CallbackAPIVersion.VERSION2, "phone")
    client.username_pw_set("phone", password)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for one in [client.publish(topic, payload, qos=1) for _ in range(count)]:
        one.wait_for_publish(PATIENCE_S)
    hang_up(client)


def reconfigure(broker, folder, *changes):
    path = folder / "broker" / "mosquitto.conf"
    text = path.read_text()
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path.write_text(text)


def test_what_a_broker_with_stock_limits_throws_away_is_counted_although_every_publisher_got_a_puback(tmp_path, broker):
    broker.stop()
    reconfigure(
        broker, tmp_path, ("max_queued_messages 100000", "max_queued_messages 10"), ("sys_interval 5", "sys_interval 1")
    )
    broker.start()
    with Side(broker.port) as side:
        side.hear(BrokerConnected)
        # Nothing is acknowledged, so the window and then the queue fill up.
        publish(broker.port, 1100)
        dropped = side.hear(BrokerDropped).count
        while dropped < 90:
            dropped += side.hear(BrokerDropped).count
        assert dropped == 90  # 1,000 under way, 10 queued


def test_a_broker_that_forgot_our_session_is_said_for_each_shard(tmp_path, broker):
    with Side(broker.port, shards=2) as side:
        side.hear(BrokerConnected)
        while side.transport.trouble:
            time.sleep(0.02)
        broker.stop()
        (tmp_path / "broker" / "mosquitto.db").unlink(missing_ok=True)
        side.hear(BrokerDisconnected)
        assert "not connected" in side.transport.trouble
        broker.start()
        assert {side.hear(SessionLost).shard, side.hear(SessionLost).shard} == {0, 1}


def test_a_session_that_the_broker_kept_brings_what_came_in_between(broker):
    with Side(broker.port) as side:
        side.hear(BrokerConnected)
    publish(broker.port, 3)
    with Side(broker.port) as side:
        assert [side.hear(MessageArrived).payload for _ in range(3)] == [b"report"] * 3
    assert not any(isinstance(item, SessionLost) for item in list(side.posted.queue))


def test_a_broker_that_refuses_us_is_said_with_its_reason(tmp_path, broker):
    broker.stop()
    (tmp_path / "broker" / "nobody").touch()
    nobody = f"password_file {tmp_path / 'broker' / 'nobody'}"
    reconfigure(broker, tmp_path, ("allow_anonymous true", f"allow_anonymous false\n{nobody}"))
    broker.start()
    with Side(broker.port, password="wrong") as side:
        assert "not authorized" in side.hear(BrokerRefused).reason
        assert "not authorized" in side.transport.trouble
        side.hear(BrokerRefused)  # asked again


def test_nobody_there_is_said_with_the_address(broker):
    broker.stop()
    with Side(broker.port) as side:
        deadline = time.monotonic() + PATIENCE_S
        while f"nobody answers at 127.0.0.1:{broker.port}" not in side.transport.trouble:
            assert time.monotonic() < deadline
            time.sleep(0.02)
