"""Whose clock is wrong, how, and since when: rounds go on, devices obey, and all is as before once it is corrected.

The coordinator is real, with its database, orders and steady clock; so are the device's clock and what it obeys. What a
wrong clock does to typed messages is in ``tests/edge_agent/shell/test_clock.py``.
"""

import pytest

from nightjar.coordinator.engine.clock import SteadyClock
from nightjar.edge_agent.link.trust import REFUSED, KnownKey
from nightjar.edge_agent.shell import clock as device_clock
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.signatures import signature_valid
from tests.coordinator.test_orders import Facts, SignedWorld
from tests.host.test_trusted_time import HOUR_S, WRONG, Machine

OFF_S = 6 * HOUR_S
"""How long who starts again was off; a wrong clock may have been the reason to look."""


class HostClock:
    """The steady clock of whichever host leads; the newest trusted time is in the database that hosts share."""

    def __init__(self):
        self.machine, self.saved = Machine(), []
        self.begin()

    def begin(self):
        self.steady = SteadyClock(self.saved[-1] if self.saved else None, self.saved.append, read=self.machine.read)

    @property
    def time_s(self):
        return self.machine.right_s

    @time_s.setter
    def time_s(self, right_s):
        self.machine.passes(right_s - self.machine.right_s)

    def now_s(self):
        now_s = self.steady.now_s()
        self.steady.keep()
        return now_s


class ClockedWorld(SignedWorld):
    def start(self):
        if isinstance(self.clock, HostClock):
            self.clock.begin()
        else:
            self.clock = HostClock()
        super().start()


class Device:
    """A device's clock, and its memory of whom it obeys."""

    def __init__(self, folder, world, monkeypatch):
        self.folder, self.world, self.facts, self.wrong_by_s = folder, world, Facts(), 0.0
        self.synchronised = False
        monkeypatch.setattr(device_clock, "read_clock", self.read)
        self.start()

    def read(self):
        right = self.world.clock.machine
        return Machine(right.right_s, right.right_s, self.wrong_by_s, self.synchronised).read()

    def start(self):
        self.clock = SystemClock(self.folder, keeps=True)
        keys = (self.world.signer.public, self.world.signer.recovery)
        self.trust = KnownKey(
            "demo",
            "phone",
            self.facts,
            *keys,
            is_valid=signature_valid,
            now_s=self.clock.trusted_s,
            compare=self.clock.compare,
        )

    def hears(self, order):
        kind, payload = order
        if kind == "announce":
            self.trust.announced(payload)
        self.trust.check(kind, payload)


@pytest.fixture
def world(tmp_path):
    world = ClockedWorld(tmp_path)
    yield world
    world.repository.close()


def hold_rounds(world, device, number=1):
    """Rounds with the device, which obeys their orders, and the versions that come of them."""
    for _ in range(number):
        before = len(world.tables.versions)
        world.clock.time_s += 600
        device.hears(world.assigned())
        device.hears(world.announced)
        assert len(world.tables.versions) == before + 1


def start_again(world, device, whose):
    if whose == "device":
        device.start()
    else:
        world.repository.close()
        world.start()
        world.listen()


@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
@pytest.mark.parametrize("wrong_by_s", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("whose", ["coordinator", "host", "device"])
def test_rounds_go_on_with_any_wrong_clock_and_as_before_once_it_is_right(
    tmp_path, world, monkeypatch, whose, wrong_by_s, restarted
):
    device = Device(tmp_path, world, monkeypatch)
    hold_rounds(world, device, 2)
    assert device.clock.trusted_s() == world.clock.time_s  # a new order agreed with it

    machine = world.clock.machine
    if whose == "host":  # another one leads from now on; its clock is wrong when it begins, or after that
        machine = world.clock.machine = Machine(machine.right_s, 7.0)
        if not restarted:
            start_again(world, device, whose)
    if restarted:
        machine.passes(OFF_S)
    if whose == "device":
        device.wrong_by_s = wrong_by_s
    else:
        machine.wrong_by_s = wrong_by_s
    if restarted:
        start_again(world, device, whose)
    hold_rounds(world, device, 3)
    wrong = device.clock.distrust() if whose == "device" else world.clock.steady.distrust()
    believed = restarted and wrong_by_s == -HOUR_S  # it is later than when it was stopped (docs/adr/0064)
    assert bool(wrong) is not believed, "and it is told"

    machine.wrong_by_s = device.wrong_by_s = 0.0
    world.tick(1.0)
    assert device.clock.trusted_s() == world.clock.steady.trusted_s() == world.clock.now_s() == world.clock.time_s
    hold_rounds(world, device)
    if restarted:
        start_again(world, device, whose)
        hold_rounds(world, device)
    assert REFUSED not in device.facts
    assert len(world.tables.versions) == 7 + restarted
