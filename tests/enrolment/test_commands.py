"""What an operator types, and what a device's person types."""

import json

import pytest
from click.testing import CliRunner

from nightjar.coordinator.__main__ import cli
from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.commands import doctor
from nightjar.edge_agent.commands.doctor import CheckOutcome
from nightjar.edge_agent.config import load
from nightjar.wire.errors import ConfigError
from tests.enrolment.world import World

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with World(tmp_path_factory.mktemp("world"), "embedded") as found:
        yield found


@pytest.fixture
def operator(world):
    def run(*arguments):
        done = CliRunner().invoke(cli, [*arguments, "--config", str(world.path)])
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return run


@pytest.fixture
def device(tmp_path):
    (tmp_path / "agent.toml").write_text('data_dir = "data"\n')

    def run(*arguments):
        return CliRunner().invoke(main, ["enrol", "--config", str(tmp_path / "agent.toml"), *arguments])

    return run


def test_a_claim_goes_into_a_file_that_nobody_else_reads_and_a_device_enrols_with_it(operator, device, tmp_path):
    path = tmp_path / "claim.json"
    said = operator("enrol-token", "create", "kitchen", "--device", "pi-kitchen", "--out", str(path), "--qr")
    carried = json.loads(path.read_text())
    assert carried.keys() == {"claim", "url", "authority"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert carried["claim"] not in said
    assert "█" in said
    with pytest.raises(ConfigError, match="exists already"):
        operator("enrol-token", "create", "again", "--out", str(path))
    with pytest.raises(ConfigError, match="cannot be written"):
        operator("enrol-token", "create", "again", "--out", str(tmp_path / "nowhere" / "claim.json"))
    with pytest.raises(ConfigError, match="there is or was a claim kitchen"):
        operator("enrol-token", "create", "kitchen", "--out", str(tmp_path / "second.json"))
    assert not (tmp_path / "second.json").exists()
    assert [each["name"] for each in json.loads(operator("enrol-token", "list", "--json"))] == ["kitchen"]
    quiet = json.loads(operator("enrol-token", "create", "quiet", "--out", str(tmp_path / "q.json"), "--json"))
    assert quiet["claim"] == f"in {tmp_path / 'q.json'}", "a log of this command holds no claim"

    done = device("--claim", str(path), "--json")
    assert done.exit_code == 0, done.output
    told = {"device": "pi-kitchen", "population": "demo", "anew": True, "not_wiped": []}
    assert json.loads(done.stdout) == told
    assert not path.exists()
    again = device("--claim", str(path))
    assert (again.exit_code, again.stdout) == (0, "enrolled already as pi-kitchen\n")


def test_a_list_of_cards_gets_a_claim_for_each_line_once_and_labels_its_devices(operator, device, tmp_path):
    def listed_by(label):
        return json.loads(operator("device", "list", "--label", label, "--json"))

    listed, out = tmp_path / "cards.csv", tmp_path / "claims"
    listed.write_text("target,hostname,labels\n/dev/sdb,pi-01,porch pi4\n,pi-02,\n")
    make = ("enrol-token", "cards", str(listed), "--out", str(out), "--json")
    assert json.loads(operator(*make)) == {"made": ["pi-01", "pi-02"]}
    assert sorted(path.name for path in out.iterdir()) == ["pi-01.json", "pi-02.json"]
    (out / "pi-03.json").touch(mode=0o600)  # by a command that was killed before it made the claim
    listed.write_text(listed.read_text() + ",pi-03,\n")
    assert json.loads(operator(*make)) == {"made": ["pi-03"]}
    assert "claim" in json.loads((out / "pi-03.json").read_text())
    assert json.loads(operator(*make)) == {"made": []}

    assert device("--claim", str(out / "pi-01.json")).exit_code == 0
    assert [(row["device"], row["labels"]) for row in listed_by("porch")] == [("pi-01", "pi4 porch")]
    pattern = ("device", "label", "pi-*", "pi-02", "--add", "attic", "--remove", "porch", "--json")
    assert json.loads(operator(*pattern)) == {"changed": ["pi-01", "pi-02"]}
    assert [row["labels"] for row in listed_by("attic")] == ["attic pi4", "attic"]
    with pytest.raises(ConfigError, match="no known device is like"):
        operator("device", "label", "x-*", "--add", "attic")

    for text, why in (
        ("target\n/dev/sdb\n", "got ''"),
        ("hostname\na/b\n", "got 'a/b'"),
        ("hostname,labels\npi-03,attic\npi-03,porch\n", "pi-03 stands in several lines"),
    ):
        listed.write_text(text)
        with pytest.raises(ConfigError, match=rf"column 'hostname'.*{why}"):
            operator(*make)
    listed.unlink()
    with pytest.raises(ConfigError, match=r"names each device: No such file or directory$"):
        operator(*make)


def test_a_claim_that_cannot_be_wiped_is_a_warning_of_a_device_that_is_enrolled(operator, device, tmp_path):
    path = tmp_path / "claim.json"
    operator("enrol-token", "create", "stuck", "--device", "pi-stuck", "--out", str(path))
    (tmp_path / "user-data").mkdir()  # stands for a file that nobody can write
    options = ("--claim", str(path), "--wipe", str(tmp_path / "user-data"))
    done = device(*options)
    assert (done.exit_code, done.stdout) == (0, "enrolled as pi-stuck\n")
    assert "the device is enrolled, but the claim in" in done.stderr
    assert not path.exists(), "what can be wiped is"
    again = device(*options, "--json")
    assert (again.exit_code, json.loads(again.stdout)["anew"]) == (0, False)


@pytest.mark.parametrize(("url", "warned"), [("https://127.0.0.1:1", True), ("https://nightjar.example:1", False)])
def test_a_claim_that_no_other_machine_can_use_comes_with_a_warning(world, url, warned):
    arguments = ["enrol-token", "create", f"claim-{warned}".lower(), "--url", url, "--config", str(world.path)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert ("no other machine reaches https://127.0.0.1:1" in done.stderr) is warned


def test_cards_that_no_other_machine_can_use_come_with_one_warning(world, tmp_path):
    (tmp_path / "cards.csv").write_text("hostname\npi-a\npi-b\n")
    arguments = ["enrol-token", "cards", str(tmp_path / "cards.csv"), "--out", str(tmp_path / "claims")]
    done = CliRunner().invoke(cli, [*arguments, "--config", str(world.path)])
    assert done.exit_code == 0, done.output
    url = json.loads((tmp_path / "claims" / "pi-a.json").read_text())["url"]
    assert done.stderr.count("no other machine reaches") == done.stderr.count(url) == 1


def test_claims_are_listed_without_their_characters_and_revoked(operator):
    made = json.loads(operator("enrol-token", "create", "shelf", "--uses", "3", "--prefix", "pi", "--json"))
    listed = operator("enrol-token", "list")
    assert "3 of 3" in listed
    assert made["claim"] not in listed
    assert json.loads(operator("enrol-token", "revoke", "shelf", "--json")) == {"revoked": "shelf"}
    assert "shelf" not in operator("enrol-token", "list")
    with pytest.raises(ConfigError, match="no claim shelf"):
        operator("enrol-token", "revoke", "shelf")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://nightjar.example",
        "http://nightjar.example:8080",
        "nightjar.example:8080",
        "https://",
        "https://nightjar.example:port",
        "https://nightjar.example:99999",
        "https://nightjar.example/devices",
        "https://anna@nightjar.example",
        "https://[::1",
        "https://[1.2.3.4]",
        "https://[::1]x",
        "https://[1:2]",
        "https://10.0.2.999",
        "https://nightjar..example",
        "https://nightjar.example:0",
        "https://nightjar.example:",
        "https://nightjar.example?",
        "https://nightjar.example#",
        "https://night jar.example",
        "https://nightjar.example\n",
        "https://night\tjar.example",
        " https://nightjar.example",
        "https://nightjar.example\\devices",
        "https://nightjar.example/?",
        " ",
    ],
)
def test_a_url_that_no_device_can_use_is_refused_and_no_claim_is_made(operator, world, url):
    arguments = ["enrol-token", "create", "nowhere", "--url", url, "--config", str(world.path)]
    done = CliRunner().invoke(cli, arguments)
    assert "nowhere" not in operator("enrol-token", "list")
    assert (done.exit_code, "expected https://NAME" in " ".join(done.stderr.split())) == (2, True)


