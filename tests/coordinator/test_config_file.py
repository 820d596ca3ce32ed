import re
import tomllib
from importlib import resources
from pathlib import Path

import msgspec
import pytest

from nightjar.coordinator.config import BrokerKind, CoordinatorConfig
from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.learning.strategies import StrategyName
from nightjar.coordinator.tasks.settings import CodecConfig, TaskSettings
from nightjar.wire.errors import ConfigError
from tests.coordinator.model_folder import write_model

MINIMAL = '[task]\nmodel = "model"\n'


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "model")
    return tmp_path


def load(folder: Path, text: str, **environment: str) -> CoordinatorConfig:
    path = folder / "coordinator.toml"
    path.write_text(text)
    return load_config(path, environment)


def faults(folder: Path, text: str, **environment: str) -> str:
    with pytest.raises(ConfigError) as raised:
        load(folder, text, **environment)
    return str(raised.value)


def test_the_defaults_stand_and_paths_are_relative_to_the_file(folder):
    config = load(folder, MINIMAL)
    assert config.task.model == folder / "model"
    assert config.data_dir == folder / "nightjar-coordinator"
    assert config.broker.kind is BrokerKind.AUTO
    assert config.task.evaluation_text is None
    assert config.task.baseline is None
    assert config.host == config.broker.host == "127.0.0.1"


def test_versions_are_measured_on_the_text_that_came_with_the_model_unless_there_is_another(folder, monkeypatch):
    shipped, own = folder / "model" / "held_out.tsv", folder / "own.tsv"
    for text in (shipped, own):
        text.write_text("user\ttext\na\tgood morning\n")
    monkeypatch.setattr("nightjar.coordinator.config_reader.find_spec", lambda name: name)
    task = load(folder, MINIMAL).task
    assert (task.evaluation_text, task.measured_in_public) == (shipped, True)
    task = load(folder, MINIMAL, NIGHTJAR_TASK_EVALUATION_TEXT=str(own)).task
    assert (task.evaluation_text, task.measured_in_public) == (own, False)
    monkeypatch.setattr("nightjar.coordinator.config_reader.find_spec", lambda _name: None)
    assert load(folder, MINIMAL).task.evaluation_text is None, "nothing is measured without TensorFlow"


def test_every_fault_is_reported_at_once(folder):
    message = faults(
        folder,
        """
        port = 99999
        popluation = "demo"
        [broker]
        kind = "kafka"
        [task]
        goal = "many"
        over_selection = 0.5
        [task.codec]
        density = 2
        [task.baseline]
        label = "trigram"
        """,
    )
    for fault in (
        "port:",
        "popluation: there is no such setting; did you mean 'population'?",
        "broker.kind:",
        "task.model: is missing",
        "task.goal:",
        "task.over_selection:",
        "task.codec.density:",
        "task.baseline.top1: is missing",
        "task.baseline.top3: is missing",
    ):
        assert fault in message
    assert len(message.splitlines()) == 10


def test_settings_that_do_not_go_together_are_reported_at_once(folder):
    message = faults(
        folder,
        """
        port = 1883
        [broker]
        host = "127.0.0.1"
        [task]
        model = "nowhere"
        evaluation_text = "nothing.tsv"
        goal = 2
        minimum = 3
        selection_window_s = 100
        [task.codec]
        name = "zip"
        """,
    )
    for fault in (
        "task.model:",
        "task.evaluation_text:",
        "task.minimum:",
        "task.selection_window_s:",
        "task.codec.name:",
        "broker.port:",
    ):
        assert fault in message


@pytest.mark.parametrize("name", ["", "-den", "a den", "den\\n", "x" * 65])
def test_a_task_has_a_plain_name(folder, name):
    assert "task.name: expected 1 to 64 letters" in faults(folder, MINIMAL + f'name = "{name}"\n')


