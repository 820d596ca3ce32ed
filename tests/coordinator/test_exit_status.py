"""Exit statuses as docs/operating.md documents them, of the real program; and completion in the shells."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightjar.coordinator.__main__ import cli
from nightjar.coordinator.mqtt.free_ports import free_ports
from tests.coordinator.model_folder import write_model

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
PROGRAM = Path(sys.executable).with_name("nightjar-coordinator")


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "nightjar.coordinator", *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    write_model(tmp_path / "model")
    (tmp_path / "coordinator.toml").write_text(
        'transport = "plain"\n[broker]\nkind = "external"\nport = 9\n[task]\nmodel = "model"\n'
    )
    return tmp_path


def test_the_page_and_the_help_name_the_same_statuses():
    on_page = re.search(r"^Exit status: (.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)[1]
    in_help = cli.help.split("Exit status:")[1]
    assert (
        set(re.findall(r"\b(\d+)\b", on_page)) == set(re.findall(r"\b(\d+)\b", in_help)) == {"0", "1", "2", "3", "130"}
    )


def test_0_when_done(folder):
    done = run(folder, "init", "--model=none", "other.toml")
    assert (done.returncode, done.stderr) == (0, "")


def test_1_when_doctor_found_a_fault(folder):
    done = run(folder, "doctor", NIGHTJAR_BROKER_HOST="127.0.0.1")
    assert done.returncode == 1
    assert "nothing answers at 127.0.0.1 port 9" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--config", "missing.toml"], "missing.toml"),
        (["round", "show", "none"], "none"),
        (["no-such-command"], "no-such-command"),
        (["serve", "--no-such-option"], "--no-such-option"),
        (["round", "list"], "there is no database"),
    ],
)
def test_2_when_a_file_an_option_or_an_argument_cannot_be_used(folder, arguments, said):
    done = run(folder, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_3_when_the_database_does_not_work(folder):
    (folder / "nightjar-coordinator").mkdir()
    (folder / "nightjar-coordinator" / "coordinator.sqlite").write_bytes(b"this is no database, and never was" * 100)
    done = run(folder, "round", "list")
    assert done.returncode == 3
    assert "the database" in done.stderr
    assert "Traceback" not in done.stderr


def test_130_after_ctrl_c(folder):
    """A command that is interrupted; ``serve`` takes ctrl-C for the end of its work, which is 0."""
    script = (
        "import signal, time, nightjar.coordinator.__main__ as program\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs us in the background ignores it\n"
        "@program.cli.command()\n"
        "def wait():\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(600)\n"
        "program.main()\n"
    )
    command = [sys.executable, "-c", script, "wait"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130


@pytest.mark.parametrize("frozen", [False, True])
def test_serve_ends_with_0_when_it_is_asked_to(folder, frozen):
    """Also if it was frozen just then, and any of its threads may be the one that is given the signal."""
    command = [sys.executable, "-m", "nightjar.coordinator", "serve"]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "NIGHTJAR_PORT": str(free_ports(1)[0])}
    log = folder / "log"
    with log.open("wb") as out, subprocess.Popen(command, cwd=folder, env=environment, stderr=out) as process:
        deadline = time.monotonic() + 120
        while b"coordinator_ready" not in log.read_bytes():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT) if frozen else (signal.SIGTERM,):
            process.send_signal(number)
        assert process.wait(120) == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shells_can_complete_commands_as_the_page_says(tmp_path, shell):
    assert f"_NIGHTJAR_COORDINATOR_COMPLETE={shell}_source nightjar-coordinator" in PAGE
    done = subprocess.run(
        [PROGRAM],
        env={"PATH": "/usr/bin:/bin", "_NIGHTJAR_COORDINATOR_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "_NIGHTJAR_COORDINATOR_COMPLETE" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("typed", "expected"), [(["ro"], "round"), (["round", "sh"], "show"), (["serve", "--con"], "--config")]
)
def test_commands_and_options_are_completed(typed, expected):
    words = " ".join(["nightjar-coordinator", *typed])
    done = subprocess.run(
        [PROGRAM],
        env={
            "PATH": "/usr/bin:/bin",
            "_NIGHTJAR_COORDINATOR_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(typed)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stdout.replace(",", "\n").split("\n"), done.stdout + done.stderr
