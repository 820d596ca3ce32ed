"""A fleet's folder, made by the programs that a person would run."""

import json

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.firmware_scripts.commands import new_fleet
from nightjar.firmware_scripts.core.fleet_plan import FleetPlan, plan_text
from nightjar.firmware_scripts.shell.fat import boot_partition
from tests.coordinator.model_folder import write_model
from tests.firmware_scripts.command_line import firmware
from tests.firmware_scripts.parcels import small_bundle
from tests.firmware_scripts.stock_images import TRIXIE, make_image, missing

SSH = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJvO0i6lHwPfTeoD0vXsxZyZrZ1yTTYTJ5X1qQ3rGz0B ann@home\n"
BY_CABLE = ("--ssh-key", "", "--wifi", "")


@pytest.fixture
def asked(monkeypatch):
    """The plan that the command made of its answers; nothing is made of it."""
    plans = []
    monkeypatch.setattr(new_fleet, "make_fleet", lambda folder, plan, keys, *_: plans.append((plan, keys)))
    return plans


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
    (folder / "fleet.toml").write_text(plan_text(FleetPlan("porch", 2, "127.0.0.1", user="ann")))
    (folder / "ssh.pub").write_text(SSH)
    write_model(folder / "model")
    small_bundle(folder, "trixie-aarch64")
    done = firmware("new-fleet", folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "claims").iterdir()) == ["porch-01.json", "porch-02.json"]
    assert sorted(path.name for path in (folder / "tuf/metadata").iterdir()) == ["1.root.json", "1.targets.json"]
    before = {path: path.read_bytes() for path in folder.glob("*.*") if path.is_file()}
    assert firmware("new-fleet", folder).returncode == 0
    assert {path: path.read_bytes() for path in before} == before, "the second run changes nothing"

    image = tmp_path / "pi.img"
    make_image(image, TRIXIE)
    card = ("customise", image, "--fleet", folder)
    done = firmware(*card, "--hostname", "porch-02", "--yes")
    assert done.returncode == 0, done.stderr
    with boot_partition(image) as fat:
        claim = json.loads(fat.read("nightjar/claim.json"))
        assert claim == json.loads((folder / "claims" / "porch-02.json").read_text())
        assert b"household = true" in fat.read("nightjar/agent.toml")
        assert SSH.split()[1].encode() not in fat.read("nightjar/agent.toml")
    done = firmware(*card, "--hostname", "porch-03", "--yes")
    assert (done.returncode, "porch-01, porch-02" in done.stderr) == (2, True)


def test_a_folder_that_is_no_fleet_is_refused(tmp_path):
    done = firmware("customise", tmp_path / "card.img", "--fleet", tmp_path, "--hostname", "a")
    assert (done.returncode, "new-fleet" in done.stderr) == (2, True)
