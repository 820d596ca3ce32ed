"""A release that is no good is taken back by the device itself, and its coordinator hears why."""

import pytest

from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.twin.running import DISK, boot_file, powered
from tests.firmware_scripts.twin.bad_agents import bad_bundle
from tests.firmware_scripts.twin.fleet import MARKS
from tests.firmware_scripts.twin.stories import AT_WORK, SETTLED, copy_of, eventually, there, until

pytestmark = MARKS
# A release that is silent is waited for: three minutes on a device, less where somebody waits for the device.
_TRIAL_S = 60


def offer(twin):
    """What an owner does, with the bundle on the card; the present release may still be busy with connecting."""
    install = "/usr/local/bin/nightjar-device install --although-unwell /boot/firmware/nightjar/update.tar"
    twin.guest.shell(f"systemd-run --unit=update --setenv=NIGHTJAR_TRIAL_S={_TRIAL_S} {install}")


def told(fleet, version):
    """The coordinator's words about a release that was taken back; empty as long as it knows nothing."""
    found = str(fleet.device("settled").get("taken_back") or "")
    return found if found.startswith(version) else ""


@pytest.mark.parametrize(
    ("version", "kind", "reason"),
    [
        ("0.9.2", "hangs", "the agent was not up within 60 s"),
        ("0.9.3", "cannot connect", "the agent was not connected to its broker within 60 s"),
        ("0.9.4", "fails the self-test", "the self-test failed: status 1: it cannot train, on purpose"),
    ],
    ids=["hangs", "cannot-connect", "fails-the-self-test"],
)
def test_a_release_that(version, kind, reason, settled, bundle, fleet, folder):
    twin = copy_of(settled, folder / f"release-{version}")
    with boot_partition(twin.folder / DISK) as fat:
        fat.write("nightjar/update.tar", bad_bundle(bundle.parent, version, kind))
    with powered(twin, fleet.ports()):
        eventually(there(twin.guest), f"! {AT_WORK} && systemctl is-active nightjar-agent")
        first = twin.guest.shell("readlink /opt/nightjar/current")
        offer(twin)
        eventually(twin.guest, f"{SETTLED} && nightjar-device status | grep -q {version}")
        assert twin.guest.shell("readlink /opt/nightjar/current") == first
        until(lambda: told(fleet, version), f"told that {version} was taken back")
        assert reason in told(fleet, version)
    assert f"release {version} was taken back" in boot_file(twin, "nightjar-status.txt")


def test_a_release_that_crashes_also_after_a_power_cut_in_its_trial(settled, bundle, fleet, folder):
    version = "0.9.5"
    twin = copy_of(settled, folder / "release-crashes")
    with boot_partition(twin.folder / DISK) as fat:
        fat.write("nightjar/update.tar", bad_bundle(bundle.parent, version, "crashes"))
    with powered(twin, fleet.ports()):
        eventually(there(twin.guest), f"! {AT_WORK} && systemctl is-active nightjar-agent")
        first = twin.guest.shell("readlink /opt/nightjar/current")
        offer(twin)
        eventually(twin.guest, f"readlink /opt/nightjar/current | grep -q {version}")
    with powered(twin, fleet.ports()):
        eventually(there(twin.guest), f"{SETTLED} && nightjar-device status | grep -q {version}")
        assert twin.guest.shell("readlink /opt/nightjar/current") == first
        until(lambda: told(fleet, version), f"told that {version} was taken back")
        # And is not tried again.
        offer(twin)
        eventually(twin.guest, f"journalctl -u update | grep -q '{version} was taken back before'")
    assert f"release {version} was taken back" in boot_file(twin, "nightjar-status.txt")
