"""The deployment of docs/deploying.md, started: its commands, as they stand there, and its files, in namespaces.

Started are the coordinator, PostgreSQL, mosquitto, nginx, Prometheus and Alertmanager; Grafana comes from no package
registry. Devices are outside, where only the published ports are.
"""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.deploy import compose
from tests.deploy.certificates import write_certificate
from tests.deploy.network import Networks
from tests.processes import end
from tests.skips import NOT_ALLOWED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deploying.md").read_text()
NAME = "learn.example.org"
WITHIN_S = 5.0
"""What the page promises of a revocation."""
TRIES = 3
"""A machine that does ten other things adds seconds to one of them."""
PATIENCE_S = 300.0
SMALL = {"task.goal": "2", "task.minimum": "2", "task.over_selection": "1.0", "limits.household": "true"}
"""Two devices instead of twenty."""

pytestmark = [
    *(pytest.mark.long, pytest.mark.broker, pytest.mark.postgresql, pytest.mark.tensorflow, pytest.mark.tflite),
    pytest.mark.xdist_group("deployment"),
]


def blocks() -> list[str]:
    """The page's commands: start, claim, forget, back up."""
    return re.findall(r"```sh\n(.*?)```", PAGE.split("## Containers")[1].split("\n## ")[0], re.DOTALL)


