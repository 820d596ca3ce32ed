"""``verify --fleet``: a customised card is what its fleet's folder and its image say, or the difference is told."""

import json
import lzma

import pytest

from nightjar.firmware_scripts.core.fleet_plan import FleetPlan, plan_text
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.fleet_folders import PHRASE, UNTIL, fleet_folder
from tests.firmware_scripts.stock_images import BOOKWORM, OWN, START_BYTES, TRIXIE, make_image, missing, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())} (mtools dosfstools fdisk)"),
]
KINDS = {
    "trixie": (TRIXIE, "raspberry-pi", "trixie-aarch64"),
    "bookworm": (BOOKWORM, "raspberry-pi-bookworm", "bookworm-aarch64"),
    "own": (OWN, "virt-arm64", "bookworm-aarch64"),
}


@pytest.fixture(autouse=True)
def no_phrase(monkeypatch):
    monkeypatch.delenv("NIGHTJAR_WIFI_PHRASE", raising=False)


def written(tmp_path, kind="trixie"):
    """A fleet's folder, an image, and a card with both on it."""
    files, board, platform = KINDS[kind]
    home = fleet_folder(tmp_path / "home", board, platform)
    image = make_image(
        tmp_path / "pi.img", {**files, "kernel8.img": "K" * 5000, "overlays/vc4.dtbo": "overlay"}, fat_mb=36
    )
    card = tmp_path / "card.img"
    done = firmware("flash", image, card, "--fleet", home, "--hostname", "home-01")
    assert done.returncode == 0, done.stderr
    return home, image, card


def verify(card, home, *more, hostname="home-01"):
    done = firmware("verify", card, "--fleet", home, "--hostname", hostname, "--json", *more)
    assert PHRASE not in done.stdout + done.stderr
    assert "njc_secret" not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)["faults"] if done.stdout else [done.stderr]


def put(card, name, text):
    run("mcopy", "-D", "o", "-i", f"{card}@@{START_BYTES}", "-", f"::/{name}", input=text.encode())


def flip(path, offset):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 4]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_of_every_kind_is_good_as_it_was_written(tmp_path, kind):
    home, image, card = written(tmp_path, kind)
    (tmp_path / "pi.img.xz").write_bytes(lzma.compress(image.read_bytes(), preset=0))
    assert verify(card, home) == (0, [])
    assert verify(card, home, "--image", tmp_path / "pi.img.xz") == (0, [])
    assert firmware("bmap", image).returncode == 0
    assert verify(card, home, "--bmap", tmp_path / "pi.img.bmap") == (0, [])
    done = firmware("verify", card, "--fleet", home, "--hostname", "home-01", "--image", image)
    assert all(said in done.stdout for said in ("good", "home-01", "ann", "home net", UNTIL, "as its image"))


@pytest.mark.parametrize("kind", ["trixie", "bookworm"])
def test_the_card_of_another_host_says_for_whom_it_is(tmp_path, kind):
    home, _, card = written(tmp_path, kind)
    status, faults = verify(card, home, hostname="home-02")
    assert status == 8
    assert "its host name is 'home-01', the fleet's folder says 'home-02'" in faults
    assert any("claim.json" in fault and "another host" in fault for fault in faults)


@pytest.mark.parametrize("kind", ["trixie", "own"])
def test_what_the_folder_says_otherwise_by_now_is_told(tmp_path, kind):
    home, _, card = written(tmp_path, kind)
    plan = FleetPlan("home", 2, "192.0.2.1", KINDS[kind][1], "bob", "other net", "GB")
    (home / "fleet.toml").write_text(plan_text(plan))
    (home / "wifi-key.json").write_text(json.dumps({"ssid": "other net", "key": "ab" * 32}))
    _, faults = verify(card, home)
    assert "its user is 'ann', the fleet's folder says 'bob'" in faults
    assert "its Wi-Fi is 'home net', the fleet's folder says 'other net'" in faults
    (home / "fleet.toml").write_text(plan_text(FleetPlan("home", 2, "192.0.2.1", KINDS[kind][1], "ann")))
    status, faults = verify(card, home)
    assert status == 8
    assert any("Wi-Fi" in fault for fault in faults), "by cable by now"