@pytest.mark.parametrize(
    "url", ["https://10.0.2.2:8080", "https://[2001:db8::1]:8080", "https://pi_5.lan", "HTTPS://Nightjar.example"]
)
def test_the_url_of_a_claim_can_be_said(operator, url):
    for given in (url, f"{url}/"):
        made = operator("enrol-token", "create", "twin", "--url", given, "--json")
        operator("enrol-token", "revoke", "twin")
        assert json.loads(made)["url"] == url


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--device", "a/b"], "device name"),
        (["--device", "pi", "--uses", "2"], "that one device"),
        (["--device", "nightjar"], "that one device"),
        (["--prefix", "-x"], "prefix"),
    ],
)
def test_a_claim_that_cannot_be_is_refused_in_words(operator, options, said):
    with pytest.raises(ConfigError, match=said):
        operator("enrol-token", "create", "odd", *options)


def test_a_person_lets_devices_in_by_their_names(operator, device, tmp_path):
    path = tmp_path / "claim.json"
    operator("enrol-token", "create", "door", "--device", "pi-door", "--approval", "--out", str(path))
    waits = device("--claim", str(path))
    assert waits.exit_code == 3
    assert "enrolment approve" in waits.stderr
    assert "waiting" in operator("enrolment", "list")
    operator("enrolment", "approve", "pi-door")
    assert device("--claim", str(path)).exit_code == 0
    with pytest.raises(ConfigError, match="0 fit"):
        operator("enrolment", "refuse", "pi-door")


