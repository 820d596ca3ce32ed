"""A whole device in QEMU joins a whole coordinator: a real kernel, its battery, systemd, and mutual TLS."""

from firmware_scripts.twin.battery import set_charging, what_the_kernel_says
from firmware_scripts.twin.joining import join
from firmware_scripts.twin.person import sentences
from firmware_scripts.twin.running import boot_file, powered
from tests.firmware_scripts.twin.fleet import MARKS, PATIENCE_S
from tests.firmware_scripts.twin.stories import twin_of, until

pytestmark = MARKS


def test_it_joins_with_its_claim_trains_while_it_is_plugged_in_and_stops_when_it_is_not(image, bundle, fleet, folder):
    twin = twin_of(image, bundle, fleet, folder, "joins")
    told = []
    with powered(twin, fleet.ports()) as machine:
        found = join(machine, twin.guest, fleet.seen(), "", sentences(), told.append, PATIENCE_S, enrols=True)
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
