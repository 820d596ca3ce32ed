"""Disks made of a small root file system: what was said is what is there, without a mount; and twice the same."""

import io
import json
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest

from nightjar.firmware_scripts.__main__ import run
from nightjar.firmware_scripts.core.bmap import format_bmap, parse_bmap
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.image.disk import BOOT, ROOT, Parts, make_disk
from nightjar.firmware_scripts.image.tools import EPOCH_S, environment
from nightjar.firmware_scripts.shell.fat import boot_partition
from nightjar.firmware_scripts.shell.sparse import map_of
from nightjar.wire.errors import UnavailableError

TOOLS = ("fakeroot", "mcopy", "mkfs.vfat", "mke2fs", "debugfs", "sfdisk")
PATH = environment()["PATH"]
pytestmark = pytest.mark.skipif(
    any(shutil.which(tool, path=PATH) is None for tool in TOOLS),
    reason="a program that makes images (fakeroot, mtools, dosfstools, e2fsprogs, fdisk) is not installed here",
)


def root_tar(folder):
    path = folder / "root.tar"
    with tarfile.open(path, "w") as archive:
        for name, mode, owner, data in (
            ("./etc", 0o755, 0, None),
            ("./etc/shadow", 0o640, 42, b"root:*:"),
            ("./usr", 0o755, 0, None),
            ("./usr/bin", 0o755, 0, None),
            ("./usr/bin/su", 0o4755, 0, b"ELF"),
            ("./dev/null", 0o666, 0, b""),
        ):
            member = tarfile.TarInfo(name)
            member.mode, member.gid, member.mtime = mode, owner, EPOCH_S
            member.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
            member.size = len(data or b"")
            archive.addfile(member, io.BytesIO(data or b""))
        link = tarfile.TarInfo("./bin")
        link.type, link.linkname, link.mtime = tarfile.SYMTYPE, "usr/bin", EPOCH_S
        archive.addfile(link)
    return path


def parts(folder):
    files = {"etc/hostname": b"porch\n", "bin/hello": b"#!/bin/sh\n"}
    links = {"etc/resolv.conf": "/run/resolv.conf"}
    boot = {"cmdline.txt": b"ro\n", "nightjar/image.json": b"{}\n"}
    return Parts("nightjar-test", root_tar(folder), files, links, boot, "echo finished > root/etc/finished")


def made(folder):
    work = folder / "work"
    work.mkdir(parents=True)
    disk = folder / "disk.img"
    make_disk(parts(folder), disk, work)
    return disk


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The disk, and its map before anybody looked: mdir writes down how much is free once it has counted."""
    disk = made(tmp_path_factory.mktemp("disk"))
    return disk, block_map(disk)


@pytest.fixture
def disk(built):
    return built[0]


def block_map(path):
    return map_of(path, lambda *_: None)


def debugfs(disk, command):
    image = f"{disk}?offset={ROOT.start}"
    done = subprocess.run(["debugfs", "-R", command, image], capture_output=True, env={"PATH": PATH}, check=True)
    return done.stdout.decode()


def test_partitions_lie_where_they_are_said_to(disk):
    table = subprocess.run(["sfdisk", "--json", disk], capture_output=True, env={"PATH": PATH}, check=True).stdout
    found = json.loads(table)["partitiontable"]
    assert [(p["start"] * 512, p["size"] * 512, p["type"]) for p in found["partitions"]] == [
        (BOOT.start, len(BOOT), "c"),
        (ROOT.start, len(ROOT), "83"),
    ]


def test_the_boot_partition_holds_what_was_given(disk):
    with boot_partition(disk) as fat:
        assert fat.read("cmdline.txt") == b"ro\n"
        assert fat.read("nightjar/image.json") == b"{}\n"
        assert fat.free_bytes() > 400_000_000


def test_the_root_file_system_is_sound_and_has_owners_modes_and_what_was_laid_over(disk):
    checked = subprocess.run(
        ["e2fsck", "-fn", f"{disk}?offset={ROOT.start}"], capture_output=True, env={"PATH": PATH}, check=False
    )
    assert checked.returncode == 0, checked.stdout
    assert debugfs(disk, "cat /etc/hostname") == "porch\n"
    assert debugfs(disk, "cat /etc/finished") == "finished\n"
    assert "Group:    42" in debugfs(disk, "stat /etc/shadow")
    assert "Mode:  04755" in debugfs(disk, "stat /usr/bin/su")
    # Laid over through the link, and not instead of it.
    assert "Type: symlink" in debugfs(disk, "stat /bin")
    assert "Mode:  0755" in debugfs(disk, "stat /usr/bin/hello")
    assert "/run/resolv.conf" in debugfs(disk, "stat /etc/resolv.conf")


def test_made_twice_it_is_the_same(built, tmp_path):
    assert block_map(made(tmp_path)) == built[1]


def test_the_journal_is_on_the_block_map(disk):
    """A hole there would leave another file system's journal on a card."""
    found = [int(word) for word in debugfs(disk, "blocks <8>").split()]
    mapped = block_map(disk).ranges
    for block in (found[0], found[-1]):
        offset = ROOT.start + block * 4096
        assert any(part.offset <= offset < part.offset + part.length_bytes for part in mapped)


@pytest.mark.skipif(shutil.which("bmaptool") is None, reason="bmap-tools is not installed on this machine")
def test_bmap_tools_copy_by_our_map_and_we_read_theirs(disk, tmp_path):
    ours = tmp_path / "ours.bmap"
    ours.write_bytes(format_bmap(block_map(disk)))
    copy = tmp_path / "copy.img"
    subprocess.run(["bmaptool", "copy", "--bmap", ours, disk, copy], capture_output=True, check=True)
    # bmaptool leaves holes where ours are, so what is mapped is all that there is.
    assert block_map(copy) == block_map(disk)
    theirs = subprocess.run(["bmaptool", "create", disk], capture_output=True, check=True).stdout
    assert parse_bmap(theirs).image_bytes == disk.stat().st_size


@pytest.mark.skipif(shutil.which("bmaptool") is None, reason="bmap-tools is not installed on this machine")
def test_a_flipped_byte_is_refused_by_both(disk, tmp_path):
    bmap = block_map(disk)
    damaged = tmp_path / "damaged.img"
    subprocess.run(["cp", "--sparse=always", disk, damaged], check=True)
    with damaged.open("r+b") as file:
        file.seek(bmap.ranges[-1].offset)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 1]))
    (tmp_path / "disk.bmap").write_bytes(format_bmap(bmap))
    theirs = ["bmaptool", "copy", "--bmap", tmp_path / "disk.bmap", damaged, tmp_path / "copy.img"]
    done = subprocess.run(theirs, capture_output=True, check=False)
    assert done.returncode != 0
    assert run(["verify", str(damaged), "--bmap", str(tmp_path / "disk.bmap")]) == ExitStatus.VERIFY_FAILED


def test_a_script_that_fails_names_what_it_said(tmp_path):
    (tmp_path / "work").mkdir()
    bad = replace(parts(tmp_path), finish="echo no room >&2; exit 3")
    with pytest.raises(UnavailableError, match="no room"):
        make_disk(bad, tmp_path / "disk.img", tmp_path / "work")
