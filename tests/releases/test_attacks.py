"""The published attacks on software updates, against our set-up of The Update Framework's client.

Each attacker is on the network between coordinator and device, some with keys besides. Source: Cappos et al. 2008, "A
Look in the Mirror"; Samuel et al. 2010, "Survivable Key Compromise in Software Update Systems"; TUF specification
1.0.33, section 1.5.2.
"""

import json
from datetime import timedelta

import pytest
from securesystemslib.signer import CryptoSigner
from tuf.api.metadata import Metadata, Root, Targets

from nightjar.firmware_scripts import release_keys
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.releases import EVERYBODY, METADATA_PATH, ReleaseOffer, ReleaseOrder
from tests.releases.world import TO_ALL, Coordinator, Device, Owner, now

TIMESTAMP = f"{METADATA_PATH}timestamp.json"
DAY = timedelta(days=1)


@pytest.fixture
def out(owner, coordinator):
    """Release 0.2.0, ordered for all; returns the hash of its bundle."""
    (release,) = coordinator.add(owner, owner.release("0.2.0"))
    coordinator.order = TO_ALL
    return next(iter(release.bundles.values()))


def refused(device, why):
    looked = device.look()
    assert why in looked.refused
    assert not device.handed_over.exists()


def listing(coordinator, role):
    """The path of the newest metadata of a role, and its content."""
    version = json.loads(coordinator.answer(TIMESTAMP))["signed"]["version"]
    path = f"{METADATA_PATH}{version}.{role}.json"
    return path, json.loads(coordinator.answer(path))


def test_arbitrary_software(out, coordinator, device):
    coordinator.between[f"/artifacts/{out}"] = b"anything else"
    refused(device, "0.2.0: artifact")


def test_arbitrary_software_listed_by_somebody_else(tmp_path, out, owner, coordinator, device):
    stranger = Owner(tmp_path / "stranger", root=(1, 1))
    release_keys.add_bundles(stranger.folder / "tuf", [owner.bundle("0.2.0", "not the agent")], now(), security=True)
    coordinator.between[f"{METADATA_PATH}2.targets.json"] = (stranger.metadata / "2.targets.json").read_bytes()
    refused(device, "metadata: targets was signed by 0/1 keys")


def test_endless_data_as_metadata(out, coordinator, device):
    coordinator.between[TIMESTAMP] = bytes(3 << 20)
    with pytest.raises(UnavailableError, match="at most 1048576 bytes"):
        device.look()


def test_endless_data_as_a_bundle(out, coordinator, device):
    coordinator.between[f"/artifacts/{out}"] = bytes(3 << 20)
    refused(device, "0.2.0: expected an artifact of at most")


def test_rollback_to_older_metadata(out, owner, coordinator, device):
    coordinator.age = 1 * DAY
    old = coordinator.answer(TIMESTAMP)
    coordinator.age = timedelta()
    coordinator.order = ReleaseOrder()
    assert device.look().refused == ""
    coordinator.between[TIMESTAMP] = old  # it would order 0.2.0 again, after that was taken back
    refused(device, "metadata: New timestamp version")


def test_rollback_to_an_older_release_by_whoever_holds_the_online_key(out, coordinator, device):
    device.runs("0.3.0")
    assert device.look().text == "release 0.3.0 is what this device should have"


def test_rollback_of_targets_by_whoever_holds_the_online_key(out, owner, coordinator, device):
    coordinator.order = ReleaseOrder()
    coordinator.add(owner, owner.release("0.3.0"))
    assert device.look().refused == ""
    del coordinator.files["3.targets.json"]
    (coordinator.folder / "releases/metadata/3.targets.json").unlink()  # it signs a snapshot with 2.targets.json
    coordinator.order = TO_ALL
    refused(device, "Expected targets.json version 2, got 3")


def test_freeze(out, coordinator, device):
    coordinator.age = 3 * DAY
    refused(device, "metadata: timestamp.json is expired")


def test_freeze_of_the_offline_roles(tmp_path, owner, coordinator, device, monkeypatch):
    coordinator.add(owner, owner.release("0.2.0"))
    monkeypatch.setattr(release_keys, "LIFETIME", -DAY)
    release_keys.renew(owner.folder / "tuf", "targets", now())
    with pytest.raises(ConfigError, match="New targets is expired"):  # our own coordinator does not publish it
        coordinator.add(owner)
    coordinator.files["3.targets.json"] = coordinator.artifacts.put((owner.metadata / "3.targets.json").read_bytes())
    refused(device, "metadata: New targets is expired")


