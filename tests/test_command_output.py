"""What the programs do where their output takes nothing; for the agent's see ``tests/edge_agent``."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = ("coordinator", "firmware_scripts", "simulation", "models")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_full_disk_is_told_in_one_line(program):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", f"nightjar.{program}", "--help"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1
