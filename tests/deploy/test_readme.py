"""A new user who has nothing but the README, in an empty folder: its commands, as they stand there.

Part of ``make verify``: the environment is made as a new user makes it. ``make test`` itself is left out.
"""

import json
import os
import re
import subprocess
import time

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from tests.deploy.installed import ROOT
from tests.deploy.terminal import MINUTES_S, Terminal, fetch

README = (ROOT / "README.md").read_text()


pytestmark = [pytest.mark.verify, pytest.mark.timeout(3600)]


def blocks():
    """What is to be typed in the first terminal, and in the second."""
    section = README.split("## Running the parts")[1].split("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """What ``git clone`` makes, and then ``make setup``."""
    folder = tmp_path_factory.mktemp("new") / "nightjar"
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    done = subprocess.run(["make", "setup"], cwd=folder, env=variables(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    silent = [line for line in done.stderr.splitlines() if line.startswith("setup: ")]
    assert len(silent) > 5, "it says every few seconds how far it is"
    return folder


def variables(**more):
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | more


def test_the_demo_commits_its_first_round_within_forty_seconds_of_its_set_up(clone):
    began_s = time.monotonic()
    command = ["make", "demo", "ARGS=--replay --exit"]
    log = []
    with subprocess.Popen(command, cwd=clone, env=variables(), stdout=subprocess.PIPE, text=True) as demo:
        first_s = None
        for line in demo.stdout or ():
            log.append(line)
            if first_s is None and re.search(r"round +1\b", line):
                first_s = time.monotonic() - began_s
    print("".join(log))
    assert demo.returncode == 0
    assert first_s is not None
    assert first_s <= 40


def test_from_nothing_to_a_committed_round_by_the_readme_alone(clone):
    first, second = blocks()
    # The ports are taken on a machine on which somebody works; nothing else is changed.
    port, page, broker = free_ports(3)
    url = f"http://127.0.0.1:{page}"
    first = first.replace("NIGHTJAR_PAGE_PORT=8081", f"NIGHTJAR_PAGE_PORT={page}")
    assert str(page) in first
    assert "http://127.0.0.1:8081/" in README
    environment = variables(NIGHTJAR_PORT=str(port), NIGHTJAR_BROKER_PORT=str(broker))
    began_s = time.monotonic()

    def wait_for(holds, terminals):
        while not holds():
            logs = "\n".join(terminal.log.read_text()[-3000:] for terminal in terminals)
            assert all(terminal.process.poll() is None for terminal in terminals), logs
            assert time.monotonic() - began_s < MINUTES_S, f"no committed round after five minutes\n{logs}"
            time.sleep(0.5)

    with Terminal(clone, first, environment) as coordinator:
        wait_for(lambda: fetch(f"{url}/healthz") == '{"ok":true,"reasons":[]}', [coordinator])
        with Terminal(clone, second, environment) as phones:

            def committed():
                return json.loads(fetch(f"{url}/api/v1/counters") or "{}").get("rounds_committed", 0)

            wait_for(committed, [coordinator, phones])
            took_s = time.monotonic() - began_s
            wait_for(lambda: "committed" in fetch(f"{url}/"), [coordinator, phones])
    print(f"a committed round after {took_s:.0f} s")
    assert "Traceback" not in coordinator.log.read_text() + phones.log.read_text()
