import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from nightjar.edge_agent.config import AgentConfig, EmulatorSettings, check, load
from nightjar.edge_agent.core.eligibility import DEFAULT_POLICY, Condition, Demand
from nightjar.edge_agent.emulator.day import DEFAULT_DAY
from nightjar.wire.errors import ConfigError

LEAST = 'device = "pi-kitchen"\ndata_dir = "data"\n'


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "agent.toml"
        path.write_text(text)
        return path

    return write


def faults(path, environment=None):
    with pytest.raises(ConfigError) as caught:
        load(path, environment or {})
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_a_name_and_a_folder_are_enough(write, tmp_path):
    config = load(write(LEAST), {})
    assert config == AgentConfig(device="pi-kitchen", data_dir=tmp_path / "data")
    assert config.emulator is None
    assert not config.keyboard.enabled
    assert config.broker.host == "127.0.0.1"


def test_every_setting_can_be_set(write, tmp_path):
    config = load(
        write(
            LEAST
            + """
            population = "flat"
            coordinator_url = "https://example.org/nightjar/"
            coordinator_key = "abababababababababababababababababababababababababababababababab"
            [broker]
            host = "broker.example.org"
            port = 8883
            username = "u"
            password = "p"
            tls = true
            websocket = true
            [conditions]
            hysteresis_s = 5
            poll_s = 0.5
            minimum_battery = 0.5
            maximum_temperature_c = 40
            idle_after_s = 10
            metered = "yes"
            always_powered = true
            quiet_hours = ["07:00-09:30", "22:00-6:00"]
            minimum_free_disk_bytes = 1
            minimum_free_memory_bytes = 0
            training_memory_bytes = 500000000
            ask_logind = false
            watch_input_devices = false
            source = "adb"
            root = "tree"
            required = ["idle", "cool"]
            ignored = ["unmetered", "steady-power"]
            [store]
            maximum_messages = 10
            maximum_age_days = 2
            forbidden_words = ["zyzzyva"]
            examples = "rows"
            [keyboard]
            model = "model"
            enabled = true
            port = 0
            personalise = false
            [emulator]
            messages = "m.txt"
            speed = 60
            seed = 3
            start_hour = 21.5
            """
        ),
        {},
    )
    assert config.coordinator_url == "https://example.org/nightjar"
    assert config.emulator == EmulatorSettings(tmp_path / "m.txt", DEFAULT_DAY, 60.0, 3, 21.5)
    for section in ("broker", "conditions", "store", "keyboard", "emulator"):
        settings = getattr(config, section)
        for field in dataclasses.fields(settings):
            if field.name != "day" and field.default is not dataclasses.MISSING:
                assert getattr(settings, field.name) != field.default, f"{section}.{field.name}"


def test_the_environment_goes_over_the_file(write):
    environment = {
        "NIGHTJAR_AGENT_DEVICE": "other",
        "NIGHTJAR_AGENT_BROKER_PORT": "1999",
        "NIGHTJAR_AGENT_CONDITIONS_METERED": "yes",
        "NIGHTJAR_AGENT_CONDITIONS_QUIET_HOURS": "07:00-09:30, 12:00-13:00",
        "NIGHTJAR_AGENT_CONDITIONS_POLL_S": "0.5",
        "HOME": "/root",
    }
    config = load(write(LEAST + "[broker]\nport = 7"), environment)
    assert (config.device, config.broker.port, config.conditions.metered) == ("other", 1999, "yes")
    assert config.conditions.quiet_hours == ("07:00-09:30", "12:00-13:00")
    assert config.conditions.poll_s == 0.5


def test_the_environment_alone_is_enough(write):
    config = load(write(""), {"NIGHTJAR_AGENT_DEVICE": "d", "NIGHTJAR_AGENT_DATA_DIR": "/var/lib/agent"})
    assert config.data_dir == Path("/var/lib/agent")


def test_all_faults_are_told_at_once(write):
    said = faults(
        write(
            """
            device = "a/b"
            coordinator_url = "ftp://x"
            colour = "blue"
            [broker]
            port = 70000
            hots = "x"
            [conditions]
            poll_s = "often"
            [emulator]
            day = "nowhere.toml"
            speed = -1
            [emulator.person]
            """
        ),
        {"NIGHTJAR_AGENT_STORE_MAXIMUM_MESSAGES": "many", "NIGHTJAR_AGENT_TYPO": "1"},
    )
    for part in (
        "12 fault(s)",
        "device: a device name is",
        "data_dir: is missing; add a line",
        "coordinator_url: expected a URL such as",
        "colour: there is no such setting",
        "broker.port: ",
        "broker.hots: there is no such setting; did you mean 'host'?",
        "conditions.poll_s: ",
        "emulator.day: expected a TOML file",
        "emulator.speed: ",
        "emulator.person: there is no such setting",
        "store.maximum_messages (from NIGHTJAR_AGENT_STORE_MAXIMUM_MESSAGES): ",
        "NIGHTJAR_AGENT_TYPO: there is no such setting",
    ):
        assert part in said


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("device = ", "is not valid TOML"),
        (LEAST + "broker = 5", "expected a table [broker]"),
        (LEAST + "[emulator]\nday = 5", "emulator.day"),
        (LEAST + "[conditions]\nmetered = true", "conditions.metered"),
        (LEAST + "[conditions]\nquiet_hours = ['9-17']", "expected a span of the day"),
        (LEAST + "[conditions]\nmaximum_temperature_c = nan", "expected a number above 0, got nan"),
        (LEAST + "[conditions]\nrequired = ['sometimes']", "conditions.required"),
        (LEAST + "[conditions]\nignored = ['wanted']", "conditions.ignored"),
        (LEAST + "[[emulator.day.segments]]\nfrom_hour = 3", "emulator.day"),
        (LEAST + "[keyboard]\nenabled = 'yes'", "keyboard.enabled"),
        (LEAST + "[emulator]\nmessages = 5", "emulator.messages"),
        (LEAST + "coordinator_url = 'http://user:secret@host'", "coordinator_url"),
        (LEAST + "coordinator_url = 'http://['", "coordinator_url"),
    ],
)
def test_fault(write, text, part):
    assert part in faults(write(text))


