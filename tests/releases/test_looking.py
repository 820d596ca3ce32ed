"""What a device does about the releases that the coordinator orders."""

import os
import shutil
from datetime import UTC, datetime

import pytest

from nightjar.coordinator.storage.release_metadata import FOLDER, ONLINE_KEY, PublishedReleases, ReleaseMetadata
from nightjar.edge_agent.shell.release_fetch import HANDED_OVER
from nightjar.firmware_scripts import release_keys
from nightjar.wire.errors import UnavailableError
from nightjar.wire.releases import EVERYBODY, ReleaseOffer, ReleaseOrder
from tests.releases.world import PLATFORM, TO_ALL, now


def test_an_ordered_release_is_fetched_verified_and_handed_over(owner, coordinator, device):
    bundle = owner.release("0.2.0")
    coordinator.add(owner, bundle)
    assert device.look().text == "release 0.1.0 is what this device should have"  # not started yet
    coordinator.order = TO_ALL
    assert device.look().text == "release 0.2.0 was fetched and handed over"
    assert device.handed_over.read_bytes() == bundle.read_bytes()
    assert device.look().text == "release 0.2.0 is handed over already"


def test_only_the_share_takes_it(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = ReleaseOrder((ReleaseOffer("0.2.0", 100),))
    assert device.look().text == "release 0.1.0 is what this device should have"


@pytest.mark.parametrize(("present", "refused"), [("0.2.0", ()), ("0.3.0", ()), ("0.1.0", ["0.2.0"])])
def test_what_runs_is_older_or_was_taken_back_here_is_not_fetched(owner, coordinator, device, present, refused):
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = TO_ALL
    device.runs(present, refused)
    assert device.look().text == f"release {present} is what this device should have"
    assert not device.handed_over.exists()


def test_on_battery_or_a_metered_network_only_a_security_release_is_fetched(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"), owner.release("0.3.0", security=True))
    coordinator.order = TO_ALL
    assert device.look(free=False).text.startswith("release 0.2.0 waits")
    coordinator.order = ReleaseOrder((ReleaseOffer("0.3.0", EVERYBODY),))
    assert device.look(free=False).text == "release 0.3.0 was fetched and handed over"


def test_a_withdrawn_release_is_reported_to_the_release_manager_once_it_can_go_back(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = ReleaseOrder(withdrawn={"0.2.0": "it crashes"})
    device.runs("0.2.0")
    assert device.look().text == "release 0.2.0 was withdrawn"
    assert (device.handed_over.parent / "withdrawn.json").read_bytes() == b'{"version":"0.2.0","reason":"it crashes"}'
    device.runs("0.2.0", ["0.2.0"])  # there is nothing to go back to
    assert device.look().text == "release 0.2.0 is what this device should have"


def test_a_platform_without_a_bundle_keeps_what_it_has(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = ReleaseOrder((ReleaseOffer("0.3.0", EVERYBODY),))
    assert device.look().text == f"release 0.3.0 has no bundle for {PLATFORM}"


def test_a_fetch_is_continued_where_it_was_cut(owner, coordinator, device):
    bundle = owner.release("0.2.0")
    (release,) = coordinator.add(owner, bundle)
    (sha256,) = release.bundles.values()
    coordinator.order = TO_ALL
    data = bundle.read_bytes()
    partial = device.handed_over.with_name(f"{sha256}.part")
    partial.parent.mkdir(parents=True)
    partial.write_bytes(data[:1000])
    coordinator.between[f"/artifacts/{sha256}"] = data[:1000] + bytes(len(data) - 1000)
    assert device.look().refused.startswith("0.2.0: artifact")  # the rest was not what it should be
    partial.write_bytes(data[:1000])
    del coordinator.between[f"/artifacts/{sha256}"]
    assert device.look().text == "release 0.2.0 was fetched and handed over"


def test_a_device_that_asks_one_host_after_the_other_sees_no_version_go_back(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"))
    first, second = coordinator.store, another_host(coordinator, owner.online_key)
    minute_s = (coordinator.now_s() // 60 - 2) * 60
    for store, after_s in ((first, 5), (second, 30), (first, 40), (second, 65), (first, 70), (second, 75)):
        coordinator.store = store
        coordinator.age = now() - datetime.fromtimestamp(minute_s + after_s, UTC)
        assert device.look().text == "release 0.1.0 is what this device should have"


def another_host(coordinator, online_key):
    """It shares database and artifacts with the first, and was given its online key."""
    folder = coordinator.folder / "second"
    (folder / FOLDER).mkdir(parents=True)
    shutil.copy(online_key, folder / FOLDER / ONLINE_KEY)
    return ReleaseMetadata(folder, coordinator.artifacts)


def test_a_release_that_is_added_on_one_host_is_served_by_all(owner, coordinator, device):
    coordinator.add(owner)
    first, second = coordinator.store, another_host(coordinator, owner.online_key)
    coordinator.store = second
    assert device.look().text == "release 0.1.0 is what this device should have"
    coordinator.store = first
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.store, coordinator.order = second, TO_ALL
    assert device.look().text == "release 0.2.0 was fetched and handed over"


def test_a_host_without_the_online_key_or_with_a_former_one_says_what_to_copy(owner, coordinator):
    former = owner.online_key
    coordinator.add(owner)
    second = another_host(coordinator, former)
    release_keys.rotate(owner.folder / "tuf", "online", now())
    coordinator.add(owner)
    asked = ("timestamp.json", lambda: PublishedReleases(coordinator.files, TO_ALL), coordinator.now_s())
    with pytest.raises(UnavailableError, match=r"not the online key of 2\.root\.json.*copy releases/online"):
        second.file(*asked)
    (coordinator.folder / "second" / FOLDER / ONLINE_KEY).unlink()
    with pytest.raises(UnavailableError, match=r"there is no .*online\.key.*copy releases/online"):
        second.file(*asked)
    shutil.copy(owner.online_key, coordinator.folder / "second" / FOLDER / ONLINE_KEY)
    assert second.file(*asked).is_file()


def test_a_host_whose_clock_is_not_trusted_serves_what_was_signed_and_signs_nothing(owner, coordinator, device):
    coordinator.add(owner)
    first, second = coordinator.store, another_host(coordinator, owner.online_key)
    published = PublishedReleases(coordinator.files, TO_ALL)
    ahead_s = coordinator.now_s() + 90 * 86_400
    with pytest.raises(UnavailableError, match="no release is signed for now: 90 days ahead"):
        second.file("timestamp.json", lambda: published, ahead_s, "90 days ahead")
    signed = first.file("timestamp.json", lambda: published, coordinator.now_s()).read_bytes()
    held = first.file("timestamp.json", lambda: published, ahead_s, "90 days ahead")
    assert held.read_bytes() == signed, "a version of 90 days from now would shut the other hosts out for as long"
    assert device.look().text == "release 0.1.0 is what this device should have"


def test_a_coordinator_without_releases_is_no_fault_of_the_metadata(coordinator, device):
    with pytest.raises(UnavailableError):
        device.look()


def test_a_bundle_that_came_to_nothing_is_told_and_not_fetched_again(owner, coordinator, device):
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = TO_ALL
    device.look()
    device.handed_over.unlink()  # taken over, and refused
    (looked,) = {device.look(), device.look()}
    assert looked.refused == "0.2.0: the device has no use for its bundle"
    (device.record.parent / "not-taken").write_text("pip could not install the wheels")
    assert device.look().refused == "0.2.0: pip could not install the wheels"
    assert sum(path.startswith("/artifacts/") for path in coordinator.asked) == 1


@pytest.mark.parametrize("left", ["bytes that are no text", "a pipe"])
def test_what_damage_leaves_of_the_note_of_the_last_bundle_keeps_no_release_away(owner, coordinator, device, left):
    """Proven before: bytes that are no text ended each look with a traceback, for ever; a pipe was waited for."""
    coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = TO_ALL
    note = device.handed_over.with_name(HANDED_OVER)
    note.parent.mkdir(parents=True)
    if left == "a pipe":
        os.mkfifo(note)
    else:
        note.write_bytes(bytes(range(128, 192)))
    assert device.look().text == "release 0.2.0 was fetched and handed over"
    assert device.look().text == "release 0.2.0 is handed over already"


def test_a_newer_release_replaces_one_that_cannot_be_unpacked(owner, coordinator, device):
    newer = owner.release("0.3.0")
    coordinator.add(owner, owner.release("0.2.0"), newer)
    coordinator.order = TO_ALL
    device.look()
    device.handed_over.rename(device.record.parent / "incoming.tar")
    assert device.look().text == "release 0.2.0 is handed over already"
    coordinator.order = ReleaseOrder((ReleaseOffer("0.3.0", EVERYBODY),))
    assert device.look().text == "release 0.3.0 was fetched and handed over"
    assert device.handed_over.read_bytes() == newer.read_bytes()
