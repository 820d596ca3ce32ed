"""A real agent process, an emulated phone, follows the coordinator's order: good, forged, withdrawn and bad releases.

Broker, HTTP server, metadata, bundles, pip and the release manager are real; systemd is played.
"""

import shutil
from datetime import UTC, datetime

import pytest

from nightjar.firmware_scripts import release_keys
from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.device import __main__ as program
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.record_file import RecordFile
from nightjar.firmware_scripts.device.releases import Settled
from nightjar.firmware_scripts.device_program import device_files
from nightjar.wire.releases import EVERYBODY, ReleaseOffer, ReleaseOrder
from tests.firmware_scripts.bad_releases import spoil
from tests.firmware_scripts.bundle.wheels import make_wheel
from tests.firmware_scripts.device.test_bad_releases import PlayedSystemd, broker, statuses, wait_for  # noqa: F401
from tests.firmware_scripts.parcels import HERE, PROJECT, pip_wheel

NEEDED = [name for name, there in {"openssl": shutil.which("openssl"), "pip's wheel": pip_wheel()}.items() if not there]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.tflite,
    pytest.mark.skipif(bool(NEEDED), reason=f"missing: {', '.join(NEEDED)}"),
]
NO = 4


def make_release(owner, folder, version, kind="good", *, pip=True):
    """A whole bundle of this checkout's agent, changed as its kind says."""
    tree, house = folder / f"tree-{version}", folder / f"house-{version}"
    house.mkdir(parents=True)
    for name in ("wire", "host", "models", "edge_agent"):
        ignored = shutil.ignore_patterns("__pycache__", "static", "pretrained")
        shutil.copytree(PROJECT / name, tree / "nightjar" / name, ignore=ignored)
    spoil(tree, kind, version)
    files = {str(path.relative_to(tree)): path.read_bytes() for path in sorted(tree.rglob("*")) if path.is_file()}
    make_wheel(house, "nightjar-federated", version, more=files)
    if pip:
        shutil.copy(pip_wheel(), house)
    others = device_files() | {"root.json": (owner.metadata / "1.root.json").read_bytes()}
    bundle = make_bundle(platform_named(HERE), house, others, load_private_key(owner.folder / "fleet.key"), folder)
    release_keys.add_bundles(owner.folder / "tuf", [bundle], datetime.now(UTC), security=True)
    return bundle


def set_up(places, owner, broker_port, url):
    for folder in (places.parcel, places.configuration.parent, places.root / "data", places.handed_over.parents[1]):
        folder.mkdir(parents=True, exist_ok=True)
    places.handed_over.parent.symlink_to(places.root / "data")
    shutil.copy(owner.folder / "fleet.pub", places.key)
    places.configuration.write_text(
        f'device = "porch-01"\npopulation = "home"\ncoordinator_url = "{url}"\n'
        f'[broker]\nhost = "127.0.0.1"\nport = {broker_port}\n[conditions]\npoll_s = 0.2\n'
        "[emulator]\nseed = 1\nspeed = 43200.0\n"  # a day in two seconds, so that it looks for releases all the time
    )


def test_an_agent_takes_a_good_release_refuses_bad_ones_and_goes_back(
    tmp_path,
    owner,
    coordinator,
    broker,  # noqa: F811 - the fixture
    statuses,  # noqa: F811 - the fixture
    monkeypatch,
):
    monkeypatch.setenv("NIGHTJAR_TRIAL_S", "240")
    places = Places(tmp_path / "root")
    set_up(places, owner, broker, coordinator.url)
    systemd = PlayedSystemd(places, tmp_path)
    state = lambda: RecordFile(places).load().state  # noqa: E731

    def order(version, **withdrawn):
        offers = (ReleaseOffer(version, EVERYBODY),) if version else ()
        coordinator.order = ReleaseOrder(offers, withdrawn)

    def handed_over(name="bundle.tar"):
        wait_for((places.handed_over / name).exists)

    try:
        first = make_release(owner, tmp_path / "made", "0.1.0")
        assert program.install(places, systemd, first) == (0, None)

        good = make_release(owner, tmp_path / "made", "0.2.0")
        coordinator.add(owner, good)
        order("0.2.0")
        handed_over()
        assert program.ordered(places, systemd) == 0
        assert state() == Settled("0.2.0", "0.1.0")

        (forged,) = coordinator.add(owner, make_release(owner, tmp_path / "made", "0.4.0"))
        (sha256,) = forged.bundles.values()
        coordinator.between[f"/artifacts/{sha256}"] = good.read_bytes()
        order("0.4.0")
        wait_for(lambda: any(status.rolled_back.startswith("0.4.0: artifact") for status in statuses))
        assert not (places.handed_over / "bundle.tar").exists()

        order("", **{"0.2.0": "it drains batteries"})
        handed_over("withdrawn.json")
        assert program.ordered(places, systemd) == 0
        assert state() == Settled("0.1.0")
        wait_for(lambda: any("withdrawn by the coordinator" in status.rolled_back for status in statuses))

        coordinator.add(owner, make_release(owner, tmp_path / "made", "0.3.0", "cannot train"))
        order("0.3.0")
        handed_over()
        assert program.ordered(places, systemd) == NO
        assert state() == Settled("0.1.0")
        wait_for(lambda: any(status.rolled_back.startswith("0.3.0: the self-test failed") for status in statuses))

        coordinator.add(owner, make_release(owner, tmp_path / "made", "0.5.0", pip=False))
        order("0.5.0")
        handed_over()
        assert program.ordered(places, systemd) == NO
        assert state() == Settled("0.1.0")
        told = "0.5.0: release 0.5.0 could not be put in place: the bundle has no pip among its wheels"
        wait_for(lambda: any(status.rolled_back.startswith(told) for status in statuses))
    finally:
        systemd.close()
