"""A process that writes a card is killed with SIGKILL at each of its operations; what the file then holds is read."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.core.plan import HEAD_BYTES

ROOT = Path(__file__).parents[3]
IMAGE = random.Random(11).randbytes(HEAD_BYTES + 2**20 + 4_321)
OLD = b"\xee" * (len(IMAGE) + 100_000)


@pytest.mark.slow
def test_a_writer_killed_at_any_operation_leaves_a_card_that_does_not_start(tmp_path):
    image, target = tmp_path / "pi.img", tmp_path / "card"
    image.write_bytes(IMAGE)
    operation, killed = 0, 0
    while True:
        target.write_bytes(OLD)
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("killed_writer.py"), image, target, str(operation)],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        held = target.read_bytes()
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert "success" not in done.stdout
        if held[:512] == IMAGE[:512]:
            # Killed while the head was read back: everything is there, and nobody was told.
            assert held[: len(IMAGE)] == IMAGE
        else:
            killed += 1
        operation += 1
    assert killed > 8
    assert done.stdout == "success\n"
    assert held[: len(IMAGE)] == IMAGE
