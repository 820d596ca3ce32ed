"""A file that something uses is no target, by whatever name it is given, and is not changed."""

import contextlib
import fcntl
import mmap
import os
import shutil
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.shell.block_file import OpenFile, open_block, open_file
from nightjar.firmware_scripts.shell.file_use import uses_of
from tests.firmware_scripts.command_line import firmware, partitioned

# Another process that attaches a loop device at the same time may be given the same one.
pytestmark = pytest.mark.xdist_group("loop devices")

SIZE = 8 * 2**20
IMAGE = partitioned(b"\xaa" * 2**20)


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def disk(tmp_path):
    """A file with a file system in it."""
    if not shutil.which("mkfs.ext4") or not shutil.which("losetup"):
        pytest.skip("needs losetup and mkfs.ext4 (apt install mount e2fsprogs)")
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(SIZE))
    run("mkfs.ext4", "-q", "-F", path)
    return path


@contextlib.contextmanager
def attached(path, *options):
    made = run("losetup", "--find", "--show", *options, path)
    if made.returncode:
        pytest.skip(f"this machine or user may not make loop devices: {made.stderr.strip()}")
    loop = Path(made.stdout.strip())
    try:
        yield loop
    finally:
        run("losetup", "--detach", loop)


@contextlib.contextmanager
def mounted(source, point, *options):
    done = run("mount", *options, source, point)
    if done.returncode:
        pytest.skip(f"this machine or user may not mount: {done.stderr.strip()}")
    try:
        yield
    finally:
        run("umount", point)


