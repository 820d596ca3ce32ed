"""First boot, enrolment, trial and taking back, on a device whose systemd is played."""

import itertools
import os
import stat
from types import SimpleNamespace

import pytest

from nightjar.firmware_scripts.device import health
from nightjar.firmware_scripts.device.boot import AGAIN_S, boot
from nightjar.firmware_scripts.device.enrolling import ENROL, take_off_card, wipe
from nightjar.firmware_scripts.device.health import AGENT, SELF_TEST, Look, Time, examine
from nightjar.firmware_scripts.device.installing import FETCHED
from nightjar.firmware_scripts.device.places import Places
from nightjar.firmware_scripts.device.record_file import RecordFile
from nightjar.firmware_scripts.device.releases import Offered, Settled, Trying
from nightjar.firmware_scripts.device.status_log import MOST_LINES, StatusLog
from nightjar.firmware_scripts.device.switch import Switch
from nightjar.firmware_scripts.device.system_actions import Agent, DeviceActions
from nightjar.firmware_scripts.device.systemd import Systemd
from nightjar.host.files import replace_link
from nightjar.wire.errors import UnavailableError

CONNECTED, ALONE = "connected to the broker", "not connected to the broker"


class PlayedSystemd:
    """Runs the release that ``current`` leads to, as its kind does."""

    live = True

    def __init__(self, places, kinds, enrolments=()):
        self.places = places
        self.kinds = kinds
        self.enrolments = list(enrolments)
        self.restarts = self.looks = self.reloads = 0
        self.runs = None

    def reload(self):
        self.reloads += 1

    def start(self, unit):
        assert unit == FETCHED[0]

    def restart(self, unit):
        assert unit == AGENT
        self.runs = os.path.realpath(self.places.current).rpartition("/")[2]
        self.looks = 0

    def stop(self, unit):
        self.runs = None

    def work(self, unit):
        if unit == ENROL:
            return self.enrolments.pop(0)
        assert unit == SELF_TEST
        return 4 if self.kinds[self.runs] == "cannot train" else 0

    def show(self, unit):
        kind = self.kinds.get(self.runs, "crashes")
        self.looks += 1
        if kind == "crashes":
            return {"ActiveState": "activating", "NRestarts": str(self.looks)}
        if kind == "hangs":
            return {"ActiveState": "activating", "NRestarts": "0"}
        text = ALONE if kind == "cannot connect" else CONNECTED
        return {"ActiveState": "active", "StatusText": text, "NRestarts": "0"}

    def last_words(self, unit):
        return f"last words of {unit.removeprefix('nightjar-').removesuffix('.service')}"


@pytest.fixture
def device(tmp_path):
    return make_device(tmp_path)


def make_device(root, kinds=None, enrolments=()):
    places = Places(root)
    places.parcel.mkdir(parents=True, exist_ok=True)
    systemd = PlayedSystemd(places, {"0.1.0": "good", **(kinds or {})}, enrolments)
    tell = StatusLog(places.status, lambda: 0.0, lambda: 7.0)
    ticks = itertools.count()
    time = Time(lambda: float(next(ticks)), lambda s: None, 20.0)
    device = SimpleNamespace(places=places, systemd=systemd, offered=None, slept=[])

    def unpack():
        own = places.releases / device.offered / "device" / "units"
        own.mkdir(parents=True)
        (own.parent / "nightjar-device.pyz").write_text(device.offered)
        for unit in ("agent", "firstboot"):
            (own / f"nightjar-{unit}.service").write_text(device.offered)

    actions = DeviceActions(places, systemd, tell, time, unpack)
    device.switch = Switch(RecordFile(places), actions)
    device.state = lambda: RecordFile(places).load().state
    device.told = lambda: places.status.read_text()

    def offer(version="0.1.0"):
        device.offered = version
        return Offered(version, present_is_well=True)

    device.update = lambda version: device.switch.take(offer(version))
    device.boot = lambda sleep=device.slept.append: boot(places, device.switch, offer, actions.enrol_again, sleep)
    return device


