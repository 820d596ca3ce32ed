"""A fleet of three devices and releases over the air: a good one, a share first, and seven that are bad.

The device of the share loses its power in each step of the good release.
"""

import contextlib
import os
import re
import time

import pytest

from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.firmware_scripts.twin.joining import join
from nightjar.firmware_scripts.twin.person import sentences, set_charging
from nightjar.firmware_scripts.twin.running import boot_file, powered
from nightjar.wire.shares import share_of
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture
from tests.firmware_scripts.twin.bad_agents import bad_bundle, foreign_bundle, good_bundle
from tests.firmware_scripts.twin.fleet import MARKS, PATIENCE_S, Fleet
from tests.firmware_scripts.twin.over_the_air import (
    FUSE,
    STEPS,
    ask_for,
    light_fuse,
    look,
    record,
    shorten_trials,
    tried,
)
from tests.firmware_scripts.twin.stories import is_whole, ordered, settles, switch_off, there, told, twin_of, until

# Fewer on a machine that cannot emulate three at once.
NAMES = ("porch", "attic", "cellar")[: int(os.environ.get("NIGHTJAR_TWIN_DEVICES", "3"))]
GOOD = "0.2.0"
FIRST, *OTHERS = sorted(NAMES, key=lambda name: share_of(GOOD, name))
# A good one with five power cuts, and seven bad ones, each of which is waited for.
pytestmark = [*[mark for mark in MARKS if mark.name != "timeout"], pytest.mark.timeout(20 * PATIENCE_S)]


class Device:
    def __init__(self, image, bundle, fleet, folder, name):
        self.name, self.fleet = name, fleet
        self.twin = twin_of(image, bundle, fleet, folder, name)
        self.guest = self.twin.guest
        self._on = contextlib.ExitStack()

    def switch_on(self):
        self._on.close()
        self.machine = self._on.enter_context(powered(self.twin, self.fleet.ports()))
        there(self.guest)

    def unplug(self):
        self._on.close()

    def trains(self, enrols=False):
        until_s = time.monotonic() - self.machine.started_s + PATIENCE_S
        join(self.machine, self.guest, self.fleet.seen(), self.name, sentences(), print, until_s, enrols=enrols)
        set_charging(self.guest, charging=False)  # three that train all the time leave nothing of a small machine

    def recovers(self, step):
        until(lambda: not self.machine.running(), f"without power in its {step}")
        print(f"{self.name} lost power in its {step}", flush=True)
        self.switch_on()


def changed_on_the_way(bundle, owner, fleet, version):
    """What the coordinator serves is not what the owner listed."""
    path = bad_bundle(bundle, owner, version, "crashes")
    owner.publish(fleet, path, security=True)
    (sha256,) = fleet.ask("GET", f"/releases/{version}")["bundles"].values()
    served = FileBlobs(fleet.config.data_dir / "artifacts").path(sha256)
    served.chmod(0o644)
    served.write_bytes(bytes(served.stat().st_size))


BAD = {
    "0.3.1": ("crashes", r"the agent ended \d+ times"),
    "0.3.2": ("hangs", "the agent was not up within 60 s"),
    "0.3.3": ("cannot connect", "the agent was not connected to its broker within 60 s"),
    "0.3.4": ("fails the self-test", "the self-test failed: status 1: it cannot train, on purpose"),
    "0.3.5": ("signed by another key", "the bundle is not signed by the key of this device"),
    "0.3.6": ("changed on the way", "artifact"),
    "0.3.7": ("cannot be unpacked", "the bundle has no pip among its wheels"),
}


@pytest.fixture(scope="module")
def fleet(folder, exported):  # noqa: F811 - the fixture
    """In rounds of one device, whoever has just trained would be back first, for ever: here each has a seat."""
    (folder / "three").mkdir()
    with Fleet(folder / "three", exported.model.program.parent, 'mode = "buffered"\nconcurrency = 3') as found:
        yield found


