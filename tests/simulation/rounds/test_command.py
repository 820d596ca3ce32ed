"""The command as a person and a pipe see it."""

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from nightjar.simulation.commands import main
from nightjar.simulation.rounds import command as command_module
from nightjar.simulation.rounds.command import rounds
from nightjar.simulation.rounds.observer import Observer
from nightjar.simulation.rounds.result import MEASURED

SMALL = ["--devices", "60", "--rounds", "2"]
REQUIRED = {
    "rounds_committed", "rounds_abandoned", "dropout_rate", "reports_accepted", "reports_duplicate", "reports_late",
    "reports_invalid", "reports_lost", "reports_counted_twice", "peak_messages_per_s", "wall_seconds",
    "peak_memory_mb", "seed",
}  # fmt: skip


@pytest.fixture
def fails(monkeypatch, capsys):
    """Run the command where it must fail: its exit status and what it said."""

    def fail(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["simulation", "rounds", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "Traceback" not in printed.err
        return ended.value.code, " ".join(printed.err.split())

    return fail


def test_json_is_alone_on_standard_output_and_progress_is_in_plain_lines():
    run = CliRunner().invoke(rounds, [*SMALL, "--json"])
    assert run.exit_code == 0
    assert run.stdout.count("\n") == 1
    assert json.loads(run.stdout).keys() >= REQUIRED
    assert run.stderr.splitlines() == ["60 phones, 2 rounds, seed 1", "rounds: 1 of 2", "rounds: 2 of 2"]


def test_without_json_a_table_is_printed():
    run = CliRunner().invoke(rounds, SMALL)
    assert "rounds committed" in run.stdout


def test_a_plot_is_written(tmp_path):
    run = CliRunner().invoke(rounds, [*SMALL, "--json", "--plot", str(tmp_path / "rounds.png")])
    assert run.exit_code == 0
    assert (tmp_path / "rounds.png").read_bytes().startswith(b"\x89PNG")


def test_a_hunt_says_which_seeds_had_defects():
    run = CliRunner().invoke(rounds, [*SMALL, "--faults", "all", "--hunt", "2", "--seed", "5", "--json"])
    assert run.exit_code == 0, run.stderr
    result = json.loads(run.stdout)
    assert (result["seeds"], result["seeds_with_defects"]) == (2, [])
    assert result["rounds_committed"] > 0


def test_a_defect_is_said_and_ends_with_status_1(monkeypatch):
    monkeypatch.setattr(Observer, "counted_twice", 1)
    one = CliRunner().invoke(rounds, [*SMALL, "--json"])
    many = CliRunner().invoke(rounds, [*SMALL, "--hunt", "1", "--json"])
    assert (one.exit_code, many.exit_code) == (1, 1)
    assert "wrong: 1 reports were counted twice" in one.stderr
    assert "wrong: seed 1: 1 reports were counted twice" in many.stderr
    assert json.loads(many.stdout)["seeds_with_defects"] == [1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--devices", "-5"], "-5 is not in the range"),
        (["--rounds", "0"], "0 is not in the range"),
        (["--seed", "-1"], "-1 is not in the range"),
        (["--severity", "-1"], "-1.0 is not in the range"),
        (["--devices", "many"], "'many' is not a valid integer"),
        (["--codec", "gzip"], "topk-4"),
        (["--faults", "drop,flood"], "got flood"),
        (["--faults", "flood"], "coordinator-restart, broker-restart"),
        (["--availability", "nowhere.csv"], "nowhere.csv: the file of availability windows does not exist"),
        (["--hunt", "-3"], "-3 is not in the range"),
        (["--hunt", "3", "--plot", "rounds.png"], "give only one of them"),
        (["--plot", "rounds.txt"], "ending in .png"),
        (["--plot", "nowhere/rounds.png"], "existing folder"),
        (["--mode", "buffered", "--privacy", "dp"], "--mode buffered is for --privacy none"),
        (["--canaries", "0.3", "--privacy", "secure-sum"], "--canaries is for --privacy none"),
        (["--concurrency", "5"], "--concurrency is for --mode buffered"),
    ],
)
def test_a_bad_option_is_refused_with_what_was_expected(fails, arguments, said):
    status, text = fails(*arguments)
    assert status == 2
    assert said in text


def test_a_malformed_file_is_refused_with_the_line(fails, tmp_path):
    path = tmp_path / "windows.csv"
    path.write_text(
        "device,trace_start_s,trace_end_s,window_start_s,window_end_s\n1,0,90000,10,20\n1,0,90000,thirty,40\n"
    )
    status, text = fails("--availability", str(path))
    assert status == 2
    assert f"{path}, line 3" in text
    assert "thirty" in text


@pytest.mark.slow
def test_the_same_seed_gives_the_same_json_in_another_process_with_other_hashes():
    results = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        arguments = [
            sys.executable,
            "-m",
            "nightjar.simulation",
            "rounds",
            *SMALL,
            "--faults",
            "all",
            "--severity",
            "5",
            "--json",
        ]
        run = subprocess.run(arguments, env=environment, capture_output=True, check=True, timeout=300)
        results.append({key: value for key, value in json.loads(run.stdout).items() if key not in MEASURED})
    assert results[0] == results[1]


def test_ctrl_c_ends_it_with_one_line_and_nothing_on_standard_output(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(command_module, "simulate", interrupted)
    run = CliRunner().invoke(rounds, ["--json"])
    assert run.exit_code == 130
    assert (run.stdout, run.stderr.splitlines()[-1]) == ("", "interrupted: no result")


def test_a_simulation_does_not_load_the_demos_database():
    loads = "import sys; from nightjar.simulation.commands import commands as c; c.get_command(None, 'rounds')"
    command = [sys.executable, "-c", f"{loads}; sys.exit('sqlalchemy' in sys.modules)"]
    assert subprocess.run(command, check=False).returncode == 0
