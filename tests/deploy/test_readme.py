"""A new user who has nothing but the README: its commands, as they stand there, lead to a committed round.

Measured is the time from a finished set-up (the environment is linked in, so downloads do not count) to the round.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from coordinator.mqtt.free_ports import free_ports

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
MINUTES_S = 300.0

pytestmark = [pytest.mark.long, pytest.mark.broker, pytest.mark.tensorflow, pytest.mark.tflite]


def blocks():
    """What is to be typed in the first terminal, and in the second."""
    section = README.split("## Running the parts")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


class Terminal:
    def __init__(self, folder, commands, environment):
        self.log = folder / f"log-{len(commands)}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["bash", "-e", "-c", commands],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGINT)  # ctrl-C
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(60)


@pytest.fixture
def folder(tmp_path):
    """The checkout as it is after ``make setup``."""
    (tmp_path / "README.md").symlink_to(ROOT / "README.md")
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    return tmp_path


def fetch(url):
    with contextlib.suppress(OSError, http.client.HTTPException), urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read().decode()
    return ""


def test_from_nothing_to_a_committed_round_by_the_readme_alone(folder):
    first, second = blocks()
    # The ports are taken on a machine on which somebody works; nothing else is changed.
    port, page, broker = free_ports(3)
    url = f"http://127.0.0.1:{page}"
    first = first.replace("NIGHTJAR_PAGE_PORT=8081", f"NIGHTJAR_PAGE_PORT={page}")
    assert str(page) in first
    assert "http://127.0.0.1:8081/" in README
    environment = {
        **os.environ,
        "NIGHTJAR_PORT": str(port),
        "NIGHTJAR_BROKER_PORT": str(broker),
    }
    began_s = time.monotonic()

    def wait_for(holds, terminals):
        while not holds():
            logs = "\n".join(terminal.log.read_text()[-3000:] for terminal in terminals)
            assert all(terminal.process.poll() is None for terminal in terminals), logs
            assert time.monotonic() - began_s < MINUTES_S, f"no committed round after five minutes\n{logs}"
            time.sleep(0.5)

    with Terminal(folder, first, environment) as coordinator:
        wait_for(lambda: fetch(f"{url}/healthz") == '{"ok":true,"reasons":[]}', [coordinator])
        with Terminal(folder, second, environment) as phones:

            def committed():
                return json.loads(fetch(f"{url}/api/v1/counters") or "{}").get("rounds_committed", 0)

            wait_for(committed, [coordinator, phones])
            took_s = time.monotonic() - began_s
            wait_for(lambda: "committed" in fetch(f"{url}/"), [coordinator, phones])
    print(f"a committed round after {took_s:.0f} s")
    assert "Traceback" not in coordinator.log.read_text() + phones.log.read_text()


def test_the_page_on_a_model_of_ones_own_leads_to_a_committed_round(tmp_path):
    text = (ROOT / "docs" / "your-own-model.md").read_text()
    port, page, broker = free_ports(3)
    written = re.findall(r"```(toml|python|sh)\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in written] == ["toml", "python", "toml", "sh"]
    (_, package), (_, program), (_, settings), (_, commands) = written
    assert len(program.splitlines()) <= 60
    (tmp_path / "pyproject.toml").write_text(package)
    (tmp_path / "temperatures.py").write_text(program)
    (tmp_path / "coordinator.toml").write_text(settings)
    environment = {
        **os.environ,
        "PATH": f"{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "NIGHTJAR_PORT": str(port),
        "NIGHTJAR_PAGE_PORT": str(page),
        "NIGHTJAR_BROKER_PORT": str(broker),
    }
    began_s = time.monotonic()
    with Terminal(tmp_path, commands.replace("8081", str(page)) + "\nwait", environment) as terminal:
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
