"""A release that is no good is taken back by the device itself, and its coordinator hears why.

One that crashes, with a power cut in its trial, is in test_joining_device.py.
"""

import pytest

from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.twin.running import DISK, boot_file, powered
from tests.firmware_scripts.twin.bad_agents import bad_bundle
from tests.firmware_scripts.twin.fleet import MARKS
from tests.firmware_scripts.twin.stories import AT_WORK, SETTLED, copy_of, eventually, offer, there, told, until

pytestmark = MARKS


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
        until(lambda: told(fleet, "settled", version), f"told that {version} was taken back")
        assert reason in told(fleet, "settled", version)
    assert f"release {version} was taken back" in boot_file(twin, "nightjar-status.txt")
