"""A fleet's folder, made by the programs that a person would run."""

import json

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.firmware_scripts.commands import asking, new_fleet
from nightjar.firmware_scripts.core.fleet_plan import FleetPlan, plan_text
from nightjar.firmware_scripts.core.host_settings import wifi_key
from nightjar.firmware_scripts.shell.fat import boot_partition
from tests.coordinator.model_folder import write_model
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.parcels import small_bundle
from tests.firmware_scripts.stock_images import TRIXIE, make_image, missing

SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJvO0i6lHwPfTeoD0vXsxZyZrZ1yTTYTJ5X1qQ3rGz0B ann@home\n"
PHRASE = "correct horse battery"
BY_CABLE = ("--ssh-key", "", "--wifi", "")


@pytest.fixture
def asked(monkeypatch):
    """The plan that the command made of its answers; nothing is made of it."""
    plans = []
    monkeypatch.setattr(new_fleet, "make_fleet", lambda folder, plan, keys, *_: plans.append((plan, keys)))
    monkeypatch.setattr(new_fleet, "has_terminal", lambda: False)
    monkeypatch.delenv("NIGHTJAR_WIFI_PHRASE", raising=False)
    return plans


@pytest.fixture
def kept(monkeypatch):
    """The Wi-Fi's keys that the command would keep."""
    keys = []
    monkeypatch.setattr(new_fleet, "make_fleet", lambda folder, plan, ssh, key, *_: keys.append(key))
    monkeypatch.delenv("NIGHTJAR_WIFI_PHRASE", raising=False)
    return keys


def test_six_questions_are_asked(asked, tmp_path):
    (tmp_path / "id.pub").write_text(SSH)
    done = firmware("new-fleet", tmp_path / "Porch", typed=f"\n5\n192.0.2.9\n\n{tmp_path / 'id.pub'}\nnet\nGB\n")
    assert done.returncode == 0, done.stderr
    plan, keys = asked[0]
    assert (plan.name, plan.devices, plan.address, plan.board) == ("porch", 5, "192.0.2.9", "raspberry-pi")
    assert (bool(plan.user), plan.wifi, plan.wifi_country, keys) == (True, "net", "GB", SSH)


def test_an_option_answers_its_question(asked, tmp_path):
    said = ("--name", "porch", "--devices", "5", "--address", "192.0.2.9", "--board", "virt-amd64", *BY_CABLE)
    assert firmware("new-fleet", tmp_path / "porch", *said).returncode == 0
    assert asked == [(FleetPlan("porch", 5, "192.0.2.9", "virt-amd64"), "")]


WITH_WIFI = ("--name", "porch", "--devices", "5", "--address", "192.0.2.9", "--board", "virt-amd64", "--ssh-key", "")
NET = (*WITH_WIFI, "--wifi", "home net", "--wifi-country", "gb")


def test_the_phrase_is_asked_once_twice_over_and_only_its_key_is_kept(kept, tmp_path, monkeypatch):
    answers = iter(["short", PHRASE])
    asked = []

    def prompt(text, **options):
        asked.append(options)
        return next(answers)

    for module in (asking, new_fleet):
        monkeypatch.setattr(module, "has_terminal", lambda: True)
    monkeypatch.setattr(asking.click, "prompt", prompt)
    done = firmware("new-fleet", tmp_path / "porch", *NET)
    assert done.returncode == 0, done.stderr
    assert kept == [wifi_key("home net", PHRASE)]
    assert all(options["hide_input"] and options["confirmation_prompt"] for options in asked)
    assert (len(asked), "8 to 63" in done.stderr) == (2, True), "what can be no phrase is asked again"


