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

# Another process that attaches a loop device at the same time may be given the same one.
pytestmark = pytest.mark.xdist_group("loop devices")

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


@pytest.fixture
def large_sectors(tmp_path):
    """A disk with sectors of 4096 bytes, and the file behind it."""
    backing = tmp_path / "large"
    with backing.open("wb") as file:
        file.truncate(80 * 2**20)
    made = run("losetup", "--find", "--show", "--sector-size", "4096", backing)
    if made.returncode:
        pytest.skip(f"this machine or user may not make loop devices: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    yield path, backing
    run("losetup", "--detach", path)


def test_an_image_for_small_sectors_is_refused_on_a_disk_of_large_ones(large_sectors, tmp_path):
    loop, backing = large_sectors
    with open_block(loop) as card:
        assert card.sector_bytes == 4096
    image = tmp_path / "pi.img"
    image.write_bytes(IMAGE)
    typed = f"{loop.name} 83.9 MB\n"
    done = flash("--allow", "is-loop", image, loop, typed=typed)
    assert (done.returncode, "sector-size" in done.stderr, "4096" in done.stderr) == (4, True, True)
    assert not any(backing.read_bytes()[:8192])
    done = flash("--allow", "is-loop", "--allow", "sector-size", image, loop, typed=typed)
    assert done.returncode == 0, done.stderr
    run("blockdev", "--flushbufs", loop)
    assert backing.read_bytes()[: len(IMAGE)] == IMAGE


def test_an_image_for_large_sectors_is_written_to_a_disk_of_large_ones_and_customised(large_sectors, tmp_path):
    if missing():
        pytest.skip(f"not installed: {', '.join(missing())} (apt install mtools dosfstools fdisk)")
    loop, backing = large_sectors
    run("sfdisk", "-q", loop, input="label: gpt\nstart=1024, size=16384, type=uefi\n")
    run("mkfs.vfat", "-F", "16", "-S", "4096", "--offset", "1024", loop, "65536")
    for name, text in TRIXIE.items():
        (tmp_path / name).write_text(text)
        run("mcopy", "-i", f"{loop}@@{1024 * 4096}", tmp_path / name, f"::/{name}")
    run("blockdev", "--flushbufs", loop)
    image = tmp_path / "large.img"
    shutil.copy(backing, image)
    backing.write_bytes(bytes(80 * 2**20))
    run("blockdev", "--flushbufs", loop)
    options = ("--allow", "is-loop", "--hostname", "porch-01")
    done = flash(*options, image, loop, typed=f"{loop.name} 83.9 MB\n")
    assert done.returncode == 0, done.stderr
    said = run("mtype", "-i", f"{loop}@@{1024 * 4096}", "::/meta-data").stdout
    assert "porch-01" in said


def test_customising_a_disk_whose_table_counts_in_other_sectors_says_so(large_sectors, tmp_path):
    if missing():
        pytest.skip(f"not installed: {', '.join(missing())} (apt install mtools dosfstools fdisk)")
    loop, _ = large_sectors
    image = make_image(tmp_path / "pi.img", TRIXIE)
    options = ("--allow", "is-loop", "--allow", "sector-size")
    assert flash(*options, image, loop, typed=f"{loop.name} 83.9 MB\n").returncode == 0
    done = firmware("customise", loop, *options, "--hostname", "porch-01", typed=f"{loop.name} 83.9 MB\n")
    assert (done.returncode, "4096" in done.stderr) == (6, True)


def test_what_may_not_be_written_is_said_before_what_is_missing(loop, tmp_path):
    (tmp_path / "pi.img").write_bytes(IMAGE)
    for dry in ((), ("--dry-run",)):
        done = flash("--yes", *dry, tmp_path / "pi.img", loop)
        assert (done.returncode, "is-loop" in done.stderr + done.stdout) == (4, True)
        assert "--expect-serial" not in done.stderr
