"""What the agent fetched, taken over by the release manager; and a kill at each step of that."""

import argparse
import errno
import json
import os
import shutil

import pytest

from nightjar.firmware_scripts.bundle.making import make_bundle
from nightjar.firmware_scripts.bundle.platforms import platform_named
from nightjar.firmware_scripts.bundle.signing import load_private_key
from nightjar.firmware_scripts.device import __main__ as program
from nightjar.firmware_scripts.device import handing_over
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.record_file import RecordFile
from nightjar.firmware_scripts.device.releases import DeviceStarted, Record, Settled
from nightjar.host.files import replace_link
from tests.firmware_scripts.bundle.wheels import make_wheel
from tests.firmware_scripts.device.test_booting import PlayedSystemd
from tests.firmware_scripts.parcels import HERE, keys

LATER, NO, BAD_BUNDLE = 3, 4, 2

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed: apt install openssl")


class Killed(BaseException):
    pass


class Device:
    """Runs 0.1.0, settled."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.places = folder, Places(folder / "root")
        kinds = {"0.1.0": "good", "0.2.0": "good", "0.3.0": "cannot train"}
        self.systemd = PlayedSystemd(self.places, kinds)
        for path in (self.places.handed_over, self.places.parcel, self.places.key.parent, self.places.releases):
            path.mkdir(parents=True)
        _, public = keys(folder)
        self.places.key.write_bytes(public.read_bytes())
        self.unpack("0.1.0")
        replace_link(self.places.current, "releases/0.1.0")
        RecordFile(self.places).save(Record(Settled("0.1.0")))
        self.systemd.runs = "0.1.0"
        monkeypatch.setenv("NIGHTJAR_TRIAL_S", "1")
        monkeypatch.setattr(program, "unpack", lambda bundle, *_: self.unpack(bundle.version))

    def unpack(self, version):
        own = self.places.releases / version / "device" / "units"
        own.mkdir(parents=True, exist_ok=True)
        (own.parent / "nightjar-device.pyz").write_text(version)
        for unit in ("agent.service", "firstboot.service", "release.service", "release.path"):
            (own / f"nightjar-{unit}").write_text(version)

    def hand_over(self, version="0.2.0", key="fleet"):
        house = self.folder / f"house-{version}"
        house.mkdir()
        make_wheel(house, "nightjar-federated", version)
        private, _ = keys(self.folder, key)
        made = make_bundle(platform_named(HERE), house, {}, load_private_key(private), house)
        made.rename(self.places.handed_over / handing_over.BUNDLE)

    def withdraw(self, version):
        told = {"version": version, "reason": "it crashes"}
        (self.places.handed_over / handing_over.WITHDRAWN).write_text(json.dumps(told))

    def ordered(self):
        return program.ordered(self.places, self.systemd)

    @property
    def state(self):
        return RecordFile(self.places).load().state

    @property
    def left(self):
        return [*self.places.handed_over.iterdir(), *self.places.kept.glob("incoming*")]


@pytest.fixture
def device(tmp_path, monkeypatch):
    return Device(tmp_path, monkeypatch)


def test_a_release_that_was_handed_over_is_tried_and_counts(device):
    device.hand_over()
    assert device.ordered() == 0
    assert device.state == Settled("0.2.0", "0.1.0")
    assert device.systemd.runs == "0.2.0"
    assert (device.places.units / "multi-user.target.wants/nightjar-release.path").is_symlink()
    assert device.left == []
    assert device.ordered() == 0


def test_a_release_that_is_not_healthy_goes_back_and_is_not_kept(device):
    device.hand_over("0.3.0")
    assert device.ordered() == NO
    assert device.state == Settled("0.1.0")
    assert device.left == []


def test_a_bundle_of_somebody_else_is_refused_whatever_the_agent_verified(device):
    device.hand_over(key="stranger")
    with pytest.raises(program.RemoteProtocolError, match="not signed by the key of this device"):
        device.ordered()
    assert device.left == []
    assert "not signed by the key of this device" in device.places.not_taken.read_text()


def test_a_bundle_that_cannot_be_unpacked_is_refused_once_with_the_reason(device, monkeypatch):
    def unpack(*_arguments):
        raise program.RemoteProtocolError("pip could not install the wheels:\nnumpy is \0 missing")

    monkeypatch.setattr(program, "unpack", unpack)
    device.hand_over()
    assert device.ordered() == NO
    reason = "release 0.2.0 could not be put in place: pip could not install the wheels: numpy is ? missing"
    assert device.places.not_taken.read_text() == reason
    assert (device.left, device.state) == ([], Settled("0.1.0"))
    device.hand_over("0.3.0")
    assert device.ordered() == NO
    assert "release 0.3.0" in device.places.not_taken.read_text()


def test_a_full_disk_is_tried_again(device, monkeypatch):
    def unpack(*_arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(program, "unpack", unpack)
        device.hand_over()
        assert device.ordered() == LATER
        assert device.ordered() == LATER
    assert device.ordered() == 0
    assert device.state == Settled("0.2.0", "0.1.0")
    assert device.places.not_taken.read_text() == ""


def test_the_unit_tries_again_less_and_less_often_but_what_comes_new_at_once(device, monkeypatch):
    shown, tried = {}, []
    monkeypatch.setattr(device.systemd, "show", lambda _unit: shown)
    monkeypatch.setattr(program, "_systemd", lambda _places: device.systemd)
    monkeypatch.setattr(program, "ordered", lambda *_: tried.append(int(shown["NRestarts"])) or LATER)
    asked = argparse.Namespace(root=device.places.root)
    for restarts in range(40):
        shown["NRestarts"] = str(restarts)
        assert program._ordered(asked) == LATER
    assert tried == [0, 1, 2, 4, 8, 12, 24, 36]
    device.withdraw("0.2.0")
    program._ordered(asked)
    assert tried[-1] == 39


def test_while_the_present_release_is_not_well_the_bundle_waits(device):
    device.hand_over()
    device.systemd.runs = None
    assert device.ordered() == LATER
    device.systemd.runs = "0.1.0"
    assert device.ordered() == 0
    assert device.state == Settled("0.2.0", "0.1.0")


def test_a_withdrawn_release_goes_back_and_does_not_return(device):
    device.hand_over()
    device.ordered()
    device.withdraw("0.2.0")
    assert device.ordered() == 0
    assert device.state == Settled("0.1.0")
    assert device.systemd.runs == "0.1.0"
    assert "withdrawn by the coordinator: it crashes" in RecordFile(device.places).load().refused["0.2.0"]
    assert device.left == []


def test_a_withdrawal_of_what_does_not_run_changes_nothing(device):
    device.withdraw("0.2.0")
    assert device.ordered() == 0
    assert device.state == Settled("0.1.0")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"version": 1}', b"\xff", b"[" * 5000])
def test_an_unreadable_withdrawal_is_dropped(device, content):
    (device.places.handed_over / handing_over.WITHDRAWN).write_bytes(content)
    assert device.ordered() == 0
    assert device.left == []


def test_nothing_that_an_agent_could_plant_is_followed(device, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text('{"version": "0.1.0", "reason": "read by root"}')
    (device.places.handed_over / handing_over.BUNDLE).symlink_to(secret)
    (device.places.handed_over / handing_over.WITHDRAWN).symlink_to(secret)
    assert device.ordered() == 0
    os.link(secret, device.places.handed_over / handing_over.BUNDLE)
    assert device.ordered() == 0
    assert device.state == Settled("0.1.0")
    assert secret.read_text().startswith("{")
    assert device.left == []


@pytest.mark.parametrize("step", ["take_bundle", "open_bundle", "unpack", "restart", "work", "done_with_bundle"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_each_step_it_ends_on_the_release(device, monkeypatch, step, when):
    owner = device.systemd if step in {"restart", "work"} else program
    whole = getattr(owner, step)

    def dies(*arguments, **options):
        if when == "after":
            whole(*arguments, **options)
        raise Killed

    device.hand_over()
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, dies)
        with pytest.raises(Killed):
            device.ordered()
    if not isinstance(device.state, Settled):
        assert device.ordered() == LATER  # what a start of the device repairs comes first
        program._switch(device.places, program._actions(device.places, device.systemd)).take(DeviceStarted())
    assert device.ordered() == 0
    assert device.state == Settled("0.2.0", "0.1.0")
    assert device.left == []
