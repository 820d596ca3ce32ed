"""A disk that takes nothing, full or made read-only: the agent ends with the status that has it started again."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from tests.edge_agent.any_damage import sound_device, start
from tests.edge_agent.loop_disk import loop_disk

ROOT = Path(__file__).parents[2]
UNAVAILABLE = 3


def run_on(data_dir):
    return subprocess.run(
        [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(data_dir.parent / "agent.toml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={DATA_DIR_VARIABLE: str(data_dir), "PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )


@pytest.mark.parametrize("kind", ["read-only", "full"])
@pytest.mark.parametrize("known", [False, True], ids=["first start", "a start"])
def test_a_start_on_a_disk_that_takes_nothing_is_tried_again(tmp_path, kind, known):
    with loop_disk(tmp_path, 16) as disk:
        folder = disk.folder / "d"
        if known:
            with sound_device() as sound:
                shutil.copytree(sound, folder)
        else:
            folder.mkdir()
            (folder / "agent.toml").write_text('device = "phone"\n')
        if kind == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(disk.folder)], check=True)
        else:
            with (disk.folder / "full").open("wb", buffering=0) as file:
                try:
                    while file.write(b"x" * 4096):
                        pass
                except OSError:
                    pass
        done = run_on(folder / "data")
        assert done.returncode == UNAVAILABLE, done.stderr[-2000:]
        assert "Traceback" not in done.stderr
        if kind == "read-only":
            subprocess.run(["mount", "-o", "remount,rw", str(disk.folder)], check=True)
        else:
            (disk.folder / "full").unlink()
        if known:
            assert start(folder / "agent.toml", {DATA_DIR_VARIABLE: str(folder / "data")})[0] == "pi-kitchen"
