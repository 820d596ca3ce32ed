"""``doctor --deployment`` beside a real coordinator with certificates."""

import contextlib

import paho.mqtt.client as paho
import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from paho.mqtt.enums import CallbackAPIVersion

from nightjar.coordinator.__main__ import cli
from nightjar.coordinator.commands import deployment
from nightjar.coordinator.commands.deployment import check_deployment
from nightjar.coordinator.config import BrokerKind, TransportSecurity
from nightjar.coordinator.engine.clock import WallClock
from nightjar.wire import topics
from nightjar.wire.identifiers import DeviceId, Population
from tests.brokers import NEEDS_MOSQUITTO, HandMade, hang_up
from tests.enrolment.world import World

pytestmark = [pytest.mark.broker, pytest.mark.slow, NEEDS_MOSQUITTO]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), "mosquitto") as found:
        yield found


def found_by(config, now_s=None):
    return [
        (each.category, each.level)
        for each in check_deployment(config, WallClock().now_s() if now_s is None else now_s)
    ]


def test_a_sound_deployment_lacks_only_a_backup(world, tmp_path):
    sound = [("service", "ok"), ("clock", "ok"), *[("certificates", "ok")] * 2, *[("broker", "ok")] * 2, ("disk", "ok")]
    assert found_by(world.config) == [*sound, ("backup", "warning")]
    done = CliRunner().invoke(cli, ["backup", str(tmp_path / "backup"), "--config", str(world.path)])
    assert done.exit_code == 0, done.output
    assert found_by(world.config) == [*sound, ("backup", "ok")]


def test_what_the_clock_shows_and_what_ends_soon_is_told(world):
    found = found_by(world.config, WallClock().now_s() + 400 * 86400)
    assert ("clock", "fault") in found
    assert found.count(("certificates", "warning")) == 2


def test_a_service_that_does_not_answer_is_a_fault(world):
    found = found_by(replace(world.config, port=1, broker=replace(world.config.broker, port=1)))
    assert found[0] == ("service", "fault")
    assert found.count(("certificates", "fault")) == 2


def external(world, port: int, password: str = "coordinator"):
    login = replace(world.config.broker, kind=BrokerKind.EXTERNAL, port=port, username="coordinator", password=password)
    return replace(world.config, transport=TransportSecurity.PLAIN, broker=login)


@pytest.mark.parametrize(("without", "level"), [("", "ok"), ("max_", "warning")])
def test_limits_that_a_broker_does_not_have_are_told(world, tmp_path, without, level):
    with contextlib.closing(HandMade(tmp_path, ["phone-01"], without=without)) as broker:
        assert [each.level for each in deployment._limits(external(world, broker.inside))] == [level] * 2


def test_an_address_for_devices_that_leads_nowhere_is_told(world):
    away = replace(world.config, enrolment=replace(world.config.enrolment, names=("127.0.0.9",)))
    found = next(each for each in deployment._front(replace(away, port=1), 0.0))
    assert (found.category, found.level) == ("service", "warning")
    assert "https://127.0.0.9:1" in found.found


def test_a_broker_that_retains_messages_to_the_coordinator_is_told(world, tmp_path):
    with contextlib.closing(HandMade(tmp_path, ["phone-01"])) as broker:
        client = paho.Client(CallbackAPIVersion.VERSION2, "coordinator")
        client.username_pw_set("coordinator", "coordinator")
        client.connect("127.0.0.1", broker.inside)
        client.loop_start()
        topic = topics.up(Population("demo"), DeviceId("phone-01"), "check-in", 1)
        client.publish(topic, b"{}", qos=1, retain=True).wait_for_publish(10)
        hang_up(client)
        for password, level in (("coordinator", "warning"), ("wrong", "fault")):
            assert deployment._retained(external(world, broker.inside, password)).level == level