def test_another_phrase_or_key_is_told_and_not_shown(tmp_path):
    home, _, card = written(tmp_path)
    (home / "wifi-key.json").write_text(json.dumps({"ssid": "home net", "key": "ab" * 32}))
    (home / "ssh.pub").write_text((home / "ssh.pub").read_text().replace("AAAAIJvO0", "AAAAIJvO1"))
    _, faults = verify(card, home)
    assert set(faults) == {
        "the phrase of the Wi-Fi is another than the fleet's", "the SSH keys of ann are others than the fleet's",
    }  # fmt: skip
    (home / "wifi-key.json").unlink()
    status, faults = verify(card, home)
    assert (status, "NIGHTJAR_WIFI_PHRASE" in faults[0]) == (2, True)


def test_a_difference_from_the_image_is_found_wherever_it_is(tmp_path):
    home, image, card = written(tmp_path)
    sizes = {"before": 2**20 + 5, "behind": START_BYTES + 37 * 2**20}
    for offset in sizes.values():
        flip(card, offset)
        status, faults = verify(card, home, "--image", image)
        assert (status, f"byte {offset} " in faults[0]) == (8, True)
        flip(card, offset)
    at = card.read_bytes().index(b"K" * 5000) + 100
    flip(card, at)
    assert "kernel8.img" in verify(card, home, "--image", image)[1][0]
    flip(card, at)
    put(card, "userconf.txt", "eve:hash")
    assert "userconf.txt" in verify(card, home, "--image", image)[1][0]


def test_a_file_of_the_agent_that_is_damaged_or_gone_is_named(tmp_path):
    home, _, card = written(tmp_path)
    put(card, "nightjar/agent.toml", "[limits]\nhousehold = false\n")
    run("mdel", "-i", f"{card}@@{START_BYTES}", "::/nightjar/claim.json")
    status, faults = verify(card, home)
    assert status == 8
    assert any("agent.toml" in fault for fault in faults)
    assert any("claim.json is missing" in fault for fault in faults)


def test_a_card_that_was_started_or_never_customised_says_so(tmp_path):
    home, image, card = written(tmp_path)
    status, faults = verify(image, home)
    assert (status, "not customised" in faults[0]) == (8, True)
    put(card, "nightjar-status.txt", "it runs")
    status, faults = verify(card, home)
    assert (status, "started" in faults[0]) == (8, True)


@pytest.mark.parametrize("kind", ["trixie", "bookworm"])
def test_without_the_fleet_a_customised_card_is_not_called_damaged(tmp_path, kind):
    _, image, card = written(tmp_path, kind)
    assert firmware("bmap", image).returncode == 0
    sha256 = "0" * 64
    for what in (("--image", image), ("--bmap", tmp_path / "pi.img.bmap"), ("--sha256", sha256)):
        done = firmware("verify", card, *what)
        assert done.returncode == 8
        assert "--fleet FOLDER --hostname home-01" in done.stdout
        assert "damaged" not in done.stdout
    flip(card, 100)
    assert "damaged" in firmware("verify", card, "--image", image).stdout, "what is wrong elsewhere still is"


def test_a_fleet_needs_a_host_name_and_an_unpacked_card(tmp_path):
    home = fleet_folder(tmp_path / "home")
    (tmp_path / "card.img").write_bytes(lzma.compress(bytes(9)))
    for arguments in (("--fleet", home), ("--hostname", "home-01"), ("--fleet", home, "--hostname", "home-01")):
        assert firmware("verify", tmp_path / "card.img", *arguments).returncode == 2
    assert firmware("verify", tmp_path / "none", "--fleet", home, "--hostname", "home-01").returncode == 2
