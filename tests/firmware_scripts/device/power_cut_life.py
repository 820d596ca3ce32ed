"""An update of a device, ended by SIGKILL in the middle of its n-th change of a file, for every n; then a new start.

Run as a program with tests/power_cut.c preloaded. systemd is played, and unpacking writes a few files;
everything else is what runs on a device. Prints the number of changes, and what went wrong after which.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from nightjar.firmware_scripts.device.releases import Settled
from tests.edge_agent.power_cut_life import forked
from tests.firmware_scripts.device.test_booting import make_device


def installed(root: Path):
    """A device that runs its first release; 0.2.0 is bad, 0.3.0 is good."""
    return make_device(root, kinds={"0.2.0": "cannot train", "0.3.0": "good"})


def live(root: Path) -> None:
    """A first start, an update that is taken back, and one that counts."""
    device = installed(root)
    device.boot()
    for version in ("0.2.0", "0.3.0"):
        device.update(version)


def begin_again(root: Path) -> None:
    """What must hold after any power cut."""
    device = installed(root)
    device.systemd.runs = device.places.current.readlink().name if device.places.current.is_symlink() else None
    device.boot()
    state = device.state()
    assert isinstance(state, Settled), state
    assert state.version in {"0.1.0", "0.3.0"}
    assert device.places.current.readlink() == Path("releases") / state.version
    assert device.systemd.runs in {None, state.version}
    release = device.places.releases / state.version
    assert (release / "device/nightjar-device.pyz").read_text() == state.version
    assert device.places.program.read_text() == state.version
    live(root)
    assert device.state().version == "0.3.0"
    assert not list(root.rglob("*.part/*"))


def silence() -> None:
    """What the device tells is not what this program prints."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main() -> None:
    cut = ctypes.CDLL(None)
    cut.power_cut_arm.argtypes = [ctypes.c_long]
    place = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=place) as name:
        lives = 0
        while True:
            lives += 1
            root = Path(name) / "root"
            root.mkdir()

            def life(root: Path = root, lives: int = lives) -> None:
                silence()
                cut.power_cut_arm(lives)
                live(root)

            ended = forked(life)
            if os.WIFEXITED(ended):
                if os.WEXITSTATUS(ended):
                    print(f"life {lives} failed by itself", flush=True)
                break
            assert os.WTERMSIG(ended) == signal.SIGKILL

            def again(root: Path = root) -> None:
                silence()
                begin_again(root)

            if forked(again):
                print(f"after a power cut at change {lives} it did not begin again", flush=True)
            shutil.rmtree(root)
        print(f"{lives - 1} changes", flush=True)


if __name__ == "__main__":
    main()
