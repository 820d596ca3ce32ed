"""The container's and the compose file: what they name is there, what they set is what the coordinator reads.

Nothing is built here: there is no container engine where these tests run. ``test_started.py`` starts the services.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from nightjar.coordinator.config import BrokerKind
from nightjar.coordinator.config_file import load_config
from nightjar.wire.addresses import is_loopback
from tests.coordinator.model_folder import write_model

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
PAGE = (ROOT / "docs" / "deploying.md").read_text()
PREPARED = {
    "./coordinator.toml",
    "./model",
    "./certificates",
    "./prometheus/nightjar-token",
    "./prometheus/webhook-url",
}
"""What the page tells to prepare."""


def copied():
    lines = re.findall(r"^COPY (?!--from)(.+)$", CONTAINERFILE, re.MULTILINE)
    return {source.rstrip("/") for line in lines for source in line.split()[:-1]}


INSTRUCTIONS = {
    *("FROM", "ARG", "ENV", "RUN", "COPY", "WORKDIR", "USER"),
    *("VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"),
}
OF_A_SERVICE = {
    *("image", "build", "init", "read_only", "tmpfs", "cap_add", "cap_drop", "security_opt", "ulimits", "shm_size"),
    *("environment", "volumes", "networks", "ports", "depends_on", "healthcheck", "command", "user"),
    *("restart", "logging", "stop_grace_period"),
}


def test_the_container_file_has_only_instructions_that_there_are_and_copies_from_its_own_stages():
    lines = re.sub(r"\\\n", " ", CONTAINERFILE).splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    assert {first for first, *_ in words} <= INSTRUCTIONS
    assert words[0][0] == "FROM"
    stages = {line[3] for line in words if line[0] == "FROM" and len(line) == 4 and line[2] == "AS"}
    assert set(re.findall(r"--from=(\S+)", CONTAINERFILE)) == stages


def test_the_compose_file_has_only_keys_that_there_are():
    assert {key for key in COMPOSE if not key.startswith("x-")} == {"name", "services", "networks", "volumes"}
    for name, service in SERVICES.items():
        assert set(service) <= OF_A_SERVICE, name
        assert "image" in service, name
        for other, wanted in service["depends_on"].items() if isinstance(service.get("depends_on"), dict) else ():
            assert wanted["condition"] in {"service_started", "service_healthy"}
            assert wanted["condition"] == "service_started" or "healthcheck" in SERVICES[other], other


def test_what_is_copied_is_there_and_not_ignored():
    assert all((ROOT / source).exists() for source in copied())
    let_in = {
        line.removeprefix("!").rstrip("/") for line in (ROOT / ".dockerignore").read_text().splitlines() if "!" in line
    }
    assert let_in == copied()


@pytest.mark.slow
def test_every_package_that_the_coordinator_imports_is_copied():
    script = (
        "import sys, nightjar.coordinator.service, nightjar.coordinator.__main__\n"
        "import nightjar.coordinator.engine.worker_child\n"
        "import nightjar.coordinator.tls_service\n"
        "print(*{name.split('.')[1] for name in sys.modules if name.startswith('nightjar.')})"
    )
    from sys import executable

    done = subprocess.run([executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(done.stdout.split()) & ours <= copied()


def test_the_image_runs_as_an_ordinary_user_and_leaves_its_tools_behind():
    first, last = CONTAINERFILE.split("\nFROM ")[-2:]
    assert re.search(r"^USER nightjar$", last, re.MULTILINE)
    assert "pip install" not in last
    assert "apt-get" not in CONTAINERFILE
    assert "uninstall -y pip" in first


def test_the_versions_of_python_are_those_of_the_project():
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert wanted == ">=3.11"
    assert set(re.findall(r"python:(\d+\.\d+)-slim", CONTAINERFILE)) == {"3.11"}


@pytest.mark.parametrize("tensorflow", ["tensorflow", "tensorflow-gpu"])
def test_each_kind_of_tensorflow_has_its_requirements(tensorflow):
    assert tensorflow in CONTAINERFILE
    assert (ROOT / "requirements" / f"{tensorflow}.txt").exists()


def mounts():
    return [
        volume.split(":")[0]
        for service in SERVICES.values()
        for volume in service.get("volumes", [])
        if volume[0] == "."
    ]


def test_what_is_mounted_is_there_or_the_page_says_how_to_make_it():
    for source in mounts():
        assert source in PREPARED or (DEPLOY / source).exists(), source
    for source in PREPARED:
        assert f"`{source.removeprefix('./')}`" in PAGE, source


def test_volumes_networks_and_services_that_are_used_are_declared():
    used = {v.split(":")[0] for s in SERVICES.values() for v in s.get("volumes", []) if v[0] != "."}
    assert used == set(COMPOSE["volumes"])
    assert {network for s in SERVICES.values() for network in s["networks"]} == set(COMPOSE["networks"])
    assert {other for s in SERVICES.values() for other in s.get("depends_on", ())} <= set(SERVICES)


def test_only_what_encrypts_can_be_reached_from_elsewhere():
    open_to_all = {
        port: name
        for name, service in SERVICES.items()
        for port in service.get("ports", [])
        if not port.startswith("127.0.0.1:")
    }
    assert open_to_all == {"80:80": "nginx", "443:443": "nginx", "8443:8443": "nginx", "8883:8883": "mosquitto"}
    assert COMPOSE["networks"]["inside"]["internal"]
    assert set(SERVICES["coordinator"]["networks"]) == {"inside"}


def test_images_have_a_version():
    for name, service in SERVICES.items():
        if name != "coordinator":
            assert re.search(r":v?\d+(\.\d+)*(-alpine)?$", service["image"]), name


def test_secrets_come_from_the_environment_and_the_page_names_them():
    text = (DEPLOY / "compose.yaml").read_text()
    wanted = set(re.findall(r"\$\{(\w+):\?", text))
    assert wanted == {"PUBLIC_NAME", "POSTGRES_PASSWORD", "BROKER_PASSWORD", "GRAFANA_PASSWORD"}
    assert all(name in PAGE for name in wanted)


def test_the_coordinator_understands_its_environment(tmp_path):
    write_model(tmp_path / "model")
    example = (ROOT / "coordinator" / "example.toml").read_text()
    (tmp_path / "coordinator.toml").write_text(example)
    environment = {
        name: re.sub(r"\$\{.*?\}", "secret", str(value))
        for name, value in SERVICES["coordinator"]["environment"].items()
    }
    config = load_config(tmp_path / "coordinator.toml", environment)
    assert config.tls
    assert not is_loopback(config.host)
    assert config.page_host == config.host
    assert config.broker.kind is BrokerKind.EXTERNAL
    assert config.broker.password == "secret"
    assert config.database_url == "postgresql://nightjar:secret@postgresql/nightjar"
    assert config.page_port == int(re.search(r"EXPOSE (\d+)", CONTAINERFILE)[1])


def test_the_broker_can_read_what_the_coordinator_writes():
    uid = re.search(r"--uid (\d+)", CONTAINERFILE)[1]
    assert SERVICES["mosquitto"]["user"] == f"{uid}:{uid}"