def test_the_first_boot_installs_enrols_tries_and_writes_each_step_to_the_card(tmp_path):
    device = make_device(tmp_path, enrolments=[3, 3, 0])
    device.places.claim_on_card.write_text('{"claim": "njc_secret"}')
    enabled = []
    honest = device.systemd.show

    def show(unit):
        # Until it is enrolled the agent finds nobody.
        return {**honest(unit), "StatusText": ALONE if device.places.claim.exists() else CONNECTED}

    device.systemd.show = show
    wants = device.places.units / "multi-user.target.wants"
    device.boot(lambda s: device.slept.append(s) or enabled.append(sorted(path.name for path in wants.iterdir())))
    assert enabled == [["nightjar-firstboot.service"]] * 2, "an agent with no identity would only fail"
    assert sorted(path.name for path in wants.iterdir()) == ["nightjar-agent.service", "nightjar-firstboot.service"]
    assert device.state() == Settled("0.1.0")
    assert not device.places.claim.exists()
    assert device.slept == list(AGAIN_S[:2])
    told = device.told()
    for step in ("release 0.1.0 is tried", "not enrolled yet, and tried again later: last words of enrol",
                 "not healthy yet", "enrolled; the claim is wiped", "is healthy, and counts"):  # fmt: skip
        assert step in told
    assert "njc_secret" not in told
    reloads = device.systemd.reloads
    device.boot()
    assert device.systemd.reloads == reloads, "nothing is new, so systemd need not read its units again"
    assert device.state() == Settled("0.1.0")


def test_a_claim_that_is_refused_for_good_is_told_and_stays_for_a_person(tmp_path):
    device = make_device(tmp_path, kinds={"0.1.0": "cannot connect"}, enrolments=[2, 2, 2])
    device.places.claim_on_card.write_text("{}")

    def give_up(pause_s):
        if pause_s > AGAIN_S[0]:
            raise UnavailableError("enough")

    with pytest.raises(UnavailableError):
        device.boot(give_up)
    assert "the claim was refused; make a new one" in device.told()
    assert isinstance(device.state(), Trying)
    assert device.places.claim.exists()


def test_a_card_that_was_customised_again_enrols_again(device):
    device.boot()
    device.places.claim_on_card.write_text("{}")
    device.systemd.enrolments = [3, 0]
    device.systemd.runs = "with the old identity"
    device.boot()
    assert device.systemd.runs == "0.1.0"
    assert not device.places.claim.exists()
    assert device.slept == [AGAIN_S[0]]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("crashes", "the agent ended 3 times"),
        ("hangs", "not up within 20 s"),
        ("cannot connect", "not connected to its broker within 20 s"),
        ("cannot train", "the self-test failed: status 4: last words of self-test"),
    ],
)
def test_a_bad_release_is_taken_back_by_itself_with_its_reason_and_never_tried_again(tmp_path, kind, reason):
    device = make_device(tmp_path, kinds={"0.2.0": kind, "0.3.0": "good"})
    device.boot()
    record, _ = device.update("0.2.0")
    assert record.state == Settled("0.1.0")
    assert reason in record.refused["0.2.0"]
    assert device.systemd.runs == "0.1.0"
    assert "taken back for 0.1.0" in device.told()
    assert (device.places.root / "opt/nightjar/nightjar-device.pyz").read_text() == "0.1.0"
    _, declined = device.update("0.2.0")
    assert declined.code == "refused-before"
    record, _ = device.update("0.3.0")
    assert record.state == Settled("0.3.0", "0.1.0")
    assert device.systemd.runs == "0.3.0"
    assert (device.places.root / "opt/nightjar/nightjar-device.pyz").read_text() == "0.3.0"
    assert sorted(path.name for path in device.places.releases.iterdir()) == ["0.1.0", "0.3.0"]


def test_after_a_start_the_agent_is_restarted_only_if_it_was_the_wrong_one(device):
    device.boot()
    device.systemd.runs = "whatever systemd started"
    device.boot()
    assert device.systemd.runs == "whatever systemd started"
    replace_link(device.places.current, "releases/0.0.9")
    device.boot()
    assert device.systemd.runs == "0.1.0"


# ---- parts -----------------------------------------------------------------------------------------------------------


class Patient:
    def __init__(self, *looks, test=""):
        self.looks, self.test = list(looks), test

    def look(self):
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def self_test(self):
        return self.test


UP = Look(True, True, 0, CONNECTED)


def examined(*looks, test=""):
    ticks = itertools.count()
    return examine(Patient(*looks, test=test), Time(lambda: float(next(ticks)), lambda s: None, 10.0))


def test_an_agent_that_comes_up_late_is_healthy_and_one_that_dies_in_the_test_is_not():
    down = Look(False, False, 0, "activating")
    assert examined(down, down, UP) == ""
    assert "fell over during the self-test" in examined(UP, down)
    # Restarts from before the trial are not the release's.
    assert examined(Look(False, False, 40, "x"), Look(True, True, 40, "x")) == ""


