import fcntl
import io
import json
import re
import stat
import subprocess
import sys
import tomllib
from importlib import resources
from operator import attrgetter
from pathlib import Path

import msgspec
import pytest

from nightjar.coordinator.commands import checkup
from nightjar.coordinator.commands.checkup import CheckupFinding
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.backup import ROUNDS_SKIPPED, missing
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.signing_key import KEY_FILE, load_signer
from nightjar.coordinator.tasks.fleets import SETTINGS, FleetSize
from nightjar.coordinator.tls.authority import Authority
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER
from nightjar.host.trusted_time import ClockReading
from nightjar.models import starts
from nightjar.models.folder import WEIGHTS
from nightjar.models.shipped import shipped
from nightjar.models.signed_programs import SIGNATURE_FILE, OwnerSignature, SignedProgram
from nightjar.wire.errors import ConfigError

HUNDREDS = FleetSize.HUNDREDS


def test_init_writes_what_serve_can_read_but_for_the_model(run, tmp_path):
    path = tmp_path / "new.toml"
    status, out, _ = run("init", path, "--model=none", "--json")
    assert (status, json.loads(out)["path"]) == (0, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    _, _, err = run("serve", "--config", path)
    assert err.count("\n  - ") == 1
    assert "task.model" in err


@pytest.mark.parametrize(
    ("command", "path", "said"),
    [
        (("backup",), "n" * 300, "File name too long"),
        (("restore",), "n" * 300, "File name too long"),
        (("enrol-token", "cards", "cards.csv", "--out"), "/dev/null", "File exists"),
    ],
)
def test_a_path_that_cannot_be_is_told_in_words(run, site, command, path, said):
    """Proven before: each ended with a traceback, and as a bug."""
    status, out, err = run(*command, path, "--config", site.config)
    assert (status, out) == (ConfigError.exit_status, "")
    assert path in err
    assert said in err


@pytest.mark.parametrize(
    ("options", "fleet"), [(["--fleet", each.value], each) for each in FleetSize] + [([], HUNDREDS)]
)
def test_init_writes_the_settings_that_suit_the_size_of_the_fleet(run, site, tmp_path, options, fleet):
    path, model = tmp_path / "new.toml", site.config.parent / "model"
    status, _, err = run("init", path, "--no-key", "--model=none", f"--set=task.model={model}", *options)
    assert status == 0, err
    config = load_config(path, {})
    for name, value in SETTINGS[fleet].items():
        found = attrgetter(name)(config)
        assert getattr(found, "value", found) == value, name


def test_init_asks_a_person_for_the_size_of_the_fleet(run, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("household\n"))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    status, out, _ = run("init", "-")
    assert status == 0
    assert tomllib.loads(out)["limits"]["household"] is True


def test_every_size_of_a_fleet_has_the_same_settings():
    assert len({frozenset(settings) for settings in SETTINGS.values()}) == 1


def test_init_makes_the_pretrained_model_unless_there_is_one(run, tmp_path, monkeypatch):
    status, out, err = run("init", tmp_path / "new.toml", "--json")
    assert (status, json.loads(out)["model"]) == (0, str(tmp_path / "model")), err
    assert (tmp_path / "model" / WEIGHTS).stat().st_size == 4 * len(shipped().weights("tiny"))
    _, out, _ = run("init", tmp_path / "other.toml", "--model", "gboard", "--json")
    assert "model" not in json.loads(out)
    assert json.loads(out)["next"] == f"nightjar-coordinator serve --config {tmp_path / 'other.toml'}"


def test_init_makes_a_model_anew_that_a_killed_one_left_without_its_manifest(run, tmp_path):
    """Proven before: it was taken for a model, and the service that init named next refused it."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / WEIGHTS).write_bytes(b"half")
    status, out, err = run("init", tmp_path / "new.toml", "--json")
    assert (status, json.loads(out)["model"]) == (0, str(tmp_path / "model")), err
    assert (tmp_path / "model" / WEIGHTS).stat().st_size == 4 * len(shipped().weights("tiny"))


@pytest.mark.parametrize(
    ("raised", "ends"), [(ConfigError("install Nightjar again"), ConfigError.exit_status), (KeyboardInterrupt(), 130)]
)
def test_init_that_cannot_make_a_model_leaves_nothing_behind(run, tmp_path, monkeypatch, raised, ends):
    def refuse(*_):
        raise raised

    monkeypatch.setattr(starts, "packaged_file", refuse)
    status, _, err = run("init", tmp_path / "new.toml")
    assert (status, str(raised) in err) == (ends, True)
    assert list(tmp_path.iterdir()) == []


def test_init_writes_other_values_and_keeps_what_is_said_of_them(run, tmp_path):
    settings = ("task.goal=12", "population=home", 'enrolment.names=["a", "b"]', "task.codec.name=topk-8", "seed=8")
    status, _, err = run(
        "init", tmp_path / "new.toml", "--model=none", "--no-key", *(f"--set={pair}" for pair in settings)
    )
    assert status == 0, err
    text = (tmp_path / "new.toml").read_text()
    table = tomllib.loads(text)
    assert (table["task"]["goal"], table["population"], table["seed"]) == (12, "home", 8)
    assert (table["enrolment"]["names"], table["task"]["codec"]["name"]) == (["a", "b"], "topk-8")
    assert text.count("  #") == (resources.files("nightjar.coordinator") / "example.toml").read_text().count("  #")


@pytest.mark.parametrize("pair", ["task.goals=1", "goal=1", "task.goal", "=1"])
def test_init_knows_what_can_be_set(run, tmp_path, pair):
    status, _, err = run("init", tmp_path / "new.toml", "--model=none", "--no-key", "--set", pair)
    assert (status, "--set" in err) == (ConfigError.exit_status, True)
    assert list(tmp_path.iterdir()) == []


def test_init_makes_the_key_that_signs_for_its_owner_only_and_never_another(run, tmp_path):
    _, out, _ = run("init", tmp_path / "new.toml", "--model=none", "--json")
    made = json.loads(out)
    key = Path(made["signing_key"])
    assert key == tmp_path / "nightjar-coordinator" / "signing.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    _, out, _ = run("init", tmp_path / "other.toml", "--model=none", "--json")
    assert json.loads(out)["coordinator_key"] == made["coordinator_key"]
    _, out, _ = run("init", tmp_path / "elsewhere" / "new.toml", "--model=none", "--no-key", "--json")
    assert "signing_key" not in json.loads(out)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["new.toml"]


def test_init_makes_the_key_where_serve_looks_for_it(run, tmp_path, monkeypatch):
    monkeypatch.setenv("NIGHTJAR_DATA_DIR", str(tmp_path / "data"))
    _, out, _ = run("init", tmp_path / "new.toml", "--model=none")
    assert (tmp_path / "data" / "signing.pem").is_file()
    assert "public half" in out


def test_init_never_writes_over_a_file(run, site):
    before = site.config.read_text()
    status, _, err = run("init", site.config)
    assert status == ConfigError.exit_status
    assert "exists already" in err
    assert site.config.read_text() == before


def test_init_prints_to_a_pipe(run):
    status, out, _ = run("init", "-")
    assert (status, "[task]" in out) == (0, True)


def test_doctor_finds_nothing_on_a_sound_machine(run, site, monkeypatch):
    monkeypatch.setattr(checkup, "_tensorflow", lambda _config: CheckupFinding("tensorflow", "ok", "there"))
    status, out, _ = run("doctor", "--config", site.config, "--json")
    findings = [CheckupFinding(**finding) for finding in json.loads(out)]
    assert (status, [each for each in findings if each.level == "fault"]) == (0, [])
    checked = {"storage", "database", "clock", "model", "program", "web", "broker", "tensorflow"}
    assert {each.category for each in findings} == checked


def test_doctor_warns_of_a_clock_that_is_not_trusted_and_judges_no_release_by_it(site, monkeypatch):
    config, now_s = load_config(site.config, {}), WallClock().now_s()
    monkeypatch.setattr(checkup, "_tensorflow", lambda _config: CheckupFinding("tensorflow", "ok", "there"))
    with site.transaction() as tx:
        tx.save_trusted_time(now_s)
        tx.save_release_files({"1.root.json": "00" * 32})
    ahead = ClockReading(now_s + 7000 * 86_400, 1.0, synchronised=False)
    monkeypatch.setattr(checkup, "read_clock", lambda: ahead)
    found = {each.category: each for each in checkup.check_up(config)}
    assert found["clock"].level == "warning"
    assert "--trust-clock" in found["clock"].remedy
    assert "releases" not in found


def test_doctor_warns_of_a_task_whose_program_devices_refuse_until_it_is_signed(site):
    config = load_config(site.config, {})
    (before,) = checkup._programs(config)
    assert before.level == "warning"
    assert "devices refuse it" in before.found
    assert "keys sign" in before.remedy
    signature = OwnerSignature("ab" * 32, "cd" * 64)
    with site.transaction() as tx:
        tx.keep_signed_program(SignedProgram(site.manifest.program.sha256, (signature,)))
    (after,) = checkup._programs(config)
    assert after.level == "ok"


def test_doctor_knows_the_programs_that_come_with_the_agent_and_signatures_that_are_none(run, tmp_path):
    run("init", tmp_path / "new.toml", "--json")
    packaged = load_config(tmp_path / "new.toml", {})
    (found,) = checkup._programs(packaged)
    assert (found.level, "comes with the agent" in found.found) == ("ok", True)
    (tmp_path / "model" / SIGNATURE_FILE).write_text("{}")
    (found,) = checkup._programs(packaged)
    assert (found.level, "keys sign" in found.remedy) == ("fault", True)


@pytest.mark.tensorflow
@pytest.mark.slow
def test_doctor_says_which_tensorflow_there_is_and_how_many_gpus_it_sees(run, site):
    _, out, _ = run("doctor", "--config", site.config, "--json")
    found = {each["category"]: each for each in json.loads(out)}
    assert re.fullmatch(r"[\d.]+ can be imported; GPUs that it sees: \d+", found["tensorflow"]["found"])


def test_doctor_calls_a_tensorflow_that_is_missing_a_fault_where_versions_are_measured(site, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    config = load_config(site.config, {})
    assert checkup._tensorflow(config).level == "warning"
    measured = msgspec.structs.replace(config.task, evaluation_text=Path("text.tsv"))
    assert checkup._tensorflow(msgspec.structs.replace(config, task=measured)).level == "fault"


def test_doctor_says_what_to_do_about_each_fault(run, site, monkeypatch):
    monkeypatch.setattr(checkup, "_tensorflow", lambda _config: CheckupFinding("tensorflow", "ok", "there"))
    (site.config.parent / "model" / "weights.bin").write_bytes(b"x")
    site.artifacts.path(site.manifest.program.sha256).unlink()
    status, out, _ = run("doctor", "--config", site.config, "--json")
    faults = {each["category"]: each for each in json.loads(out) if each["level"] == "fault"}
    assert (status, sorted(faults)) == (1, ["database", "model"])
    assert all(fault["remedy"] for fault in faults.values())


def test_doctor_calls_metadata_of_releases_that_cannot_be_read_a_fault(site):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_release_files({"1.root.json": "00" * 32})
    database.close()
    (fault,) = checkup._releases(load_config(site.config, {}))
    assert (fault.category, fault.level, "00" * 32 in fault.found) == ("releases", "fault", True)


def test_doctor_lists_a_configuration_that_cannot_be_used_as_a_fault(run, site):
    site.config.write_text("port = 0\n")
    status, out, _ = run("doctor", "--config", site.config, "--json")
    [fault] = json.loads(out)
    assert (status, fault["category"], fault["remedy"]) == (1, "configuration", f"edit {site.config}")
    assert "port" in fault["found"]
    status, out, _err = run("doctor", "--config", site.data / "nothing.toml", "--json")
    assert (status, "init" in json.loads(out)[0]["remedy"]) == (1, True), "there is nothing to edit"
    for unreadable in (site.data, site.data / ("long" * 100)):  # also root can read neither
        status, out, _err = run("doctor", "--config", unreadable, "--json")
        [fault] = json.loads(out)
        assert (status, fault["remedy"]) == (1, "give --config FILE that this user can read")


def test_backup_and_restore_lose_nothing(run, site, ask, tmp_path):
    rounds, devices = ask("round", "show", 2), ask("device", "list")
    assert run("backup", tmp_path / "saved", "--config", site.config)[0] == 0
    site.data.rename(tmp_path / "lost")
    answer = ask("restore", tmp_path / "saved")
    assert answer["last_used_round"] >= 2 + ROUNDS_SKIPPED
    assert ask("round", "show", 2)["seats"] == rounds["seats"]
    assert [row["device"] for row in ask("device", "list")] == [row["device"] for row in devices]


def test_a_backup_of_a_database_that_may_only_be_read_is_made(run, site, tmp_path):
    """Proven before: on a disk that had become read-only a whole backup was made, and called a failure."""
    with database_file(site.data).open("r+b") as file:
        file.seek(18)
        file.write(b"\3")  # "file format write version": SQLite may read it only
    status, out, err = run("backup", tmp_path / "saved", "--config", site.config)
    assert (status, "MB" in out or "kB" in out) == (0, True)
    assert "could not be noted in the audit log" in err
    assert missing(tmp_path / "saved") == []


def test_a_backup_without_keys_says_so_and_how_to_save_them_and_so_does_restoring_it(run, site, ask, tmp_path):
    Authority(site.data / AUTHORITY_FOLDER)
    load_signer(site.data)
    site.config.write_text(site.config.read_text().replace('transport = "plain"', 'transport = "tls"'))
    status, _, err = run("backup", tmp_path / "daily", "--config", site.config)
    assert (status, "not in it: authority and signing" in err) == (0, True)
    assert f"nightjar-coordinator backup --with-keys --config {site.config} FOLDER" in err
    assert ask("backup", tmp_path / "whole", "--with-keys")["keys"] == ["authority", "signing"]
    site.data.rename(tmp_path / "lost")
    assert ask("restore", tmp_path / "daily")["keys_lacking"] == ["authority", "signing"]
    site.data.rename(tmp_path / "lost again")
    assert ask("restore", tmp_path / "whole")["keys_lacking"] == []


@pytest.mark.slow
def test_what_init_makes_is_its_owners_alone_whatever_the_umask(tmp_path):
    command = [sys.executable, "-m", "nightjar.coordinator", "init", "--model=none", str(tmp_path / "new.toml")]
    subprocess.run(command, check=True, capture_output=True, umask=0)
    found = [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o077]
    assert found == []
    assert (tmp_path / "nightjar-coordinator" / KEY_FILE).is_file()


def test_restore_leaves_a_folder_in_use_alone(run, site, tmp_path):
    run("backup", tmp_path / "saved", "--config", site.config)
    status, _, err = run("restore", tmp_path / "saved", "--config", site.config)
    assert status == ConfigError.exit_status
    assert "already" in err
    with (site.data / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, _, err = run("restore", tmp_path / "saved", "--config", site.config)
    assert (status, "another coordinator runs" in err) == (ConfigError.exit_status, True)


@pytest.mark.parametrize("command", ["init", "doctor", "backup", "restore", "round", "model", "device", "serve"])
def test_every_command_has_help(run, command):
    status, out, _ = run(command, "--help")
    assert (status, "Usage" in out) == (0, True)
