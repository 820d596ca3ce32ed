"""The unit for systemd: sandboxed, and a watchdog that is petted by a driver that really turns."""

import queue
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from nightjar.edge_agent.__main__ import main
from nightjar.edge_agent.inbox import StopAsked
from nightjar.firmware_scripts.device_program import device_files
from tests.edge_agent.fakes import Phone

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "edge_agent" / "nightjar-agent.service"


def test_a_driver_that_hangs_gives_no_sign_of_life(tmp_path):
    phone = Phone(tmp_path)
    turns, hanging, free = [], threading.Event(), threading.Event()
    read = phone.conditions.read

    def hang_at_the_third_look():
        if len(turns) == 2:
            hanging.set()
            assert free.wait(60)
        return read()

    phone.conditions.read = hang_at_the_third_look
    inbox = queue.SimpleQueue()
    driver = phone.driver
    driver._inbox = inbox
    object.__setattr__(driver._ports, "turned", lambda: turns.append(1))
    object.__setattr__(driver._pace, "poll_s", 0.0)
    running = threading.Thread(target=driver.run)
    running.start()
    assert hanging.wait(60)
    before = len(turns)
    inbox.put(StopAsked())
    assert len(turns) == before == 2
    free.set()
    running.join(60)
    assert not running.is_alive()
    assert len(turns) > before


@pytest.mark.tflite
def test_the_real_agent_says_that_it_is_up_lives_and_ends(tmp_path, line):
    config = tmp_path / "agent.toml"
    config.write_text(
        'device = "d"\ndata_dir = "data"\n[broker]\nport = 9\n[conditions]\npoll_s = 0.05\nask_logind = false\n'
    )
    environment = {**line.environment, "WATCHDOG_USEC": "300000", "PATH": "/usr/bin:/bin"}
    line.socket.setblocking(True)
    line.socket.settimeout(60)
    command = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(config)]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL) as agent:
        try:
            said = [line.socket.recv(100) for _ in range(4)]
            assert said == [b"READY=1", b"STATUS=not connected to the broker", b"WATCHDOG=1", b"WATCHDOG=1"]
            agent.send_signal(signal.SIGTERM)
            while (said := line.socket.recv(100)) == b"WATCHDOG=1":
                pass
            assert said == b"STOPPING=1"
            assert agent.wait(30) == 0
        finally:
            agent.kill()


def test_the_printed_unit_starts_this_installation():
    done = CliRunner().invoke(main, ["service", "--config", "/etc/other.toml"])
    assert done.exit_code == 0
    assert f"\nExecStart={sys.executable} -P -m nightjar.edge_agent run --config %d/agent.toml\n" in done.output
    assert "\nLoadCredential=agent.toml:/etc/other.toml\n" in done.output
    assert "\nType=notify\n" in done.output
    assert re.search(r"\nWatchdogSec=\d+\n", done.output)


def test_every_command_looks_at_the_configuration_of_the_service_by_itself():
    of_the_service = re.search(r"^LoadCredential=agent.toml:(\S+)$", UNIT.read_text(), re.MULTILINE)[1]
    defaults = {
        name: str(option.default)
        for name, command in main.commands.items()
        for option in command.params
        if "--config" in option.opts and name != "complete"  # which asks the socket of the person's own agent
    }
    assert set(defaults.values()) == {of_the_service}
    assert {"run", "status", "doctor", "conditions", "wipe", "train-once", "service"} <= set(defaults)


def test_every_unit_that_runs_the_agent_reads_a_copy_of_the_settings_that_are_roots_alone():
    units = {name: text.decode() for name, text in device_files().items() if name.endswith(".service")}
    running = [text for text in units.values() if "/usr/local/bin/nightjar-agent " in text]
    assert len(running) == 3  # runs, enrols, tests itself
    for text in running:
        assert "\nLoadCredential=agent.toml:/etc/nightjar/agent.toml\n" in text
        assert re.search(r"^ExecStart=/usr/local/bin/nightjar-agent \S+ --config %d/agent.toml", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["enrol", "self-test"])
def test_what_runs_once_has_its_own_time_limit_on_a_slow_board_not_the_agents(name):
    unit = device_files()[f"device/units/nightjar-{name}.service"].decode()
    assert [line for line in unit.splitlines() if line.startswith("Timeout")] == ["TimeoutStartSec=900"]