def test_a_broker_of_ours_is_open_to_a_network_only_on_purpose_and_with_certificates(folder):
    open_to_all = '[broker]\nhost = "0.0.0.0"\n'
    assert "broker.host" in faults(folder, open_to_all + MINIMAL)
    open_to_all += "allow_network = true\n"
    assert load(folder, open_to_all + MINIMAL).tls
    # Where a proxy encrypts, nobody but it and devices that know the password may reach the broker.
    assert "broker.host" in faults(folder, 'transport = "proxied"\n' + open_to_all + MINIMAL)
    config = load(folder, 'transport = "proxied"\n' + open_to_all + MINIMAL, NIGHTJAR_BROKER_PASSWORD="secret")
    assert config.broker.password == "secret"
    assert not config.tls
    load(folder, '[broker]\nkind = "external"\nhost = "broker.example"\n' + MINIMAL)


def test_plain_text_stays_on_the_loopback_address(folder):
    assert load(folder, MINIMAL).tls, "only when it is asked for"
    assert not load(folder, 'transport = "plain"\n' + MINIMAL).tls
    assert "expected one of tls, plain, proxied" in faults(folder, 'transport = ""\n' + MINIMAL)
    assert load(folder, 'transport = "tls"\n' + MINIMAL).url.startswith("https://127.0.0.1:")
    assert load(folder, 'host = "0.0.0.0"\n' + MINIMAL).tls
    assert "transport: plain text stays" in faults(folder, 'transport = "plain"\nhost = "0.0.0.0"\n' + MINIMAL)
    elsewhere = '[broker]\nkind = "external"\nhost = "192.0.2.7"\n'
    assert "transport: plain text stays" in faults(folder, 'transport = "plain"\n' + elsewhere + MINIMAL)
    assert not load(folder, 'transport = "proxied"\nhost = "0.0.0.0"\n' + MINIMAL).tls


def test_pages_without_encryption_have_a_port_of_their_own(folder):
    with pytest.raises(ConfigError, match="unencrypted on port 8080 already"):
        load(folder, 'page_port = 8090\ntransport = "plain"\n' + MINIMAL)
    with pytest.raises(ConfigError, match="page_port: 8080 is the port of something else"):
        load(folder, "page_port = 8080\n" + MINIMAL)
    assert load(folder, "page_port = 8090\n" + MINIMAL).page_url == "http://127.0.0.1:8090"


@pytest.mark.parametrize(
    ("proxy", "where"),
    [("", "127.0.0.1"), ("127.0.0.1", "127.0.0.1"), ("192.0.2.7", "0.0.0.0"), ("*", "0.0.0.0")],
)
def test_pages_without_encryption_are_for_this_machine_or_for_a_proxy_elsewhere(folder, proxy, where):
    lines = f'host = "0.0.0.0"\npage_port = 8090\ntrusted_proxy = "{proxy}"\n'
    assert load(folder, lines + MINIMAL).page_host == where


def test_the_environment_overrides_the_file(folder):
    config = load(
        folder,
        "port = 9000\n" + MINIMAL,
        NIGHTJAR_PORT="9001",
        NIGHTJAR_TASK_GOAL="17",
        NIGHTJAR_TASK_STRATEGY_NAME="fedavgm",
        NIGHTJAR_BROKER_ALLOW_NETWORK="false",
        NIGHTJAR_AGENT_DEVICE="not ours",
    )
    assert (config.port, config.task.goal) == (9001, 17)
    assert config.task.strategy.name == StrategyName.FEDAVGM


def test_error_feedback_of_an_old_file_or_environment_is_ignored_with_a_warning(folder, capsys):
    config = load(folder, MINIMAL + '\n[task.codec]\ndensity = 0.02\nerror_feedback = ""\n')
    assert config.task.codec == CodecConfig(density=0.02)
    (warning,) = capsys.readouterr().err.splitlines()
    assert "task.codec.error_feedback is ignored" in warning
    assert warning.endswith("remove the line")
    assert load(folder, MINIMAL, NIGHTJAR_TASK_CODEC_ERROR_FEEDBACK="true").task.codec == CodecConfig()
    assert "NIGHTJAR_TASK_CODEC_ERROR_FEEDBACK is ignored" in capsys.readouterr().err


