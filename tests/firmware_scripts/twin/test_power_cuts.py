"""QEMU is killed while its device writes: it starts again, goes on, and is enrolled once. Releases: test_fleet.py."""

from nightjar.firmware_scripts.twin.joining import join
from nightjar.firmware_scripts.twin.person import sentences, set_charging, type_sentences
from nightjar.firmware_scripts.twin.running import boot_file, powered
from nightjar.wire.errors import UnavailableError
from tests.firmware_scripts.twin.fleet import MARKS, PATIENCE_S
from tests.firmware_scripts.twin.stories import (
    AT_WORK,
    IDENTITY,
    SETTLED,
    copy_of,
    eventually,
    is_whole,
    switch_off,
    there,
    twin_of,
    until,
)

pytestmark = MARKS


def goes_on(twin, fleet, name):
    """It starts cleanly, settles, is enrolled exactly once, and leaves a whole file system behind."""
    with powered(twin, fleet.ports()) as machine:
        eventually(there(twin.guest), f"{SETTLED} && ! {AT_WORK}")
        assert twin.guest.shell("systemctl is-system-running --wait || true").strip() == "running"
        until(lambda: fleet.device(name)["state"] not in ("", "offline"), "heard of")
        switch_off(twin, machine)
    assert fleet.standings()[name] == ["active"]
    assert boot_file(twin, "nightjar/claim.json") is None
    assert is_whole(twin)


def test_during_its_first_run_it_begins_that_again(image, bundle, fleet, folder):
    twin = twin_of(image, bundle, fleet, folder, "first-run")
    with powered(twin, fleet.ports()):
        # The card is written at once, so what the first run has begun can be read while the machine is on.
        until(lambda: "this is first-run" in (boot_file(twin, "nightjar-status.txt") or ""), "first run")
    goes_on(twin, fleet, "first-run")


def test_during_its_enrolment_it_goes_on_with_the_key_that_it_made(image, bundle, fleet, folder):
    twin = twin_of(image, bundle, fleet, folder, "enrolment")
    with powered(twin, fleet.ports()):
        eventually(there(twin.guest), f"ls {IDENTITY}/*")  # its key is made, and kept before anything is sent
    goes_on(twin, fleet, "enrolment")


def test_during_training_it_trains_again_and_counts_once(settled, fleet, folder):
    twin = copy_of(settled, folder / "training")
    with powered(twin, fleet.ports()):
        there(twin.guest)
        set_charging(twin.guest, charging=True)
        until(lambda: typed(twin.guest), "typed on")
        until(lambda: fleet.device("settled")["state"] == "training", "training")
    with powered(twin, fleet.ports()) as machine:
        found = join(machine, twin.guest, fleet.seen(), "settled", sentences(), print, PATIENCE_S, enrols=False)
        assert found.report_committed
        switch_off(twin, machine)
    assert fleet.standings()["settled"] == ["active"]
    assert is_whole(twin)


def typed(guest):
    try:
        return type_sentences(guest, sentences(), PATIENCE_S) > 0
    except UnavailableError:
        return False