def test_the_agents_status_text_says_whether_it_is_connected(tmp_path):
    systemd = PlayedSystemd(Places(tmp_path), {"1": "good"})
    systemd.runs = "1"
    assert Agent(systemd).look() == UP
    assert CONNECTED.split()[0] == health.CONNECTED


def test_a_claim_is_overwritten_before_it_is_removed(tmp_path):
    claim = tmp_path / "claim.json"
    claim.write_text("njc_secret")
    same = tmp_path / "same-blocks"
    same.hardlink_to(claim)
    wipe(claim)
    assert not claim.exists()
    assert same.read_bytes().strip() == b""


def test_a_claim_is_off_the_card_before_anything_waits_for_the_network(tmp_path):
    device = make_device(tmp_path, enrolments=[3, 3, 0])
    device.places.claim_on_card.write_text("njc_secret")
    seen = []

    def look(_pause_s):
        mode = device.places.claim.stat().st_mode & 0o777
        seen.append((device.places.claim_on_card.exists(), device.places.claim.read_text(), mode))

    device.boot(look)
    assert seen
    assert set(seen) == {(False, "njc_secret", 0o600)}


def test_power_that_fails_while_the_card_is_wiped_costs_no_claim(tmp_path):
    places = Places(tmp_path)
    places.parcel.mkdir(parents=True)
    places.claim_on_card.write_text("njc_secret")
    take_off_card(places)
    places.claim_on_card.write_text("\n" * 10)  # overwritten, and not yet removed
    take_off_card(places)
    assert places.claim.read_text() == "njc_secret"
    assert not places.claim_on_card.exists()


def test_the_status_file_keeps_its_head_and_the_newest_lines(tmp_path):
    path = tmp_path / "nightjar-status.txt"
    tell = StatusLog(path, lambda: 0.0, lambda: 1.0)
    for number in range(MOST_LINES + 50):
        tell(f"step {number}\nwith a second line")
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# What this device did")
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == f"1970-01-01 00:00:00Z (up 1 s)  step {MOST_LINES + 49} with a second line"


def test_the_same_line_again_does_not_wear_the_card(tmp_path):
    path = tmp_path / "status"
    tell = StatusLog(path, lambda: 0.0, lambda: 1.0)
    for text in ("no network", "no network", "enrolled", "no network"):
        tell(text)
    assert [line.partition(")  ")[2] for line in path.read_text().splitlines()[1:]] == [
        "no network", "enrolled", "no network",
    ]  # fmt: skip


def test_a_card_that_cannot_be_written_stops_nothing(tmp_path, capsys):
    StatusLog(tmp_path / "no such folder" / "status")("hello")
    captured = capsys.readouterr()
    assert captured.out == "hello\n"
    assert "cannot be written" in captured.err


def test_a_record_that_is_damaged_is_made_anew_from_the_disk(device):
    device.boot()
    device.places.record.write_text("{")
    assert device.state() == Settled("0.1.0")


FAKE = """#!/bin/sh
echo "$0 $*" >>"$LOG"
case "$1" in
show) printf 'ActiveState=active\\nStatusText=connected to the broker\\nNRestarts=2\\nExecMainStatus=3\\n' ;;
--quiet) echo 'the last   line' ;;
esac
"""


def test_the_real_adapter_speaks_to_systemctl(tmp_path, monkeypatch):
    for name in ("systemctl", "journalctl"):
        (tmp_path / name).write_text(FAKE)
        (tmp_path / name).chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    systemd = Systemd(live=True)
    assert Agent(systemd).look() == Look(True, True, 2, CONNECTED)
    assert systemd.work(ENROL) == 3
    assert systemd.last_words(AGENT) == "the last line"
    systemd.restart(AGENT)
    said = (tmp_path / "log").read_text()
    assert f"systemctl stop {AGENT}\n" in said
    assert said.endswith(f"systemctl start --no-block {AGENT}\n")
    before = said
    Systemd(live=False).restart(AGENT)
    assert (tmp_path / "log").read_text() == before


@pytest.mark.parametrize("left", [b"", b"\n", bytes(512), b"\xff\xfe"])
def test_whatever_a_power_cut_left_of_the_status_file_the_device_goes_on(tmp_path, left):
    """Proven before: an empty file, as FAT has after a power cut, ended nightjar-device at each boot."""
    path = tmp_path / "nightjar-status.txt"
    path.write_bytes(left)
    StatusLog(path)("settled")
    assert path.read_text(errors="replace").endswith("settled\n")


def test_a_folder_in_the_place_of_the_claim_is_no_claim(tmp_path):
    places = Places(tmp_path)
    places.claim_on_card.mkdir(parents=True)
    take_off_card(places)
    assert not places.claim.exists()