class Site:
    """A checkout's ``deploy/`` with what the page tells to prepare, and a shell in it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder / "deploy", folder / "state"
        shutil.copytree(ROOT / "deploy", self.folder)
        self.state.mkdir()
        (folder / "bin").mkdir()
        compose.install(folder / "bin")
        path = f"{folder / 'bin'}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, compose.STATE: str(self.state), "PYTHONPATH": str(ROOT)}
        self._prepare()
        self.deployment = compose.Deployment(self.folder, self.state)

    def _prepare(self) -> None:
        passwords = "".join(f"{each}_PASSWORD=of{each}\n" for each in ("POSTGRES", "BROKER", "GRAFANA"))
        (self.folder / ".env").write_text(f"PUBLIC_NAME={NAME}\n{passwords}")
        chain = write_certificate(self.folder / "certificates", NAME)
        (self.folder / "prometheus" / "webhook-url").write_text("http://127.0.0.1:1/\n")
        (self.folder / "prometheus" / "nightjar-token").touch()
        alertmanager = self.folder / "prometheus" / "alertmanager.yml"  # Debian's reads the address from no file yet
        text = alertmanager.read_text()
        alertmanager.write_text(text.replace("url_file: /etc/alertmanager/webhook-url", "url: http://127.0.0.1:1/"))
        export = re.search(r"`(python -m nightjar.models export .*?)`", PAGE)[1]
        corpus = {"--model gboard": "--model tiny --corpus personas --passes 0"}
        self.run(f"cd .. && {_changed(export, corpus)}")
        configure = re.search(r"`(nightjar-coordinator init .*?)`", PAGE)[1]
        settings = "".join(f" --set {name}={value}" for name, value in SMALL.items())
        self.run(f"cd .. && {configure}{settings} && chmod 644 deploy/coordinator.toml")
        chain.chmod(0o644)

    def run(self, commands: str) -> str:
        """What the commands print; they run in ``deploy/``."""
        how = {"cwd": self.folder, "env": self._environment, "capture_output": True, "text": True}
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], check=False, **how)
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def coordinator(self, command: str) -> str:
        return self.run(f"docker compose exec -T coordinator nightjar-coordinator {command}")

    def outside(self, *command: str) -> str:
        """What a command on a device's machine prints."""
        done = self.deployment.running(compose.OUTSIDER).execute(list(command), capture_output=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def enrol(self, device: str) -> None:
        """Enrol a device with the page's commands."""
        claim = _changed(
            blocks()[1], {"pi-kitchen": device, "create kitchen": f"create {device}", "claim.json": "c.json"}
        )
        self.run(claim)
        home = self.state / "volumes" / compose.OUTSIDER
        (self.folder / "c.json").rename(home / f"{device}.json")
        emulated = f'[emulator]\nmessages = "{ROOT / "README.md"}"\nseed = {len(device)}\n'
        limits = "conditions.hysteresis_s = 2.0\nlimits.household = true\n"
        (home / f"{device}.toml").write_text(f'data_dir = "{device}"\n{limits}{emulated}')
        self.outside("nightjar-agent", "enrol", "--config", f"{device}.toml", "--claim", f"{device}.json")

    def in_background(self, *command: str) -> subprocess.Popen[bytes]:
        """A command on a device's machine that goes on."""
        return self.deployment.running(compose.OUTSIDER).execute_in_background(list(command), self.state / "phones.log")

    def logs(self) -> str:
        return "\n".join(f"== {path.stem}\n{path.read_text()[-2000:]}" for path in sorted(self.state.glob("*.log")))

    def prometheus(self, path: str) -> dict:
        """The answer of Prometheus, asked beside it."""
        done = self.deployment.running("prometheus").execute(
            ["curl", "--silent", "--get", f"http://127.0.0.1:9090/api/v1/{path.split('?')[0]}"]
            + [each for part in path.split("?")[1:] for each in ("--data-urlencode", part)],
            capture_output=True,
        )
        return json.loads(done.stdout)


def _changed(text: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text


def wait_for(holds, site: Site):
    until_s = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < until_s, site.logs()
        time.sleep(0.5)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip(f"{NOT_ALLOWED} make containers: not root")
    if lacking := compose.missing_programs():
        pytest.skip(f"not installed: {', '.join(lacking)}")
    made = Site(tmp_path_factory.mktemp("site"))
    try:
        start = blocks()[0].replace("cd deploy\n", "")
        made.started = made.run(start)
        yield made
    finally:
        made.deployment.down()


def test_the_pages_commands_start_a_deployment_in_which_the_doctor_finds_no_fault(site):
    assert "fault" not in site.started
    found = json.loads(site.coordinator("doctor --deployment --json"))
    levels = {(each["category"], each["level"]) for each in found}
    assert levels == {
        *((name, "ok") for name in ("service", "clock", "certificates", "broker", "disk")),
        ("certificates", "warning"),  # the public one, which this test signed itself, ends tomorrow
        ("backup", "warning"),
    }


def test_devices_enrol_train_a_round_and_people_read_of_it(site):
    for device in ("phone-1", "phone-two"):
        site.enrol(device)
    phones = site.in_background("nightjar-agent", "emulate", "phone-1.toml", "phone-two.toml", "--artifacts", "shared")
    try:
        token = (site.folder / "prometheus" / "nightjar-token").read_text().strip()
        people = ["curl", "--silent", "--cacert", "chain.pem", "--header", f"Authorization: Bearer {token}"]
        shutil.copy(
            site.folder / "certificates" / "fullchain.pem", site.state / "volumes" / compose.OUTSIDER / "chain.pem"
        )
        counters = f"https://{NAME}/api/v1/counters"
        wait_for(lambda: json.loads(site.outside(*people, counters))["rounds_committed"], site)
    finally:
        end(phones, 60)
    known = json.loads(site.coordinator("enrolment list --json"))
    assert {each["address"] for each in known} == {Networks.HOST}, "named by nginx, and not nginx itself"


def test_prometheus_reads_the_coordinator_and_evaluates_every_rule_and_panel(site):
    up = 'query?query=up{job="nightjar"} == 1'
    wait_for(lambda: site.prometheus(up)["data"]["result"], site)
    wait_for(lambda: site.prometheus("alertmanagers")["data"]["activeAlertmanagers"], site)
    rules = [rule for group in site.prometheus("rules")["data"]["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    assert all(rule["health"] != "err" for rule in rules)
    dashboard = json.loads((site.folder / "grafana" / "nightjar.json").read_text())
    texts = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for text in texts:
        answer = site.prometheus(f"query?query={text.replace('$instance', '.*').replace('$__rate_interval', '5m')}")
        assert answer["status"] == "success", (text, answer)
    alerts = yaml.safe_load((site.folder / "prometheus" / "alerts.yml").read_text())
    recorded = {rule["record"] for group in alerts["groups"] for rule in group["rules"] if "record" in rule}
    named = set(re.findall(r"nightjar_\w+", json.dumps([*texts, alerts])))
    named.remove("nightjar_disk_full_in_days")  # known after a week

    def exported() -> set[str]:
        names = set(site.prometheus("metadata")["data"])
        return names | {f"{name}_total" for name in names}

    wait_for(lambda: named <= exported() | recorded, site)  # a version is measured a while after its round


def test_who_is_outside_reaches_the_published_ports_alone(site):
    script = (
        "import socket, sys\n"
        f"for port in range(1, 10000):\n    line = socket.socket()\n    line.settimeout(5)\n"
        f"    if not line.connect_ex(('{NAME}', port)): print(port)\n    line.close()\n"
    )
    assert site.outside("python", "-c", script).split() == ["80", "443", "8443", "8883"]


def seconds_until_out(site: Site, device: str) -> float:
    """From when the revocation was recorded until the device is out, after the page's command."""
    site.enrol(device)
    probe, log = site.in_background("python", "-m", "tests.deploy.probe", device), site.state / "phones.log"
    try:
        wait_for(lambda: "connected" in log.read_text(), site)
        site.run(_changed(blocks()[2], {"pi-kitchen": device}))
        assert probe.wait(PATIENCE_S) == 0, log.read_text()
    finally:
        probe.kill()
    audited = json.loads(site.coordinator("audit --json"))
    recorded_s = next(each["at_s"] for each in audited if (each["action"], each["target"]) == ("revoke", device))
    return float(log.read_text().split()[-1]) - recorded_s


def test_a_device_that_is_forgotten_by_the_pages_command_is_out_within_five_seconds(site):
    took_s: list[float] = []
    while len(took_s) < TRIES and min(took_s, default=WITHIN_S) >= WITHIN_S:
        took_s.append(seconds_until_out(site, f"stolen-{len(took_s)}"))
        print(f"out after {took_s[-1]:.1f} s")
    assert min(took_s) < WITHIN_S, took_s


def test_after_the_pages_backup_the_doctor_misses_none(site):
    site.run(blocks()[3])
    assert (site.folder / "nightjar.dump").read_bytes().startswith(b"PGDMP")
    found = json.loads(site.coordinator("doctor --deployment --json"))
    assert [each["level"] for each in found if each["category"] == "backup"] == ["ok"]


def test_a_broker_that_restarts_is_found_again(site):
    site.run("docker compose restart mosquitto")
    wait_for(lambda: "broker_connected" in site.deployment.log("coordinator").split("broker_lost")[-1], site)
    site.deployment.wait("coordinator")
    for name in site.deployment.services:
        assert "Traceback" not in site.deployment.log(name)
