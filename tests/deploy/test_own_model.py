"""docs/your-own-model.md, word for word: in an empty folder, with the plug-in installed as the page says."""

import json
import os
import re
import time

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from tests.deploy.installed import ROOT, copy_tracked, make_environment, make_wheel
from tests.deploy.terminal import MINUTES_S, Terminal, fetch

pytestmark = [pytest.mark.verify, pytest.mark.broker, pytest.mark.tensorflow, pytest.mark.tflite]

PAGE = (ROOT / "docs" / "your-own-model.md").read_text()


def written():
    """The four blocks of the page."""
    found = re.findall(r"```(toml|python|sh)\n(.*?)```", PAGE, re.DOTALL)
    assert [kind for kind, _ in found] == ["toml", "python", "toml", "sh"]
    return [text for _, text in found]


@pytest.fixture
def environment(tmp_path):
    """Variables of a shell in which an environment with Nightjar is active; the ports may be taken on this machine."""
    wheel = make_wheel(copy_tracked(tmp_path / "source"), tmp_path / "dist")
    make_environment(tmp_path / "environment", wheel, pip=True)
    port, page, broker = free_ports(3)
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{tmp_path / 'environment' / 'bin'}:{os.environ['PATH']}"
    ports = {"NIGHTJAR_PORT": port, "NIGHTJAR_PAGE_PORT": page, "NIGHTJAR_BROKER_PORT": broker}
    return rest | {"PATH": path} | {name: str(number) for name, number in ports.items()}


@pytest.fixture
def folder(tmp_path):
    package, program, settings, _ = written()
    assert len(program.splitlines()) <= 60
    made = tmp_path / "temperatures"
    made.mkdir()
    (made / "pyproject.toml").write_text(package)
    (made / "temperatures.py").write_text(program)
    (made / "coordinator.toml").write_text(settings)
    return made


def test_the_page_leads_to_a_committed_round(folder, environment):
    page = environment["NIGHTJAR_PAGE_PORT"]
    commands = written()[-1].replace("8081", page)
    began_s = time.monotonic()
    with Terminal(folder, commands + "\nwait", environment) as terminal:
        url = f"http://127.0.0.1:{page}"
        while not json.loads(fetch(f"{url}/api/v1/counters") or "{}").get("rounds_committed", 0):
            assert terminal.process.poll() is None, terminal.log.read_text()[-3000:]
            assert time.monotonic() - began_s < MINUTES_S, terminal.log.read_text()[-3000:]
            time.sleep(0.5)
        shown = fetch(f"{url}/tasks/temperatures")
    assert "<dt>Task type</dt><dd>temperatures: within 1 °C, within 3 °C</dd>" in shown
    assert "Cannot take part" not in shown
    log = terminal.log.read_text()
    assert "task type temperatures: temperatures 1.0" in log
    assert "Traceback" not in log


def test_its_loop_ends_when_the_server_has_died(folder, environment):
    (folder / "coordinator.toml").write_text("nonsense = 1\n")
    lines = written()[-1].replace("8081", environment["NIGHTJAR_PAGE_PORT"]).splitlines()
    begin = next(n for n, line in enumerate(lines) if "serve" in line)
    with Terminal(folder, "\n".join(lines[begin : begin + 2]), environment) as terminal:
        terminal.process.wait(60)
    assert "nonsense" in terminal.log.read_text()