@pytest.fixture(scope="module")
def devices(image, bundle, fleet, folder):
    with contextlib.ExitStack() as stack:
        made = {}
        for name in (FIRST, *OTHERS):
            made[name] = Device(image, bundle, fleet, folder, name)
            stack.callback(made[name].unplug)
            made[name].switch_on()
        for device in made.values():
            device.trains(enrols=True)
            look(device.guest)
        yield made


def test_a_good_release_goes_to_a_share_first_and_outlives_a_power_cut_in_each_of_its_steps(
    devices, bundle, owner, fleet
):
    first = devices[FIRST]
    light_fuse(first.guest, GOOD)
    places = [share_of(GOOD, name) for name in (FIRST, *OTHERS)]
    share = (places[0] + (places[1] if OTHERS else 1.0)) / 2
    # On battery only a security release is fetched.
    ordered(fleet, owner, good_bundle(bundle, GOOD), GOOD, share=share, security=True)
    for step in STEPS:
        first.recovers(step)
    settles(first.guest, GOOD)
    for name in OTHERS:
        assert record(devices[name].guest)["version"] == "0.1.0"
    assert first.guest.shell(f"cat {FUSE}").strip() == GOOD
    # The coordinator finds by itself that the release does no harm, once a device trained with it.
    set_charging(first.guest, charging=True)
    until(lambda: fleet.ask("GET", f"/releases/{GOOD}")["rollout"]["stage"] == "current", "promoted")
    for name in OTHERS:
        settles(devices[name].guest, GOOD)
        set_charging(devices[name].guest, charging=True)
    until(lambda: tried(fleet, GOOD) == (len(NAMES), len(NAMES)), "trained with it by all")
    for device in devices.values():
        set_charging(device.guest, charging=False)


@pytest.mark.parametrize("version", BAD, ids=[kind.replace(" ", "-") for kind, _ in BAD.values()])
def test_a_release_is_refused_that(version, devices, bundle, owner, fleet):
    kind, reason = BAD[version]
    if kind == "changed on the way":
        changed_on_the_way(bundle, owner, fleet, version)
    else:
        made = {
            "signed by another key": lambda: foreign_bundle(bundle, owner, version),
            "cannot be unpacked": lambda: good_bundle(bundle, version, packages="none"),
        }.get(kind, lambda: bad_bundle(bundle, owner, version, kind))
        owner.publish(fleet, made(), security=True)
    if kind in ("hangs", "cannot connect"):
        for device in devices.values():
            shorten_trials(device.guest)
    ask_for(fleet, "start", version)
    # What goes back on two devices the coordinator takes back by itself: the third one may never try it.
    heard = {}

    def told_by_two():
        found = {name: told(fleet, name, version) for name in devices if name not in heard}
        heard.update({name: text for name, text in found.items() if re.search(reason, text)})
        return len(heard) >= min(2, len(devices))

    until(told_by_two, f"told why {version} is of no use")
    print(f"{kind}: {heard}", flush=True)
    if fleet.ask("GET", f"/releases/{version}")["rollout"]["stage"] == "canary":
        ask_for(fleet, "rollback", version)
    for device in devices.values():
        until(lambda device=device: rests(record(device.guest), version), f"at rest without {version}")


def rests(kept, version):
    return kept.get("state") == "settled" and kept["version"] != version


def test_all_train_again(devices, fleet):
    for device in devices.values():
        began = time.monotonic()
        device.trains()
        print(f"{device.name} trained {time.monotonic() - began:.0f} s after it was asked", flush=True)
        assert device.guest.shell("readlink /opt/nightjar/current").strip().startswith("releases/0.")
        switch_off(device.twin, device.machine)
        assert boot_file(device.twin, "nightjar/claim.json") is None
        assert is_whole(device.twin)
    assert {name: fleet.standings()[name] for name in devices} == {name: ["active"] for name in devices}
