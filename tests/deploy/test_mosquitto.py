"""The broker's configuration for containers: our limits, and the listeners of the one that the coordinator starts."""

import string
from pathlib import Path

import yaml

from nightjar.coordinator.mqtt.broker import MAX_QUEUED_BYTES
from nightjar.coordinator.tls.contexts import FOLDER as FOLDER_OF_TLS
from nightjar.coordinator.tls.files import SERVER_FOLDER, access_list
from nightjar.wire import topics
from nightjar.wire.frame import MAX_PACKET_BYTES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "mosquitto"


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


def test_the_listeners_are_ours():
    ours = string.Template((ROOT / "coordinator" / "mqtt" / "mosquitto-tls.conf").read_text())
    text = ours.substitute(port=8883, host="", service_port=1884, tls="/mosquitto/tls").replace(" 127.0.0.1", "")
    wanted = {line.strip() for line in text.splitlines() if line and line[0] != "#"}
    assert wanted < lines(FOLDER / "mosquitto.conf")


def test_the_container_sees_no_key_but_the_brokers():
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]["mosquitto"]
    assert {volume.split(":")[0] for volume in service["volumes"]} == {"./mosquitto", "tls", "queues"}
    documents = yaml.safe_load_all((ROOT / "deploy" / "kubernetes" / "coordinator.yaml").read_text())
    pod = next(each for each in documents if each["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    broker = next(each for each in pod["containers"] if each["name"] == "mosquitto")
    assert {mount.get("subPath") for mount in broker["volumeMounts"]} == {None, f"data/{FOLDER_OF_TLS}", "queues"}
    assert SERVER_FOLDER != FOLDER_OF_TLS  # the coordinator's key


def test_the_access_list_of_the_page_is_ours():
    page = (ROOT / "docs" / "brokers.md").read_text()
    access = {line for line in access_list("coordinator", "demo", 1).splitlines() if line and line[0] != "#"}
    assert access <= set(page.splitlines())
