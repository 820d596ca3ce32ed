import socket
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.coordinator.config_file import load_config
from nightjar.edge_agent.config import load
from nightjar.models.ngram import NgramRecall
from nightjar.simulation.demo.configuration import (
    DEFAULTS,
    DemoPorts,
    DemoSettings,
    coordinator_table,
    free_ports,
    phone_table,
    write_toml,
)
from nightjar.simulation.demo.preparation import prepare
from nightjar.wire.errors import ConfigError

PORTS = DemoPorts(8080, 8443, 8700, 18830, 18831)


def settings(**changes):
    values = {"phones": 8, "rounds": 5, "model": "tiny", "corpus": "personas", "seed": 7, "codec": "topk-8"}
    return DemoSettings(**(values | {"density": 0.05} | changes))


@pytest.mark.parametrize("model", sorted(DEFAULTS))
def test_both_sides_accept_what_the_demo_tells_them(tmp_path, model):
    (tmp_path / "model").mkdir()
    (tmp_path / "held_out.tsv").write_text("user\ttext\na\tb\n")
    table = coordinator_table(settings(model=model), DEFAULTS[model], PORTS, NgramRecall(0.1, 0.2, 3))
    config = load_config(write_toml(tmp_path / "coordinator.toml", table), {})
    assert config.task.minimum <= config.task.goal <= 8
    assert config.task.selection_deadline_s == 0.4 * DEFAULTS[model].day_s, "longer than all phones are in use"
    for number in range(8):
        table = phone_table(settings(plain=True), number, PORTS, 1440.0)
        phone = load(write_toml(tmp_path / "agent.toml", table), {})
        assert phone.keyboard.enabled is (number == 0)
        assert phone.emulator is not None


def test_two_phones_do_not_live_in_step():
    a, b = (phone_table(settings(), number, PORTS, 1440.0)["emulator"] for number in (0, 1))
    assert a["seed"] != b["seed"]


def test_phones_with_certificates_are_told_where_to_go_when_they_enrol():
    assert {"coordinator_url", "broker"} & phone_table(settings(), 0, PORTS, 1440.0).keys() == set()


def test_a_second_demo_takes_no_port_that_the_first_may_be_about_to_use():
    def start(then):
        ask = f"from nightjar.simulation.demo.configuration import free_ports; print(free_ports(0), flush=True); {then}"
        return subprocess.Popen([sys.executable, "-c", ask], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start("input()") as first:
        assert first.stdout.readline().startswith("DemoPorts(")
        with start("") as second:
            assert second.stdout.readline().strip() != repr(PORTS)
        first.communicate("\n")


def test_the_three_ports_differ_and_a_taken_one_is_refused_by_name():
    ports = free_ports(0)
    assert len({ports.page, ports.keyboard, ports.broker}) == 3
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=str(taken.getsockname()[1])):
            free_ports(taken.getsockname()[1])


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy():
    with pytest.raises(ConfigError, match=r"--folder /proc/x cannot be used: .*; give a folder that can be written"):
        prepare(settings(folder=Path("/proc/x")), None)


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path):
    (tmp_path / "precious").write_text("x")
    with pytest.raises(ConfigError, match="not empty"):
        prepare(settings(folder=tmp_path), None)
    assert (tmp_path / "precious").read_text() == "x"