def test_mix_and_match(out, coordinator, device):
    path, snapshot = listing(coordinator, "snapshot")
    coordinator.age = 1 * DAY
    coordinator.order = ReleaseOrder()
    _, old = listing(coordinator, "snapshot")
    assert old["signed"]["version"] != snapshot["signed"]["version"]
    coordinator.age = timedelta()
    path, _ = listing(coordinator, "snapshot")
    coordinator.between[path] = json.dumps(old).encode()
    refused(device, "metadata: Expected snapshot version")


def test_fast_forward_ends_when_the_online_key_is_rotated(tmp_path, out, owner, coordinator, device):
    coordinator.age = -400 * DAY  # whoever holds the key signs the highest versions that he likes
    coordinator.order = ReleaseOrder()
    assert device.look().refused == ""
    coordinator.age = timedelta()
    with Coordinator(tmp_path / "repaired").served() as repaired:  # nothing that he signed is left
        device.url = repaired.url
        bundle = owner.folder / "nightjar-0.2.0-trixie-aarch64.tar"
        repaired.add(owner, bundle)
        repaired.order = TO_ALL
        refused(device, "metadata: New timestamp version")
        release_keys.rotate(owner.folder / "tuf", "online", now())
        repaired.add(owner)
        repaired.order = ReleaseOrder((ReleaseOffer("0.2.0", EVERYBODY - 1),))
        assert device.look().text == "release 0.2.0 was fetched and handed over"


# Compromise of the keys of one role


def test_the_online_key_cannot_list_a_bundle(out, coordinator, device):
    path, rollout = listing(coordinator, "rollout")
    metadata = Metadata[Targets].from_bytes(json.dumps(rollout).encode())
    genuine = metadata.signed.targets["rollout/order"]
    metadata.signed.targets["nightjar-0.9.0-trixie-aarch64.tar"] = genuine
    genuine.unrecognized_fields["custom"] = {"offers": [{"version": "0.9.0", "ppm": EVERYBODY}]}
    metadata.sign(CryptoSigner(load_private_key(coordinator.folder / "releases/online.key")))
    coordinator.between[path] = metadata.to_bytes()
    assert device.look().text == "release 0.9.0 has no bundle for trixie-aarch64"


def test_one_of_two_targets_keys_lists_nothing(tmp_path, coordinator):
    owner = Owner(tmp_path / "careful", targets=(2, 2))
    with owner.without("targets-1b.key"):
        bundle = owner.release("0.2.0")
        with pytest.raises(ConfigError, match="1/2 keys"):
            coordinator.add(owner, bundle)
    release_keys.cosign(owner.folder / "tuf")
    coordinator.add(owner, bundle)
    coordinator.order = TO_ALL
    device = Device(tmp_path / "device", owner, coordinator.url)
    assert device.look().text == "release 0.2.0 was fetched and handed over"


@pytest.mark.parametrize("role", ["targets", "online"])
def test_a_rotated_key_signs_nothing_any_more(out, owner, coordinator, device, role):
    metadata, keys = owner.metadata, owner.folder / "tuf/keys"
    stolen = load_private_key(keys / f"{role}-1a.key")
    release_keys.rotate(owner.folder / "tuf", role, now())
    coordinator.add(owner)
    assert metadata.joinpath("2.root.json").is_file()
    name = "3.targets.json" if role == "targets" else "timestamp.json"
    whole = Metadata.from_bytes(coordinator.answer(f"{METADATA_PATH}{name}"))
    whole.sign(CryptoSigner(stolen))
    coordinator.between[f"{METADATA_PATH}{name}"] = whole.to_bytes()
    refused(device, f"metadata: {'targets' if role == 'targets' else 'timestamp'} was signed by 0/1 keys")


def test_one_of_three_root_keys_changes_nothing(tmp_path, out, owner, coordinator, device):
    root = Metadata[Root].from_bytes((owner.metadata / "1.root.json").read_bytes())
    root.signed.version = 2
    stolen = CryptoSigner(load_private_key(owner.folder / "tuf/keys/root-1a.key"))
    root.signed.add_key(stolen.public_key, "targets")
    root.sign(stolen)
    coordinator.between[f"{METADATA_PATH}2.root.json"] = root.to_bytes()
    refused(device, "metadata: root was signed by 1/2 keys")


def test_all_root_keys_are_rotated_and_devices_that_were_away_follow(out, owner, coordinator, device):
    for _ in range(3):
        release_keys.rotate(owner.folder / "tuf", "root", now())
    coordinator.add(owner)
    assert device.look().text == "release 0.2.0 was fetched and handed over"
    assert (owner.metadata / "4.root.json").is_file()
