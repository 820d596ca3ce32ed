"""A new authority, while devices are connected: nobody is locked out who came along, everybody else is."""

import json
import threading

import pytest
import urllib3
from click.testing import CliRunner

from nightjar.coordinator.__main__ import cli
from nightjar.coordinator.tls.contexts import FOLDER
from nightjar.coordinator.tls.files import authorities_in
from nightjar.edge_agent.enrolment import renewal
from nightjar.edge_agent.enrolment.enrolling import enrol, renewed
from nightjar.edge_agent.enrolment.identity import load_credential
from nightjar.wire.errors import ConfigError
from tests.enrolment.test_rounds import is_in
from tests.enrolment.world import World

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def command(world, *arguments):
    return CliRunner().invoke(cli, [*arguments, "--config", str(world.path), "--json"])


def test_devices_come_along_through_a_rotation_and_who_does_not_is_named(tmp_path, monkeypatch, mosquitto_or_embedded):
    with World(tmp_path, mosquitto_or_embedded) as world:
        along, behind = world.enrolled("along"), world.enrolled("behind")
        context = along.context()
        before = json.loads(command(world, "authority", "show").stdout)
        assert (before["rotating"], before["devices_of_the_former"]) == (False, [])

        assert command(world, "authority", "rotate").exception is None
        shown = json.loads(command(world, "authority", "show").stdout)
        assert shown["devices_of_the_former"] == ["along", "behind"]
        refused = command(world, "authority", "retire").exception
        assert isinstance(refused, ConfigError)
        assert "2 device(s)" in str(refused)

        tls = world.config.data_dir / FOLDER
        world.wait_until(lambda: len(authorities_in(tls)) == 2, "trusting both")
        # The running agent's own daily question, only sooner.
        monkeypatch.setattr(renewal, "FIRST_S", 0.01)
        changed = threading.Event()
        running = renewal.Renewal(along.data_dir, changed.set)
        try:
            assert changed.wait(60)
        finally:
            running.close()
        load_credential(context, along.data_dir)
        world.wait_until(lambda: is_let_in(along), "let in with a certificate of the new authority")
        assert json.loads(command(world, "authority", "show").stdout)["devices_of_the_former"] == ["behind"]
        # A claim from the middle of a rotation is good before and after its end.
        late = world.claim("late", device="late")

        locked_out = command(world, "authority", "retire", "--lock-out")
        assert json.loads(locked_out.stdout)["locked_out"] == ["behind"]
        world.wait_until(world.healthy, "serving with a certificate of the new authority")
        world.wait_until(lambda: is_refused(behind), "locked out")
        renewed(along.data_dir, 0.0)
        assert enrol(tmp_path / "late", late).anew
        world.wait_until(lambda: is_in(along), "let in by the broker as well")


def is_let_in(device) -> bool:
    """The servers trust a new authority some seconds after it began."""
    try:
        return device.request("GET", "/api/v1/enrolment/self").status == 200
    except urllib3.exceptions.HTTPError:
        return False


def is_refused(device) -> bool:
    """It trusts nobody who answers there any more."""
    try:
        device.request("GET", "/api/v1/enrolment/self")
    except urllib3.exceptions.HTTPError as error:  # else nobody answered
        return isinstance(getattr(error, "reason", error), urllib3.exceptions.SSLError)
    return False
