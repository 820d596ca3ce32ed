"""Brokers for more devices than one carries: the files in deploy/, run where a program for them is installed."""

import subprocess
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.broker import find_mosquitto, write_mosquitto_files
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.mqtt.listeners import Listeners
from nightjar.coordinator.tls.files import access_list
from nightjar.wire.messages import Verdict
from tests.brokers import KINDS, wait_for_port
from tests.coordinator.fake_device import devices, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.coordinator.test_service import Service, updates

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def bridged(tmp_path):
    """Starts a broker that is connected to the central one by deploy/mosquitto/bridge.conf; its port."""
    started = []

    def start(central_port: int) -> int:
        (port,) = free_ports(1)
        (tmp_path / "edge").mkdir()
        path = write_mosquitto_files(Listeners("127.0.0.1", port, "", ""), tmp_path / "edge")
        bridge = (DEPLOY / "mosquitto" / "bridge.conf").read_text()
        for old, new in {
            "central.example.org:8883": f"127.0.0.1:{central_port}",
            "bridge_cafile /etc/ssl/certs/ca-certificates.crt\n": "",
        }.items():
            assert old in bridge
            bridge = bridge.replace(old, new)
        path.write_text(path.read_text() + bridge)
        started.append(subprocess.Popen([find_mosquitto(), "-c", path], stderr=subprocess.DEVNULL))
        wait_for_port(port)
        return port

    yield start
    for broker in started:
        broker.terminate()
        broker.wait(60)


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_round_with_one_device_at_the_central_broker_and_one_behind_a_bridge(bridged, tmp_path, kind):
    with (
        Service(tmp_path, kind, rounds=1) as service,
        devices(service.broker_port, "a") as (a,),
        devices(bridged(service.broker_port), "b") as (b,),
    ):
        a.check_in()
        second, first = b.wait_for_assignment(), a.wait_for_assignment()
        small, large = updates(2)
        assert b.report_until_receipt(second, report_frame(second, large, LAYOUT, 3)).verdict is Verdict.ACCEPTED
        assert a.report_until_receipt(first, report_frame(first, small, LAYOUT, 1)).verdict is Verdict.ACCEPTED
        service.wait_until(lambda: service.state()["task"]["state"] == "finished", "done")
        assert service.state()["counters"]["reports_accepted"] == 2


def test_the_access_list_for_emqx_is_that_of_mosquitto():
    lines = access_list("coordinator", "demo", 1).replace("%u", "${username}").splitlines()
    allowed = {line.split()[-1] for line in lines if line.startswith("pattern")}
    quoted = (DEPLOY / "emqx" / "acl.conf").read_text().split('"')[1::2]
    assert {topic for topic in quoted if "${username}" in topic or topic.endswith("announce")} == allowed
