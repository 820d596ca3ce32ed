"""A whole device in QEMU joins a whole coordinator, and takes its releases: a good one, and one that crashes.

A real kernel, its battery, systemd, and mutual TLS. One device for the whole story, which continuous integration runs
(scripts/twin_ci.sh): each further one costs a first boot and an enrolment.
"""

from nightjar.firmware_scripts.twin.person import set_charging
from nightjar.firmware_scripts.twin.running import boot_file, powered
from tests.firmware_scripts.twin.bad_agents import bad_bundle, good_bundle
from tests.firmware_scripts.twin.fleet import MARKS
from tests.firmware_scripts.twin.over_the_air import look, record, stage_of, tried
from tests.firmware_scripts.twin.stories import (
    eventually,
    is_sandboxed,
    is_whole,
    join_until_unplugged,
    ordered,
    settles,
    switch_off,
    there,
    told,
    twin_of,
    until,
    was_set_up,
)

pytestmark = MARKS
GOOD, CRASHES = "0.2.0", "0.3.0"


def test_it_joins_trains_stops_unplugged_takes_a_good_release_and_goes_back_from_a_bad_one(
    image, bundle, owner, fleet, folder
):
    twin = twin_of(image, bundle, fleet, folder, "joins")
    with powered(twin, fleet.ports()) as machine:
        join_until_unplugged(twin, machine, fleet, "joins")
        was_set_up(twin.guest, "joins")

        # On battery only a security release is fetched.
        ordered(fleet, owner, good_bundle(bundle, GOOD), GOOD, security=True)
        look(twin.guest)
        settles(twin.guest, GOOD)
        until(lambda: tried(fleet, GOOD) == (1, 0), "told of the good release")
        set_charging(twin.guest, charging=True)
        until(lambda: tried(fleet, GOOD) == (1, 1), "trained with the good release")
        set_charging(twin.guest, charging=False)
        is_sandboxed(twin.guest)

        until(lambda: stage_of(fleet, GOOD) == "current", "proven by the device that trained with it")
        ordered(fleet, owner, bad_bundle(bundle, owner, CRASHES, "crashes"), CRASHES, security=True)
        until(lambda: record(twin.guest).get("state") == "trying", "trying the bad release")
        assert record(twin.guest)["version"] == CRASHES
    # Its power is cut here, in the trial of the release. The claim is burnt, and wiped from the card.
    assert boot_file(twin, "nightjar/claim.json") is None
    assert "enrol" in boot_file(twin, "nightjar-status.txt")

    with powered(twin, fleet.ports()) as machine:
        there(twin.guest)
        settles(twin.guest, GOOD)
        assert twin.guest.shell("readlink /opt/nightjar/current").strip() == f"releases/{GOOD}"
        until(lambda: told(fleet, "joins", CRASHES), f"told that {CRASHES} was taken back")
        # And is not tried again, although the coordinator still offers it.
        eventually(
            twin.guest, f"journalctl -u nightjar-agent | grep -q 'release {GOOD} is what this device should have'"
        )
        switch_off(twin, machine)
    assert f"release {CRASHES} was taken back for {GOOD}" in boot_file(twin, "nightjar-status.txt")
    assert fleet.standings()["joins"] == ["active"]
    assert is_whole(twin)
