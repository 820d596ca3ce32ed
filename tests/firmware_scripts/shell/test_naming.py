import os

import pytest

from nightjar.firmware_scripts.core.mounts import Swap
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import MachineState
from nightjar.firmware_scripts.shell.naming import FileTarget, find_target
from tests.firmware_scripts.core.test_targets import described

MACHINE = described("laptop-usb-reader")


@pytest.fixture
def image(tmp_path):
    path = tmp_path / "pi.img"
    path.write_bytes(b"image")
    return path


def rule(found):
    assert isinstance(found, Reason), found
    return found.rule


def test_a_file_is_a_target_whether_it_is_there_or_not(tmp_path, image):
    assert find_target(MACHINE, tmp_path / "new", image) == FileTarget(tmp_path / "new", None)
    (tmp_path / "old").write_bytes(b"1234")
    assert find_target(MACHINE, tmp_path / "old", image) == FileTarget(tmp_path / "old", 4)


def test_a_link_to_a_file_means_the_file(tmp_path, image):
    (tmp_path / "old").write_bytes(b"1234")
    (tmp_path / "link").symlink_to(tmp_path / "old")
    assert find_target(MACHINE, tmp_path / "link", image) == FileTarget(tmp_path / "old", 4)


def test_what_is_no_file_is_no_target(tmp_path, image):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "round").symlink_to(tmp_path / "round")
    for name in ("pipe", "dangling", "round", "no-folder/x", "."):
        assert rule(find_target(MACHINE, tmp_path / name, image)) is Rule.NOT_A_TARGET
    assert rule(find_target(MACHINE, image, image)) is Rule.NOT_A_TARGET


def test_a_swap_file_is_refused(tmp_path, image):
    (tmp_path / "swapfile").write_bytes(b"memory")
    machine = MachineState(MACHINE.devices, MACHINE.mounts, (Swap(str(tmp_path / "swapfile"), is_file=True),))
    assert rule(find_target(machine, tmp_path / "swapfile", image)) is Rule.SWAP