@contextlib.contextmanager
def child(script, path):
    """Another program, with ``path`` as its argument; it has done its work once it prints."""
    command = [sys.executable, "-c", f"{script}\nprint('ready', flush=True)\ninput()", path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def refused(path, tmp_path, *names):
    """Check that the file is no target, that the refusal says ``names``, and that the file stays as it is."""
    before = path.read_bytes()
    (tmp_path / "pi.img").write_bytes(IMAGE)
    done = firmware("flash", tmp_path / "pi.img", path, "--yes")
    assert done.returncode == 4, done.stderr
    assert all(name in done.stderr for name in names), done.stderr
    with open_file(path, SIZE * 2) as opened:  # also what was free when it was judged
        assert isinstance(opened, Reason)
    assert path.read_bytes() == before


def test_every_command_that_writes_refuses_a_file_that_is_used(file, tmp_path):
    (tmp_path / "pi.img").write_bytes(IMAGE)
    with child("import sys; file = open(sys.argv[1], 'r+b')", file) as process:
        for command in (
            ("flash", tmp_path / "pi.img", file, "--yes"),
            ("flash", tmp_path / "pi.img", file, "--dry-run"),
            ("customise", file, "--hostname", "porch-01", "--yes"),
            ("image", "--board", "virt-amd64", "-o", file),
            ("bmap", tmp_path / "pi.img", "-o", file),
        ):
            done = firmware(*command)
            assert done.returncode == 4, (command, done.stderr)
            assert f"process {process.pid}" in done.stderr + done.stdout
    assert file.read_bytes() == b"\xee" * SIZE


def test_a_file_that_a_loop_device_presents_is_refused_under_every_name(disk, tmp_path):
    (tmp_path / "link").symlink_to(disk)
    with attached(disk) as loop:
        refused(disk, tmp_path, loop.name, f"losetup -d {loop}")
        assert firmware("flash", tmp_path / "pi.img", tmp_path / "link", "--yes").returncode == 4
        os.link(disk, tmp_path / "hard.img")
        disk.unlink()
        refused(tmp_path / "hard.img", tmp_path, loop.name)
    done = firmware("flash", tmp_path / "pi.img", tmp_path / "hard.img", "--yes")
    assert done.returncode == 0, done.stderr


def test_a_file_that_is_mounted_through_a_loop_device_says_where(disk, tmp_path):
    point = tmp_path / "point"
    point.mkdir()
    with attached(disk) as loop, mounted(loop, point):
        refused(disk, tmp_path, "mounted", str(point), loop.name)
        assert run("ls", point).stdout == "lost+found\n"


def test_a_loop_device_does_not_hide_that_its_file_is_mounted_through_another(disk, tmp_path):
    point = tmp_path / "point"
    point.mkdir()
    with attached(disk) as first, attached(disk) as second, mounted(first, point), open_block(second) as opened:
        assert isinstance(opened, Reason)
        assert (opened.rule, first.name in opened.text) == (Rule.MOUNTED, True)


def test_a_file_that_is_bound_over_another_is_refused_also_by_what_uses_that(disk, tmp_path):
    (tmp_path / "bound.img").touch()
    with mounted(disk, tmp_path / "bound.img", "--bind"):
        refused(disk, tmp_path, "mounted over", "bound.img")
        with attached(tmp_path / "bound.img") as loop:
            refused(disk, tmp_path, loop.name)


def test_another_file_of_the_same_content_and_of_the_name_of_a_deleted_one_is_free(disk, tmp_path):
    shutil.copy(disk, tmp_path / "copy.img")
    with attached(disk):
        disk.unlink()
        shutil.copy(tmp_path / "copy.img", disk)
        assert uses_of(tmp_path / "copy.img") == ()
        assert uses_of(disk) == ()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "vm.img"
    path.write_bytes(b"\xee" * SIZE)
    return path


def test_a_file_that_another_program_has_open_for_writing_names_the_program(file, tmp_path):
    with child("import sys; file = open(sys.argv[1], 'r+b')", file) as process:
        refused(file, tmp_path, f"process {process.pid}", "close it there")
    with child("import sys; file = open(sys.argv[1], 'rb')", file):
        assert uses_of(file) == ()
    assert uses_of(file) == ()


def test_a_virtual_machine_is_called_one(file, tmp_path):
    called = "import sys; open('/proc/self/comm', 'w').write('qemu-system-x86'); file = open(sys.argv[1], 'r+b')"
    with child(called, file) as process:
        refused(file, tmp_path, "virtual machine", f"qemu-system-x86 (process {process.pid})", "shut it down")


def test_a_file_that_another_program_writes_through_its_memory_is_refused(file, tmp_path):
    mapped = (
        "import mmap, os, sys; fd = os.open(sys.argv[1], os.O_RDWR)\n"
        f"held = mmap.mmap(fd, {mmap.PAGESIZE}); os.closerange(3, 64)"
    )
    with child(mapped, file) as process:
        refused(file, tmp_path, f"process {process.pid}")


LOCKS = {
    "flock": "fcntl.flock(file, fcntl.LOCK_SH)",
    # One byte, as QEMU locks: byte 100 and further ones, by open file description.
    "of the description": ("fcntl.fcntl(file, fcntl.F_OFD_SETLK, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 100, 1, 0))"),
    "of the process": "fcntl.lockf(file, fcntl.LOCK_SH, 1, 201)",
}


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_a_file_that_another_program_only_reads_but_has_locked_is_refused(file, tmp_path, lock):
    with child(f"import fcntl, struct, sys; file = open(sys.argv[1], 'rb'); {lock}", file) as process:
        refused(file, tmp_path, "locked", f"process {process.pid}")


def test_while_we_hold_a_file_a_virtual_machine_cannot_lock_it(file):
    wanted = struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 100, 1, 0)
    with open_file(file, 1) as held:
        assert isinstance(held, OpenFile)
        with file.open("rb") as other, pytest.raises(BlockingIOError):
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, wanted)
    with file.open("rb") as other:
        fcntl.fcntl(other, fcntl.F_OFD_SETLK, wanted)


def test_a_card_in_a_file_is_for_its_owner_only(tmp_path):
    """It holds a claim and the key of the Wi-Fi."""
    made, former = tmp_path / "made.img", tmp_path / "former.img"
    former.write_bytes(IMAGE)
    former.chmod(0o644)
    (tmp_path / "pi.img").write_bytes(IMAGE)
    for path in (made, former):
        done = firmware("flash", tmp_path / "pi.img", path, "--yes")
        assert done.returncode == 0, done.stderr
    assert {stat.S_IMODE(path.stat().st_mode) for path in (made, former)} == {0o600}
