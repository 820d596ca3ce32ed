"""The units for systemd: sandboxed, and of one mind with the program and with each other."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.broker import EXTERNAL

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SERVICE, SOCKET = (DEPLOY / f"nightjar-coordinator.{kind}" for kind in ("service", "socket"))


def analyze(*arguments: str) -> str:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt install systemd")
    done = subprocess.run(
        ["systemd-analyze", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )
    return done.stdout + done.stderr


def settings(unit: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))


def test_systemd_understands_every_line(tmp_path):
    for unit in (SERVICE, SOCKET):
        (tmp_path / unit.name).write_text(
            unit.read_text().replace("/opt/nightjar/bin/nightjar-coordinator", "/bin/true")
        )
    said = analyze("verify", "--man=no", str(tmp_path / SERVICE.name), str(tmp_path / SOCKET.name))
    # A machine without a systemd that runs has no other units to find.
    ours = [line for line in said.splitlines() if "nightjar" in line and "not found" not in line]
    assert ours == []


def test_the_socket_listens_where_a_fresh_configuration_says(tmp_path):
    example = (DEPLOY.parent / "coordinator" / "example.toml").read_text()
    host = re.search(r'^host = "(.*)"', example, re.MULTILINE)[1]
    port = re.search(r"^port = (\d+)", example, re.MULTILINE)[1]
    assert settings(SOCKET)["ListenStream"] == f"{host}:{port}"


def test_a_fault_in_the_configuration_is_not_tried_again():
    from nightjar.wire.errors import ConfigError

    assert settings(SERVICE)["RestartPreventExitStatus"] == str(ConfigError.exit_status)


SYSTEMD_GIVES_UP = 10.0, 5
"""Defaults of StartLimitIntervalSec and StartLimitBurst: more starts within this time are the last."""


@pytest.mark.parametrize(
    "unit",
    [unit for unit in sorted(ROOT.glob("*/**/nightjar-*.service")) if "Restart" in settings(unit)],
    ids=lambda unit: f"{unit.parent.name}/{unit.stem}",
)
def test_a_start_that_fails_for_hours_is_tried_until_it_succeeds(unit):
    chosen, (within_s, starts) = settings(unit), SYSTEMD_GIVES_UP
    assert chosen.get("StartLimitIntervalSec") == "0" or starts * float(chosen["RestartSec"]) > within_s


def test_the_page_names_the_units_and_the_broker_that_a_restart_needs():
    page = (DEPLOY.parent / "docs" / "deploying.md").read_text()
    assert SERVICE.name in page
    assert SOCKET.name in page
    assert f'kind = "{EXTERNAL}"' in page
