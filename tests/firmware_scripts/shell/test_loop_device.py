"""A real block device of the kernel: what it refuses, and what a write leaves on it."""

import fcntl
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import judge
from nightjar.firmware_scripts.shell.block_file import OpenFile, open_block, open_to_read
from nightjar.firmware_scripts.shell.look import look
from nightjar.firmware_scripts.shell.naming import DiskTarget, find_target
from tests.firmware_scripts.command_line import firmware, partitioned
from tests.firmware_scripts.stock_images import TRIXIE, make_image, missing, read

SIZE = 8 * 2**20
IMAGE = partitioned(random.Random(31).randbytes(3 * 2**20 + 512))


def run(*command, **rest):
    return subprocess.run(command, capture_output=True, text=True, check=False, **rest)


@pytest.fixture
def loop(tmp_path):
    if not shutil.which("losetup") or not shutil.which("mkfs.ext4"):
        pytest.skip("needs losetup and mkfs.ext4 (apt install mount e2fsprogs)")
    backing = tmp_path / "backing"
    backing.write_bytes(b"\xee" * SIZE)
    made = run("losetup", "--find", "--show", backing)
    if made.returncode:
        pytest.skip(f"this machine or user may not make loop devices: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    yield path
    run("losetup", "--detach", path)


@pytest.fixture
def mounted(loop, tmp_path):
    point = tmp_path / "point"
    point.mkdir()
    run("mkfs.ext4", "-q", "-F", loop)
    done = run("mount", loop, point)
    if done.returncode:
        pytest.skip(f"this machine or user may not mount: {done.stderr.strip()}")
    yield loop
    run("umount", point)


def flash(*arguments, typed=""):
    return firmware("flash", *arguments, typed=typed)


def test_a_mounted_device_is_refused_by_the_kernel_and_by_us(mounted, tmp_path):
    with open_block(mounted) as opened:
        assert isinstance(opened, Reason)
        assert opened.rule is Rule.BUSY
    machine = look()
    target = find_target(machine, mounted, tmp_path)
    assert isinstance(target, DiskTarget)
    assert Rule.MOUNTED in {reason.rule for reason in judge(machine, target.device).reasons}
    image = tmp_path / "pi.img"
    image.write_bytes(IMAGE)
    before = (tmp_path / "backing").read_bytes()
    done = flash("--allow", "is-loop", image, mounted, typed=f"{mounted.name} 8.4 MB\n")
    assert done.returncode == 4
    assert "mounted" in done.stderr
    assert (tmp_path / "backing").read_bytes()[:4096] == before[:4096]


def test_while_we_hold_a_device_the_kernel_lets_nobody_else_claim_or_mount_it(loop, tmp_path):
    run("mkfs.ext4", "-q", "-F", loop)
    (tmp_path / "point").mkdir()
    with open_block(loop) as mine:
        assert isinstance(mine, OpenFile)
        assert mine.size_bytes == SIZE
        with open_block(loop) as other:
            assert isinstance(other, Reason)
            assert other.rule is Rule.BUSY
        done = run("mount", loop, tmp_path / "point")
        if done.returncode == 0:
            run("umount", tmp_path / "point")
        assert done.returncode != 0


def test_a_device_that_another_writer_has_locked_is_refused(loop):
    with loop.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with open_block(loop, lock_tries=1) as opened:
            assert isinstance(opened, Reason)
            assert opened.rule is Rule.BUSY
    with open_block(loop) as opened:
        assert isinstance(opened, OpenFile)


def test_a_loop_device_is_refused_unless_it_is_allowed_by_name(loop, tmp_path):
    image = tmp_path / "pi.img"
    image.write_bytes(IMAGE)
    refused = flash(image, loop, typed=f"{loop.name} 8.4 MB\n")
    assert refused.returncode == 4
    assert "is-loop" in refused.stderr
    wrong = flash("--allow", "is-loop", image, loop, typed="yes\n")
    assert wrong.returncode == 5
    done = flash("--allow", "is-loop", image, loop, typed=f"{loop.name} 8.4 MB\n")
    assert done.returncode == 0, done.stderr
    run("blockdev", "--flushbufs", loop)
    with open_to_read(loop) as card:
        assert card.read_at(0, len(IMAGE)) == IMAGE
        assert not any(card.read_at(SIZE - 2**20, 2**20))


def test_a_read_only_device_is_refused(tmp_path, loop):
    run("losetup", "--detach", loop)
    made = run("losetup", "--find", "--show", "--read-only", tmp_path / "backing")
    path = Path(made.stdout.strip())
    try:
        with open_block(path) as opened:
            assert isinstance(opened, Reason)
            assert opened.rule is Rule.READ_ONLY
    finally:
        run("losetup", "--detach", path)


def test_yes_without_a_serial_is_no_confirmation_of_a_disk(loop, tmp_path):
    image = tmp_path / "pi.img"
    image.write_bytes(IMAGE)
    for arguments, status in [
        (("--yes",), 2),
        (("--yes", "--expect-serial", ""), 2),
        (("--yes", "--expect-serial", "x"), 5),
    ]:
        done = flash(*arguments, "--allow", "is-loop", image, loop)
        assert done.returncode == status, done.stderr
    assert (tmp_path / "backing").read_bytes() == b"\xee" * SIZE


def test_a_file_system_that_is_full_is_told_and_is_no_success(mounted, tmp_path):
    image = tmp_path / "pi.img"
    image.write_bytes(partitioned(random.Random(32).randbytes(SIZE + 1)))
    card = tmp_path / "point" / "card.img"
    done = flash(image, card)
    assert done.returncode == 7
    assert "ENOSPC" in done.stderr
    assert not any(card.read_bytes()[:512])


def test_a_card_is_customised_where_it_lies_and_a_mounted_one_is_not(tmp_path):
    if missing() or not shutil.which("losetup"):
        pytest.skip(f"not installed: {', '.join(missing()) or 'losetup'} (apt install mtools dosfstools fdisk mount)")
    image = make_image(tmp_path / "pi.img", TRIXIE)
    made = run("losetup", "--find", "--show", image)
    if made.returncode:
        pytest.skip(f"this machine or user may not make loop devices: {made.stderr.strip()}")
    card = Path(made.stdout.strip())
    try:
        done = firmware("customise", card, "--hostname", "porch-01", "--yes", "--expect-serial", "x")
        assert (done.returncode, "is-loop" in done.stderr) == (4, True)
        options = ("--hostname", "porch-01", "--allow", "is-loop")
        assert firmware("customise", card, *options, typed="something else\n").returncode == 5
        assert firmware("customise", card, *options, "--yes").returncode == 2
        assert read(image, "meta-data").decode() == TRIXIE["meta-data"]
        with open_block(card) as held:
            assert not isinstance(held, Reason)
            assert firmware("customise", card, *options, typed=f"{card.name} 75.5 MB\n").returncode == 4
        done = firmware("customise", card, *options, typed=f"{card.name} 75.5 MB\n")
        assert done.returncode == 0, done.stderr
        assert b"porch-01" in read(image, "meta-data")
    finally:
        run("losetup", "--detach", card)
