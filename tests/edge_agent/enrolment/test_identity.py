import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from nightjar.edge_agent.config import data_dir_of, load
from nightjar.edge_agent.enrolment.identity import FOLDER, IDENTITY, EnrolledIdentity, held_identity, keep, tls_context
from nightjar.edge_agent.enrolment.keys import forget_next_key, next_key
from nightjar.wire.errors import ConfigError

ROOT = Path(__file__).parents[3]
HELD = EnrolledIdentity(
    device="pi-kitchen",
    population="home",
    coordinator_url="https://pi.local:8443",
    broker_host="pi.local",
    broker_port=8883,
    authorities=["PEM"],
    expires_s=2.0,
    renew_s=1.0,
    coordinator_key="ab" * 32,
)


@pytest.fixture
def agent_toml(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text('data_dir = "data"\n')
    return path


def test_an_enrolled_device_needs_no_line_but_where_its_data_is(tmp_path, agent_toml):
    keep(tmp_path / "data", HELD, None)
    config = load(agent_toml, {})
    assert (config.device, config.population) == ("pi-kitchen", "home")
    assert config.coordinator_url == "https://pi.local:8443"
    assert (config.broker.host, config.broker.port) == ("pi.local", 8883)
    assert config.coordinator_key == "ab" * 32


def test_addresses_in_the_file_count_and_another_name_is_a_fault(tmp_path, agent_toml):
    keep(tmp_path / "data", HELD, None)
    agent_toml.write_text('data_dir = "data"\ncoordinator_url = "https://192.0.2.7:1"\n[broker]\nhost = "192.0.2.8"\n')
    config = load(agent_toml, {"NIGHTJAR_AGENT_BROKER_PORT": "9"})
    assert (config.coordinator_url, config.broker.host, config.broker.port) == ("https://192.0.2.7:1", "192.0.2.8", 9)
    agent_toml.write_text('data_dir = "data"\ncoordinator_url = "http://192.0.2.7:1"\n')
    with pytest.raises(ConfigError, match="plain text stays on"):
        load(agent_toml, {})
    agent_toml.write_text('data_dir = "data"\ndevice = "other"\npopulation = "away"\n')
    with pytest.raises(ConfigError, match=r"(?s)enrolled as 'pi-kitchen'.*enrolled as 'home'"):
        load(agent_toml, {})
    agent_toml.write_text('data_dir = "data"\n')
    with pytest.raises(ConfigError, match="enrolled as 'pi-kitchen'"):
        load(agent_toml, {"NIGHTJAR_AGENT_DEVICE": "other"})


def test_a_device_that_is_not_enrolled_is_told_how(agent_toml):
    with pytest.raises(ConfigError, match="nightjar-agent enrol"):
        load(agent_toml, {})


def test_another_user_is_told_so_and_sent_for_no_new_claim(tmp_path, agent_toml):
    """Proven before: who forgot sudo was told to enrol again with a new claim."""
    keep(tmp_path / "data", HELD, None)
    (tmp_path / "data").chmod(0o000)
    as_a_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"] if os.geteuid() == 0 else []
    command = [sys.executable, "-m", "nightjar.edge_agent", "status", "--config", str(agent_toml)]
    done = subprocess.run([*as_a_user, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    (tmp_path / "data").chmod(0o700)
    assert done.returncode == ConfigError.exit_status
    assert "run this as the agent's own user, or as root" in done.stderr
    assert "new claim" not in done.stderr


def test_enrolling_needs_only_the_data_folder(tmp_path, agent_toml):
    assert data_dir_of(agent_toml, {}) == tmp_path / "data"
    assert data_dir_of(agent_toml, {"NIGHTJAR_AGENT_DATA_DIR": "/var/lib/x"}).as_posix() == "/var/lib/x"
    agent_toml.write_text("")
    with pytest.raises(ConfigError, match="data_dir: is missing"):
        data_dir_of(agent_toml, {})


@pytest.mark.parametrize("damage", ["", "{}", json.dumps({"device": "a/b"})])
def test_a_damaged_identity_is_said(tmp_path, agent_toml, damage):
    keep(tmp_path / "data", HELD, None)
    (tmp_path / "data" / FOLDER / IDENTITY).write_text(damage)
    with pytest.raises(ConfigError, match="enrol again"):
        held_identity(tmp_path / "data")
    with pytest.raises(ConfigError, match="enrol again"):
        load(agent_toml, {})


@pytest.mark.parametrize("authorities", [[], [""], ["PEM"], ["Behörde"], [" "]])
def test_authorities_or_keys_that_are_none_are_said(tmp_path, authorities):
    """Proven before: without any, every server with a certificate of a public authority was trusted."""
    with pytest.raises(ConfigError, match="certificates of authorities"):
        tls_context(tmp_path, replace(HELD, authorities=authorities))


def test_a_key_is_the_same_until_it_has_a_certificate_or_was_refused(tmp_path):
    first, _ = next_key(tmp_path)
    assert next_key(tmp_path)[0] == first
    (tmp_path / FOLDER / "next.pem").write_text("half a ke")
    second, _ = next_key(tmp_path)
    assert second != first
    keep(tmp_path, HELD, second + b"certificate")
    third, _ = next_key(tmp_path)
    forget_next_key(tmp_path)
    fourth, _ = next_key(tmp_path)
    assert len({first, second, third, fourth}) == 4
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / FOLDER).iterdir()} == {0o600}
