"""A whole device in QEMU joins a whole coordinator: a real kernel, its battery, systemd, and mutual TLS.

One device for the whole story, which continuous integration runs (scripts/twin_ci.sh): each further one costs a first
boot and an enrolment.
"""

from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.twin.battery import set_charging
from firmware_scripts.twin.joining import join
from firmware_scripts.twin.person import sentences
from firmware_scripts.twin.running import DISK, boot_file, powered
from tests.firmware_scripts.twin.bad_agents import bad_bundle
from tests.firmware_scripts.twin.fleet import MARKS, PATIENCE_S
from tests.firmware_scripts.twin.power import what_the_kernel_says
from tests.firmware_scripts.twin.stories import (
    AT_WORK,
    SETTLED,
    eventually,
    is_whole,
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

    lines = []
    with powered(twin, fleet.ports()) as machine:
        found = join(machine, twin.guest, fleet.seen(), "", sentences(), lines.append, PATIENCE_S, enrols=True)
        print("\n".join(lines))
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

        eventually(twin.guest, f"{SETTLED} && ! {AT_WORK}")
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
