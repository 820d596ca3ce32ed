"""Whole devices in QEMU against a whole coordinator: a real kernel, its battery, systemd, and mutual TLS."""

import json
import subprocess
import time

import pytest

from firmware_scripts.image.disk import ROOT
from firmware_scripts.image.tools import environment
from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.twin.battery import set_charging, what_the_kernel_says
from firmware_scripts.twin.coordinator import Coordinator
from firmware_scripts.twin.joining import join
from firmware_scripts.twin.person import sentences, type_sentences
from firmware_scripts.twin.process import BOOTED
from firmware_scripts.twin.running import DISK, boot_file, powered, prepare
from tests.edge_agent.conftest import exported  # noqa: F401 - a fixture
from tests.firmware_scripts.parcels import small_bundle
from tests.firmware_scripts.twin.fleet import (
    PATIENCE_S,
    PLATFORM,
    Fleet,
    bundle_of_this_checkout,
    image_with,
    order,
    what_is_missing,
)
from wire.errors import UnavailableError

MISSING = what_is_missing()
pytestmark = [
    pytest.mark.twin,
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"twins need what is not installed here: apt install {' '.join(MISSING)}"),
]
IDENTITY = "/var/lib/private/nightjar-agent/identity"
SETTLED = "nightjar-device status | grep -q settled"
AT_WORK = "systemctl is-active nightjar-firstboot"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("twins")


@pytest.fixture(scope="module")
def bundle(folder):
    return bundle_of_this_checkout(folder)


@pytest.fixture(scope="module")
def image(bundle, folder):
    return image_with(bundle, folder)


@pytest.fixture(scope="module")
def fleet(folder, exported):  # noqa: F811 - the fixture
    with Fleet(folder, exported.model.program.parent) as found:
        yield found


def twin_of(image, bundle, fleet, folder, name):
    claim = fleet.claim(f"for-{name}", device=name)
    return prepare(image, folder / name, order(bundle, name, claim)), claim.read_text()


def coordinator_of(fleet, claim):
    return Coordinator(fleet.config.url, json.loads(claim)["authority"], "")


def ports(fleet):
    return [fleet.config.port, fleet.broker_port]


def until(holds, what):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"never {what}"
        time.sleep(0.5)


def there(guest):
    """Wait for the inside of a machine: it answers before everything has started."""
    guest.wait_until_there(PATIENCE_S)
    return guest


def eventually(guest, script):
    def holds():
        try:
            guest.shell(script)
        except UnavailableError:
            return False
        return True

    until(holds, script)


def test_it_joins_with_its_claim_trains_while_it_is_plugged_in_and_stops_when_it_is_not(image, bundle, fleet, folder):
    twin, claim = twin_of(image, bundle, fleet, folder, "joins")
    told = []
    with powered(twin, ports(fleet)) as machine:
        found = join(
            machine, twin.guest, coordinator_of(fleet, claim), "", sentences(), told.append, PATIENCE_S, enrols=True
        )
        print("\n".join(told))
        assert found.device == "joins"
        assert 0 < found.booted_s <= found.checked_in_s <= found.committed_s
        assert found.enrolled_s is not None
        assert found.report_committed
        assert fleet.standings()["joins"] == ["active"]
        assert what_the_kernel_says(twin.guest)["test_ac/online"] == "1"

        set_charging(twin.guest, charging=False)
        assert what_the_kernel_says(twin.guest)["test_battery/status"] == "Discharging"
        until(lambda: fleet.device("joins")["reason"] == "not charging", "told that it is not charging")
        assert fleet.device("joins")["state"] == "ineligible"
    # The claim is burnt, and wiped from the card.
    assert boot_file(twin, "nightjar/claim.json") is None
    assert "enrol" in boot_file(twin, "nightjar-status.txt")


def test_its_power_is_cut_during_first_boot_enrolment_and_training_and_it_goes_on(image, bundle, fleet, folder):
    twin, claim = twin_of(image, bundle, fleet, folder, "cut")
    with powered(twin, ports(fleet)):
        # The card is written at once, so what the first run has begun can be read while the machine is on.
        until(lambda: "this is cut" in (boot_file(twin, "nightjar-status.txt") or ""), "first run")
    with powered(twin, ports(fleet)):
        eventually(there(twin.guest), f"ls {IDENTITY}/*")  # its key is made, and kept before anything is sent
    with powered(twin, ports(fleet)) as machine:
        machine.wait_for(BOOTED, PATIENCE_S)
        until(lambda: fleet.device("cut")["state"] != "", "heard of")
        set_charging(twin.guest, charging=True)
        until(lambda: typed(twin.guest), "typed on")
        until(lambda: fleet.device("cut")["state"] == "training", "training")
    with powered(twin, ports(fleet)) as machine:
        found = join(
            machine, twin.guest, coordinator_of(fleet, claim), "cut", sentences(), print, PATIENCE_S, enrols=False
        )
        assert found.report_committed
        assert twin.guest.shell("systemctl is-system-running --wait || true").strip() == "running"
        # A journal was replayed each time, and there was never anything else to mend.
        assert "clean" in twin.guest.shell("dumpe2fs -h /dev/vda2 2>/dev/null | grep 'Filesystem state'")
        twin.guest.shell("systemctl --no-block poweroff")
        until(lambda: not machine.running(), "switched off")
    assert fleet.standings()["cut"] == ["active"]
    checked = subprocess.run(
        ["e2fsck", "-fn", f"{twin.folder / DISK}?offset={ROOT.start}"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(0),
    )
    assert checked.returncode == 0, checked.stdout


def typed(guest):
    try:
        return type_sentences(guest, sentences(), PATIENCE_S) > 0
    except UnavailableError:
        return False


def test_a_release_that_crashes_is_taken_back_with_its_reason_also_after_a_power_cut(image, bundle, fleet, folder):
    twin, _ = twin_of(image, bundle, fleet, folder, "updates")
    with powered(twin, ports(fleet)) as machine:
        eventually(there(twin.guest), f"{SETTLED} && ! ls /boot/firmware/nightjar/claim.json")
        first = twin.guest.shell("readlink /opt/nightjar/current")
        twin.guest.shell("systemctl --no-block poweroff")
        until(lambda: not machine.running(), "switched off")
    # A bundle of the right owner, with an agent that does not start.
    bad = small_bundle(bundle.parent, PLATFORM, "0.9.9")
    with boot_partition(twin.folder / DISK) as fat:
        fat.write("nightjar/update.tar", bad)
    with powered(twin, ports(fleet)):
        eventually(there(twin.guest), f"{SETTLED} && systemctl is-active nightjar-agent && ! {AT_WORK}")
        install = "nightjar-device install --although-unwell /boot/firmware/nightjar/update.tar"
        twin.guest.shell(f"systemd-run --unit=update /usr/local/bin/{install}")
        eventually(twin.guest, "readlink /opt/nightjar/current | grep -q 0.9.9")
    with powered(twin, ports(fleet)):
        eventually(there(twin.guest), f"{SETTLED} && nightjar-device status | grep -q 0.9.9")
        assert twin.guest.shell("readlink /opt/nightjar/current") == first
        until(lambda: "0.9.9" in str(fleet.device("updates")), "told that 0.9.9 was taken back")
    assert "0.9.9" in boot_file(twin, "nightjar-status.txt")
