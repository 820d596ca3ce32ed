"""A broker of somebody else's that enforces nothing, and a device that makes the most of it."""

import json

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.mqtt.broker import find_mosquitto
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.identifiers import DeviceId, Population
from tests.brokers import hang_up
from tests.faults.world import Coordinator, Mosquitto, wait_until

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(not find_mosquitto(), reason="mosquitto is not installed on this machine"),
]

DEMO, ATTACKER = Population("demo"), DeviceId("phone-1")
CHECK_IN = messages.encode(messages.CheckIn(agent_version="0.1.0", runtime="none", examples=10, codecs=to_name()))
HUGE = bytes(17 * 2**20)


@pytest.fixture
def broker(tmp_path):
    made = Mosquitto(tmp_path / "broker")
    path = tmp_path / "broker" / "mosquitto.conf"
    kept = [
        line for line in path.read_text().splitlines() if line.split(" ")[0] not in {"max_packet_size", "memory_limit"}
    ]
    path.write_text("\n".join(kept))
    with made as running:
        yield running


def publish(port, device, *sent: tuple[str, bytes], retain=False):
    client = paho.Client(CallbackAPIVersion.VERSION2, device)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for one in [client.publish(topic, payload, qos=1, retain=retain) for topic, payload in sent]:
        one.wait_for_publish(60)
    hang_up(client)


def test_one_device_does_not_keep_others_from_the_coordinator_and_what_the_broker_lets_through_is_said(
    tmp_path, broker
):
    up = topics.up(DEMO, ATTACKER, "report", 1)
    left = [
        (topics.status(DEMO, ATTACKER), HUGE),
        (up, HUGE),
        (topics.up(DEMO, ATTACKER, "check-in", 1), CHECK_IN),
        (f"{up}s", b"of no kind"),
    ]
    publish(broker.port, ATTACKER, *left, retain=True)
    coordinator = Coordinator(tmp_path / "c", broker.port)
    others = {f"phone-{number}" for number in range(2, 7)}

    def known():
        return {row["device"] for row in json.loads(coordinator.get("/api/v1/devices") or b'{"items":[]}')["items"]}

    with coordinator:
        wait_until(lambda: "event=broker_connected" in coordinator.log(), coordinator.log)
        for device in others:
            publish(broker.port, ATTACKER, (up, HUGE))
            publish(broker.port, device, (topics.up(DEMO, DeviceId(device), "check-in", 1), CHECK_IN))
        wait_until(lambda: known() >= others, coordinator.log)
        assert ATTACKER not in known()
        health = json.loads(coordinator.get("/healthz"))
        assert (health["ok"], health["not_enforced"]) == (True, ["packet size", "retained messages", "topics"])
        assert health["not_checked"] == ["client ids"]
    assert coordinator.starts == 1
    assert "broker_lost" not in coordinator.log()
    seen = []
    late = paho.Client(CallbackAPIVersion.VERSION2, "late")
    late.on_message = lambda _c, _u, message: seen.append((message.topic, message.retain))
    late.connect("127.0.0.1", broker.port)
    late.subscribe("nightjar/1/demo/#", 1)
    late.loop_start()
    late.publish("nightjar/1/demo/end", b"", qos=1)
    wait_until(lambda: ("nightjar/1/demo/end", False) in seen, coordinator.log)
    hang_up(late)
    assert not [topic for topic, retained in seen if retained and topic != topics.announce(DEMO)]