def test_a_stored_task_with_error_feedback_is_read_without():
    stored = b'{"name":"keyboard","codec":{"name":"topk-8","density":0.02,"error_feedback":true}}'
    assert msgspec.json.decode(stored, type=TaskSettings).codec == CodecConfig(name="topk-8", density=0.02)


def test_a_median_of_sampled_updates_is_refused(folder):
    asked = {"NIGHTJAR_TASK_CODEC_NAME": "sampled-4", "NIGHTJAR_TASK_STRATEGY_AGGREGATION": "median"}
    assert "zero almost everywhere" in faults(folder, MINIMAL, **asked)


def test_a_fault_in_the_environment_names_the_variable(folder):
    assert "NIGHTJAR_TASK_GOAL" in faults(folder, MINIMAL, NIGHTJAR_TASK_GOAL="seven")


def test_a_baseline_may_come_from_the_environment_alone(folder):
    config = load(
        folder,
        MINIMAL,
        NIGHTJAR_TASK_BASELINE_LABEL="trigram",
        NIGHTJAR_TASK_BASELINE_TOP1="0.2",
        NIGHTJAR_TASK_BASELINE_TOP3="0.3",
    )
    assert config.task.baseline.top3 == 0.3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("task = 3", "task: expected a table"),
        ("[task", "is not valid TOML"),
        ('[task]\nmodel = ""', "task.model"),
        ("[task]\nmodel = 5", "task.model"),
        ('[task]\nmodel = "model"\n[task.strategy]\nname = "fedprox"', "plan.proximal: expected more than 0"),
        (
            '[task]\nmodel = "model"\nplan.local_epochs = 2\nstrategy.name = "fedsgd"',
            "local_epochs = 1",
        ),
    ],
)
def test_what_is_no_configuration_is_said_to_be_none(folder, text, expected):
    assert expected in faults(folder, text)


def test_a_file_that_is_missing_a_folder_or_binary_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="there is no configuration file"):
        load_config(tmp_path / "none.toml", {})
    with pytest.raises(ConfigError, match="cannot read"):
        load_config(tmp_path, {})
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not valid TOML"):
        load_config(tmp_path / "binary.toml", {})


def test_the_example_names_every_setting_with_its_default(folder):
    text = (resources.files("nightjar.coordinator") / "example.toml").read_text()
    config = load(folder, text)
    assert config == load(folder, MINIMAL)
    recalls = re.sub(r"^# (\[task\.|label =)", r"\1", text, flags=re.MULTILINE)
    table = tomllib.loads(recalls)
    assert _missing(CoordinatorConfig, table) == []


def _missing(kind, table, where="") -> list[str]:
    missing = []
    for field in msgspec.structs.fields(kind):
        if field.name == "baseline":
            continue
        if field.name not in table:
            missing.append(where + field.name)
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            missing += _missing(field.type, table[field.name], f"{where}{field.name}.")
    return missing


def test_paths_are_absolute_however_the_file_was_named(tmp_path, monkeypatch):
    """A relative one would mean another place to each library: the web server's is its own source folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "c.toml").write_text('[task]\nmodel = "model"\n')
    monkeypatch.chdir(tmp_path)
    config = load_config(Path("c.toml"), {})
    assert config.data_dir.is_absolute()
    assert config.task.model == tmp_path / "model"


def test_ray_of_an_old_file_is_ignored_with_a_warning(folder, capsys):
    load(folder, 'ray = "ray://10.0.0.5:10001"\n' + MINIMAL)
    assert "ray is ignored" in capsys.readouterr().err
