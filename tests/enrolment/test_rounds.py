"""Rounds over mutual TLS, and what becomes of a device that is thrown out in one."""

import contextlib
import functools
import time

import numpy as np
import pytest

from nightjar.wire.messages import Verdict
from tests.brokers import KINDS
from tests.coordinator.fake_device import FakeDevice, report_frame
from tests.coordinator.model_folder import LAYOUT
from tests.enrolment.world import Device, World

pytestmark = pytest.mark.broker

WITHIN_S = 5.0
"""What docs/enrolment.md promises of a revocation."""
TRIES = 3
"""A machine that does ten other things adds seconds to one of them; what we need ourselves is in each."""
PATIENCE_S = 60.0


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


def stays_out(fake: FakeDevice, device: Device) -> bool:
    """Whether its connection was ended and it gets no other: a broker reads its list a moment after it was told."""
    return fake.lost.is_set() and not is_in(device)


def until(holds) -> float:
    """Seconds until it holds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < PATIENCE_S
        time.sleep(0.02)
    return time.monotonic() - begun


@pytest.mark.parametrize(
    ("out", "back"),
    [("block", "unblock"), ("forget", None)],
)
def test_who_is_thrown_out_is_out_within_five_seconds_with_the_connections_that_stand(world, out, back):
    other = world.enrolled(f"beside-{out}")
    times = []
    with connected(other) as neighbour:
        assert neighbour.subscribed.wait(60)
        for number in range(TRIES):
            name = f"{out}ed-{number}"
            device = world.enrolled(name)
            with connected(device) as fake:
                assert fake.subscribed.wait(60)
                assert device.request("GET", "/api/v1/enrolment/self").status == 200
                world.ask("POST", f"/devices/{name}/{out}", {"reason": "stolen"} if out == "block" else {})
                times.append(until(functools.partial(stays_out, fake, device)))
                assert device.request("GET", "/api/v1/enrolment/self").status == 403
            if times[-1] < WITHIN_S:
                break
        assert times[-1] < WITHIN_S, times
        assert not neighbour.lost.is_set()
    if back is not None:
        world.ask("POST", f"/devices/{name}/{back}", {})
        until(lambda: is_in(device))
        assert device.request("GET", "/api/v1/enrolment/self").status == 200
