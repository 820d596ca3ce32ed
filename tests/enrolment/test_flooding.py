"""An enrolled device that sends as fast as it can: it is cut off, others are answered, and it is let in again."""

import contextlib
import math
import os
import subprocess
import sys
import time

import pytest
import urllib3

from nightjar.coordinator.rate_limits import FIRST_CUT_OFF_S
from nightjar.wire.frame import MAX_PUBLISH_BYTES, MAX_REPORT_BYTES, chunks_of
from nightjar.wire.messages import Rejection
from tests.brokers import KINDS
from tests.coordinator.fake_device import FakeDevice
from tests.enrolment.flooder import MESSAGES, OVER_HTTPS, UNSENT
from tests.enrolment.test_revocation import is_kept_out
from tests.enrolment.test_rounds import TRIES, connected, is_in, until
from tests.enrolment.world import ROOT, Device, World

pytestmark = pytest.mark.broker

CUT_OFF_WITHIN_S = 5.0
ANSWERED_WITHIN_S = 1.0
ANSWERED_AT_LAST_S = 60.0


@pytest.fixture(scope="module", params=KINDS)
def world(request, tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), request.param) as found:
        name = found.config.task.name
        found.ask("POST", f"/tasks/{name}/pause", {"reason": "a test"})  # so that every check-in is answered at once
        yield found


@contextlib.contextmanager
def flooding(world: World, device: Device, kind: str):
    """A process that floods; it has begun when the block does."""
    command = [sys.executable, "-m", "tests.enrolment.flooder", str(world.broker_port), world.config.url]
    child = subprocess.Popen(
        [*command, str(device.data_dir), kind],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout.readline() == b"begun\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def seconds_to_answer(neighbour: FakeDevice, at_last_s: float = ANSWERED_AT_LAST_S) -> float:
    """Infinite if nothing comes."""
    begun = time.monotonic()
    neighbour.check_in()
    try:
        neighbour.wait_for(Rejection, at_last_s)
    except AssertionError:
        return math.inf
    return time.monotonic() - begun


def seconds_to_cut_off(world: World, name: str) -> float:
    """Infinite if it is not."""
    try:
        return until(lambda: f"event=device_cut_off device={name} " in world.log())
    except AssertionError:
        return math.inf


@pytest.mark.parametrize("kind", [*MESSAGES, *OVER_HTTPS])
def test_who_floods_is_cut_off_in_five_seconds_and_five_later_others_are_answered_in_one(world, kind):
    is_cut_off_and_others_are_answered(world, kind)


@pytest.mark.parametrize("world", ["embedded"], indirect=True)
@pytest.mark.parametrize("kind", UNSENT)
def test_the_embedded_broker_counts_what_it_answers_itself(world, kind):
    is_cut_off_and_others_are_answered(world, kind)


def is_cut_off_and_others_are_answered(world, kind):
    tried = []
    with connected(world.enrolled(f"neighbour-{kind}")) as neighbour:
        assert neighbour.subscribed.wait(60)
        for number in range(TRIES):
            name = f"flooder-{kind}-{number}"
            device = world.enrolled(name)
            with flooding(world, device, kind):
                cut_off_s = seconds_to_cut_off(world, name)
                time.sleep(CUT_OFF_WITHIN_S)
                answered_s = seconds_to_answer(neighbour)
            tried.append((cut_off_s, answered_s))
            if (cut_off_s < CUT_OFF_WITHIN_S and answered_s < ANSWERED_WITHIN_S) or math.isinf(cut_off_s):
                break
        stayed = not neighbour.lost.is_set()
        out = cut_off_s < math.inf and not is_served(device)
        if out:
            is_kept_out(device)
        soon = cut_off_s < CUT_OFF_WITHIN_S and answered_s < ANSWERED_WITHIN_S
        assert (soon, out, stayed) == (True, True, True), f"cut off, answered: {tried}"


def test_the_largest_report_at_once_is_no_flood(world):
    with connected(world.enrolled("large")) as device:
        assert device.subscribed.wait(60)
        for _ in range(chunks_of(MAX_REPORT_BYTES)):
            device.publish("report", bytes(MAX_PUBLISH_BYTES))
        assert seconds_to_answer(device) < ANSWERED_AT_LAST_S  # it comes behind the report
        assert not device.lost.is_set()
    assert "event=device_cut_off device=large " not in world.log()


def is_served(device: Device) -> bool:
    """Whether HTTPS answers the device; its connections are ended before they ask anything."""
    try:
        return device.request("GET", "/api/v1/enrolment/self").status == 200
    except urllib3.exceptions.HTTPError:
        return False


@pytest.mark.slow
def test_who_was_cut_off_is_let_in_again_after_a_minute_and_takes_part(world):
    device = world.enrolled("penitent")
    with flooding(world, device, "check-in"):
        until(lambda: "event=device_cut_off device=penitent " in world.log())
    begun = time.monotonic()

    def takes_part() -> bool:
        if not (is_in(device) and is_served(device)):
            return False
        with connected(device) as fake:
            return fake.subscribed.wait(10) and seconds_to_answer(fake, 10) < math.inf

    while not takes_part():
        # On a busy machine what the broker still had of the flood is counted once more, and cuts it off for longer.
        assert time.monotonic() - begun < 4 * FIRST_CUT_OFF_S
        time.sleep(1)
