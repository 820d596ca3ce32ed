"""A whole device in QEMU joins a whole coordinator: a real kernel, its battery, systemd, and mutual TLS.

One device for the whole story, which continuous integration runs (scripts/twin_ci.sh): each further one costs a first
boot and an enrolment.
"""

from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.twin.running import DISK, boot_file, powered
from tests.firmware_scripts.twin.bad_agents import bad_bundle
from tests.firmware_scripts.twin.fleet import MARKS
from tests.firmware_scripts.twin.stories import (
    SETTLED,
    eventually,
    is_whole,
    join_until_unplugged,
    offer,
    switch_off,
    there,
    told,
    twin_of,
    until,
)

pytestmark = MARKS
CRASHES = "0.9.5"


def test_it_joins_trains_stops_unplugged_and_takes_a_bad_release_back_after_a_power_cut(
    image, bundle, owner, fleet, folder
):
    twin = twin_of(image, bundle, fleet, folder, "joins")
    with boot_partition(twin.folder / DISK) as fat:  # nobody looks at it until somebody offers it
        fat.write("nightjar/update.tar", bad_bundle(bundle, owner, CRASHES, "crashes"))

    with powered(twin, fleet.ports()) as machine:
        join_until_unplugged(twin, machine, fleet, "joins")
        first = twin.guest.shell("readlink /opt/nightjar/current")
        offer(twin)
        eventually(twin.guest, f"readlink /opt/nightjar/current | grep -q {CRASHES}")
    # Its power is cut here, in the trial of the release. The claim is burnt, and wiped from the card.
    assert boot_file(twin, "nightjar/claim.json") is None
    assert "enrol" in boot_file(twin, "nightjar-status.txt")

    with powered(twin, fleet.ports()) as machine:
        eventually(there(twin.guest), f"{SETTLED} && nightjar-device status | grep -q {CRASHES}")
        assert twin.guest.shell("readlink /opt/nightjar/current") == first
        until(lambda: told(fleet, "joins", CRASHES), f"told that {CRASHES} was taken back")
        # And is not tried again.
        offer(twin)
        eventually(twin.guest, f"journalctl -u update | grep -q '{CRASHES} was taken back before'")
        switch_off(twin, machine)
    assert f"release {CRASHES} was taken back" in boot_file(twin, "nightjar-status.txt")
    assert fleet.standings()["joins"] == ["active"]
    assert is_whole(twin)