def test_the_rules_become_a_policy_in_which_the_persons_word_always_counts(write):
    policy = load(write(LEAST + '[conditions]\nignored = ["charging"]'), {}).conditions.policy
    assert policy == {**DEFAULT_POLICY, Condition.CHARGING: Demand.IGNORED}
    assert policy[Condition.WANTED] is Demand.REQUIRED


def test_a_missing_file_is_a_fault(tmp_path):
    assert "nowhere.toml" in faults(tmp_path / "nowhere.toml")


def test_a_day_can_be_a_file_or_inline(write, tmp_path):
    segment = "from_hour = 0\ncharging = true\nin_use = false\nwifi = true\nbattery = 1.0\n"
    (tmp_path / "day.toml").write_text(f"[[segments]]\n{segment}")
    from_file = load(write(LEAST + '[emulator]\nday = "day.toml"'), {})
    inline = load(write(LEAST + f"[[emulator.day.segments]]\n{segment}"), {})
    assert from_file.emulator.day == inline.emulator.day
    assert len(inline.emulator.day.segments) == 1


def test_the_password_is_not_shown(write):
    assert "hunter2" not in repr(load(write(LEAST + '[broker]\npassword = "hunter2"'), {}))


EXAMPLE = Path(__file__).parents[2] / "edge_agent" / "example.toml"


def test_the_example_has_every_setting_with_its_default(tmp_path):
    config = load(EXAMPLE, {})
    usual = AgentConfig(device="phone-01", data_dir=EXAMPLE.parent / "nightjar-agent")
    assert config == usual
    table = tomllib.loads(EXAMPLE.read_text())
    for field in dataclasses.fields(AgentConfig):
        assert field.name in table or field.name == "emulator"
        settings = getattr(config, field.name)
        if dataclasses.is_dataclass(settings):
            assert set(table[field.name]) == {inner.name for inner in dataclasses.fields(settings)}
    commented = EXAMPLE.read_text().partition("# [emulator]")[2]
    for field in dataclasses.fields(EmulatorSettings):
        assert f"# {field.name} = " in commented


ELSEWHERE = 'coordinator_url = "https://192.0.2.7"\n'
KEYED = 'coordinator_key = "' + 32 * "ab" + '"\n'


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (KEYED + 'coordinator_url = "http://192.0.2.7:8080"', "coordinator_url: plain text stays on 127.0.0.1"),
        (KEYED + '[broker]\nhost = "192.0.2.8"', "broker.tls: plain text stays on 127.0.0.1"),
        (KEYED + '[broker]\nhost = "broker.example"', "broker.tls: plain text stays on 127.0.0.1"),
        (ELSEWHERE, "coordinator_key is missing"),
        ('[broker]\nhost = "192.0.2.8"\ntls = true', "coordinator_key is missing"),
    ],
)
def test_beyond_this_machine_nothing_is_said_openly_and_no_stranger_is_believed(write, text, fault):
    with pytest.raises(ConfigError, match=re.escape(fault)) as raised:
        load(write(LEAST + text), {})
    assert "1 fault(s)" in str(raised.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_on_one_machine_plain_text_and_the_first_key_will_do(write, host):
    config = load(write(LEAST + f'[broker]\nhost = "{host}"'), {})
    assert (config.broker.tls, config.coordinator_key) == (False, "")


def test_elsewhere_a_known_key_and_encryption_will_do(write):
    config = load(write(LEAST + ELSEWHERE + KEYED + '[broker]\nhost = "192.0.2.8"\ntls = true'), {})
    assert config.broker.host == "192.0.2.8"


def test_a_file_for_another_device_is_checked_as_that_device_would_read_it(write):
    check(write('device = "other"\n[keyboard]\nport = 8700\n'), enrols=False)  # its unit says where its data is
    check(write('population = "home"\n'), enrols=True)
    with pytest.raises(ConfigError, match=r"(?s)2 fault\(s\).*device: is missing.*port"):
        check(write('[keyboard]\nport = "x"\n'), enrols=False)
    with pytest.raises(ConfigError, match="plain text stays"):
        check(write('coordinator_url = "http://192.0.2.7"\n'), enrols=True)