def test_a_forgotten_device_is_told_so(operator, device, tmp_path):
    path = tmp_path / "claim.json"
    operator("enrol-token", "create", "gone", "--device", "pi-gone", "--out", str(path))
    assert device("--claim", str(path)).exit_code == 0
    assert json.loads(operator("device", "forget", "pi-gone", "--json")) == {"changed": True}
    assert json.loads(operator("device", "forget", "pi-gone", "--json")) == {"changed": False}
    refused = device("--claim", str(path))
    assert refused.exit_code == 2
    assert "revoked" in refused.stderr
    with pytest.raises(ConfigError, match="pi-gome ever asked for a certificate"):
        operator("device", "forget", "pi-gome")


def test_a_coordinator_that_is_away_is_a_reason_to_try_again(device, world, tmp_path):
    claim = {
        "claim": "njc_" + 43 * "x",
        "url": "https://127.0.0.1:1",
        "authority": json.loads(world.claim("away").read_text())["authority"],
    }
    (tmp_path / "claim.json").write_text(json.dumps(claim))
    assert device("--claim", str(tmp_path / "claim.json")).exit_code == 3


def test_the_servers_files_can_be_written_before_the_service_runs(tmp_path):
    (tmp_path / "model").mkdir()
    config = tmp_path / "coordinator.toml"
    config.write_text('transport = "tls"\ndata_dir = "data"\n[task]\nmodel = "model"\n')
    done = CliRunner().invoke(cli, ["authority", "prepare", "--config", str(config), "--json"])
    assert done.exception is None
    assert {path.name for path in (tmp_path / "data" / "tls").iterdir()} == {
        "broker.key",
        "broker.pem",
        "authorities.pem",
        "revoked.pem",
        "refused",
        "access",
    }
    assert {path.name for path in (tmp_path / "data" / "server").iterdir()} == {"server.key", "server.pem"}
    config.write_text('transport = "tls"\n[enrolment]\nsigner = ["ssh", "ca"]\n[task]\nmodel = "model"\n')
    refused = CliRunner().invoke(cli, ["authority", "rotate", "--config", str(config)])
    assert "elsewhere" in str(refused.exception)


def test_the_devices_doctor_tries_its_certificate_and_says_when_it_was_revoked(world, operator):
    found = world.enrolled("pi-doctor")
    toml = found.data_dir.parent / "doctor.toml"
    toml.write_text(f'data_dir = "{found.data_dir.name}"\n')
    config = load(toml, {})

    def outcomes() -> dict[tuple[str, str], CheckOutcome]:
        checks = {"broker": doctor._broker(config), "coordinator": doctor._coordinator(config)}
        return {(category, each[0]): each[1] for category, found in checks.items() for each in found}

    assert set(outcomes().values()) == {CheckOutcome.OK}
    assert ("coordinator", "population") in outcomes()
    operator("device", "forget", "pi-doctor")
    world.wait_until(lambda: outcomes()[("broker", "connection")] is CheckOutcome.FAILED, "refused by the broker")
    assert outcomes()[("coordinator", "connection")] is CheckOutcome.FAILED
