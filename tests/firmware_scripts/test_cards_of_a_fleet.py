"""Cards written from a fleet's folder: what is asked, what is said at the end, and that no secret is."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.commands import asking
from nightjar.firmware_scripts.core.host_settings import wifi_key
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.fleet_folders import PHRASE, SSH, UNTIL, UNTIL_S, fleet_folder
from tests.firmware_scripts.stock_images import TRIXIE, make_image, missing, read

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=f"not installed: {', '.join(missing())} (mtools dosfstools fdisk)"),
]
ROOT = Path(__file__).parents[2]
KEY = wifi_key("home net", PHRASE)


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """There is no terminal to ask at, and no phrase in the environment."""
    monkeypatch.setattr(asking, "has_terminal", lambda: False)
    monkeypatch.delenv("NIGHTJAR_WIFI_PHRASE", raising=False)


@pytest.fixture
def image(tmp_path):
    return make_image(tmp_path / "pi.img", TRIXIE, fat_mb=36)


def secrets(home):
    claim = json.loads((home / "claims/home-01.json").read_text())["claim"]
    return [KEY, PHRASE, claim, SSH.split()[1]]


def network(card):
    return json.loads(read(card, "network-config"))["network"]["wifis"]["wlan0"]["access-points"]


def test_a_flash_ends_with_what_was_put_on_the_card_and_no_secret(image, tmp_path):
    home = fleet_folder(tmp_path / "home")
    card = tmp_path / "card.img"
    done = firmware("flash", image, card, "--fleet", home, "--hostname", "home-01", "--json")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    assert row["image"]["path"] == str(image)
    wanted = {
        "hostname": "home-01", "user": "ann", "ssh_keys": 1, "password": False, "wifi": "home net",
        "wifi_country": "GB", "agent": "0.1.0", "platform": "trixie-aarch64", "claim": True, "claim_until": UNTIL,
    }  # fmt: skip
    assert wanted.items() <= row.items()
    for said in ("home-01", "pi.img", "user: ann", "Wi-Fi: home net (GB)", f"until {UNTIL}", "agent: 0.1.0"):
        assert said in done.stderr
    assert not any(secret in done.stdout + done.stderr for secret in secrets(home))
    assert network(card) == {"home net": {"password": KEY}}


def test_the_plan_says_the_same_and_needs_no_phrase(image, tmp_path):
    home = fleet_folder(tmp_path / "home", phrase=None)
    done = firmware("flash", image, tmp_path / "card", "--fleet", home, "--hostname", "home-01", "--dry-run")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    (target,) = plan["targets"]
    shown = [target[name] for name in ("hostname", "user", "wifi", "claim_until", "agent")]
    assert shown == ["home-01", "ann", "home net", UNTIL, "0.1.0"]
    assert "settings" in plan["steps"][-1]
    assert not any(secret in done.stdout for secret in secrets(home))
    assert not (tmp_path / "card").exists()


def test_a_phrase_that_is_missing_is_named_and_the_card_is_not_touched(image, tmp_path):
    home = fleet_folder(tmp_path / "home", phrase=None)
    card = tmp_path / "card.img"
    done = firmware("flash", image, card, "--fleet", home, "--hostname", "home-01")
    assert (done.returncode, card.exists()) == (2, False)
    assert "NIGHTJAR_WIFI_PHRASE" in done.stderr
    assert "home net" in done.stderr


def test_without_a_terminal_nothing_warns_of_an_echo(image, tmp_path):
    home = fleet_folder(tmp_path / "home", phrase=None)
    command = [sys.executable, "-W", "always", "-m", "nightjar.firmware_scripts", "customise", image]
    command += ["--fleet", home, "--hostname", "home-01", "--yes"]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, start_new_session=True, cwd=ROOT
    )
    assert done.returncode == 2, done.stderr
    assert "GetPassWarning" not in done.stderr
    assert "NIGHTJAR_WIFI_PHRASE" in done.stderr


def test_the_phrase_in_the_environment_overrides_the_kept_key(image, tmp_path, monkeypatch):
    home = fleet_folder(tmp_path / "home")
    monkeypatch.setenv("NIGHTJAR_WIFI_PHRASE", "another phrase")
    done = firmware("customise", image, "--fleet", home, "--hostname", "home-01", "--yes")
    assert done.returncode == 0, done.stderr
    assert network(image) == {"home net": {"password": wifi_key("home net", "another phrase")}}


def test_the_kept_key_is_not_taken_for_another_wifi(image, tmp_path):
    home = fleet_folder(tmp_path / "home")
    done = firmware("customise", image, "--fleet", home, "--hostname", "home-01", "--yes", "--wifi", "guests")
    assert (done.returncode, "guests" in done.stderr) == (2, True)


def test_an_empty_wifi_is_by_cable_and_asks_nothing(image, tmp_path):
    home = fleet_folder(tmp_path / "home", phrase=None)
    for folder in (("--fleet", home), ()):
        done = firmware("customise", image, *folder, "--hostname", "home-01", "--yes", "--wifi", "", "--json")
        assert done.returncode == 0, done.stderr
        assert "network-config" not in {each["path"] for each in json.loads(done.stdout)["files"]}
    assert read(image, "network-config").decode() == TRIXIE["network-config"]


def test_a_card_that_had_a_wifi_and_is_made_anew_by_cable_has_none(image, tmp_path):
    home = fleet_folder(tmp_path / "home")
    card = ("customise", image, "--fleet", home, "--hostname", "home-01", "--yes")
    assert firmware(*card).returncode == 0
    assert network(image)
    for _ in range(2):
        assert firmware(*card, "--wifi", "").returncode == 0
        assert json.loads(read(image, "network-config"))["network"].keys() == {"version", "ethernets"}


def test_an_empty_user_is_nobody(image, tmp_path):
    home = fleet_folder(tmp_path / "home")
    done = firmware("customise", image, "--fleet", home, "--hostname", "home-01", "--yes", "--user", "")
    assert done.returncode == 0, done.stderr
    assert "users" not in json.loads(read(image, "user-data").decode().partition("\n")[2])


def test_a_claim_that_has_run_out_is_not_put_on_a_card(image, tmp_path):
    home = fleet_folder(tmp_path / "home")
    (home / "claims-until.json").write_text(json.dumps({"home-01": 1.0, "home-02": UNTIL_S}))
    done = firmware("flash", image, tmp_path / "card", "--fleet", home, "--hostname", "home-01")
    assert (done.returncode, "enrol-token create" in done.stderr) == (2, True)
    assert not (tmp_path / "card").exists()
    assert firmware("flash", image, tmp_path / "card", "--fleet", home, "--hostname", "home-02").returncode == 0