def test_the_phrase_is_taken_from_the_environment(kept, tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTJAR_WIFI_PHRASE", PHRASE)
    assert firmware("new-fleet", tmp_path / "porch", *NET).returncode == 0
    assert kept == [wifi_key("home net", PHRASE)]


def test_without_a_terminal_it_says_how_the_phrase_will_be_asked(kept, tmp_path, monkeypatch):
    monkeypatch.setattr(new_fleet, "has_terminal", lambda: False)
    done = firmware("new-fleet", tmp_path / "porch", *NET)
    assert (done.returncode, kept) == (0, [None])
    assert "NIGHTJAR_WIFI_PHRASE" in done.stderr
    assert "flash" in done.stderr


def test_a_wifi_without_a_country_is_refused_before_anything_is_made(kept, tmp_path):
    done = firmware("new-fleet", tmp_path / "porch", *WITH_WIFI, "--wifi", "net", "--wifi-country", "")
    assert (done.returncode, "country" in done.stderr, kept) == (2, True, [])


def test_a_folder_with_other_things_is_left_alone(asked, tmp_path):
    (tmp_path / "thesis.tex").touch()
    done = firmware("new-fleet", tmp_path)
    assert (done.returncode, "holds other things" in done.stderr, asked) == (2, True, [])


def test_answers_are_asked_for_once_and_not_changed_by_another_option(asked, tmp_path):
    plan = FleetPlan("porch", 5, "192.0.2.9")
    (tmp_path / "fleet.toml").write_text(plan_text(plan))
    assert firmware("new-fleet", tmp_path).returncode == 0
    assert asked == [(plan, "")]
    done = firmware("new-fleet", tmp_path, "--devices", "6")
    assert (done.returncode, "already" in done.stderr) == (2, True)


@pytest.mark.slow
@pytest.mark.skipif(bool(missing()), reason=f"images are made with {', '.join(missing())}: apt install mtools fdisk")
def test_a_card_is_written_from_the_folder(tmp_path, monkeypatch):
    port, broker_port = free_ports(2)
    monkeypatch.setenv("NIGHTJAR_PORT", str(port))
    monkeypatch.setenv("NIGHTJAR_BROKER_PORT", str(broker_port))
    folder = tmp_path / "porch"
    folder.mkdir()
    # What takes minutes, or TensorFlow, is there already: as after an interrupted first run.
    (folder / "fleet.toml").write_text(
        plan_text(FleetPlan("porch", 2, "127.0.0.1", user="ann", wifi="net", wifi_country="GB"))
    )
    (folder / "ssh.pub").write_text(SSH)
    monkeypatch.setenv("NIGHTJAR_WIFI_PHRASE", PHRASE)
    write_model(folder / "model")
    small_bundle(folder, "trixie-aarch64")
    done = firmware("new-fleet", folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "claims").iterdir()) == ["porch-01.json", "porch-02.json"]
    assert sorted(path.name for path in (folder / "tuf/metadata").iterdir()) == ["1.root.json", "1.targets.json"]
    assert set(json.loads((folder / "claims-until.json").read_text())) == {"porch-01", "porch-02"}
    held = folder / "wifi-key.json"
    assert (held.stat().st_mode & 0o777, json.loads(held.read_text())["key"]) == (0o600, wifi_key("net", PHRASE))
    monkeypatch.delenv("NIGHTJAR_WIFI_PHRASE")
    before = {path: path.read_bytes() for path in folder.glob("*.*") if path.is_file()}
    assert firmware("new-fleet", folder).returncode == 0
    assert {path: path.read_bytes() for path in before} == before, "the second run changes nothing"

    image = tmp_path / "pi.img"
    make_image(image, TRIXIE)
    card = ("customise", image, "--fleet", folder)
    done = firmware(*card, "--hostname", "porch-02", "--yes")
    assert done.returncode == 0, done.stderr
    with boot_partition(image) as fat:
        assert wifi_key("net", PHRASE).encode() in fat.read("network-config")
        claim = json.loads(fat.read("nightjar/claim.json"))
        assert claim == json.loads((folder / "claims" / "porch-02.json").read_text())
        assert b"household = true" in fat.read("nightjar/agent.toml")
        assert SSH.split()[1].encode() not in fat.read("nightjar/agent.toml")
    done = firmware(*card, "--hostname", "porch-03", "--yes")
    assert (done.returncode, "porch-01, porch-02" in done.stderr) == (2, True)


def test_a_folder_that_is_no_fleet_is_refused(tmp_path):
    done = firmware("customise", tmp_path / "card.img", "--fleet", tmp_path, "--hostname", "a")
    assert (done.returncode, "new-fleet" in done.stderr) == (2, True)
