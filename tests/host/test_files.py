import errno
import os
import stat

import pytest

from nightjar.host import files
from nightjar.host.files import (
    PRIVATE,
    READABLE,
    overwrite_file,
    put_folder_in_place,
    put_in_place,
    read_file,
    replace_file,
    replace_link,
)
from tests.power_cut import assert_old_or_new, power_cut_library, recorded

IMPORTS = "from nightjar.host.files import *"
SLOPPY = {
    "flushed after fsync": """
with open("key.new", "wb") as file:
    file.write(b"new" * 99)
    os.fsync(file.fileno())
os.rename("key.new", "key")
folder = os.open(".", os.O_RDONLY)
os.fsync(folder)
""",
    "no fsync of the folder": """
with open("key.new", "wb") as file:
    file.write(b"new" * 99)
    file.flush()
    os.fsync(file.fileno())
os.rename("key.new", "key")
""",
    "in place": """
with open("key", "wb") as file:
    file.write(b"new" * 99)
    file.flush()
    os.fsync(file.fileno())
folder = os.open(".", os.O_RDONLY)
os.fsync(folder)
""",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return power_cut_library(tmp_path_factory.mktemp("library"))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    return path


@pytest.mark.parametrize("old", [None, b"old"], ids=["no file before", "a file before"])
@pytest.mark.parametrize("mode", [PRIVATE, READABLE], ids=["private", "readable"])
def test_a_power_cut_at_each_step_leaves_the_old_file_or_the_new_one_in_full(folder, library, old, mode):
    path = folder / "key"
    if old is not None:
        path.write_bytes(old)
    (folder / "key.part").write_bytes(b"what an earlier cut left")
    run = recorded(folder, library, IMPORTS, f"replace_file(Path('key'), b'new' * 99, {mode})")
    assert_old_or_new(run, path)
    assert path.read_bytes() == b"new" * 99
    assert run.widest_modes() == mode
    assert [name.name for name in folder.iterdir()] == ["key"]


def test_a_file_that_was_written_beside_another_takes_its_place_durably(folder, library):
    (folder / "model").write_bytes(b"old")
    action = "file = open('download', 'wb'); file.write(b'new' * 99); file.close()\n"
    run = recorded(folder, library, IMPORTS, action + "put_in_place(Path('download'), Path('model'))")
    assert_old_or_new(run, folder / "model")


@pytest.mark.parametrize("how", SLOPPY)
def test_the_record_shows_what_is_wrong_with_a_sloppy_replacement(folder, library, how):
    (folder / "key").write_bytes(b"old")
    run = recorded(folder, library, "", SLOPPY[how])
    with pytest.raises((AssertionError, ValueError)):
        assert_old_or_new(run, folder / "key")


def test_an_equal_file_is_not_written_again(tmp_path):
    path = tmp_path / "file"
    assert replace_file(path, b"text")
    before = path.stat().st_ino
    assert not replace_file(path, b"text")
    assert path.stat().st_ino == before
    assert replace_file(path, b"text", READABLE)
    assert stat.S_IMODE(path.stat().st_mode) == READABLE


def test_an_umask_takes_nothing_away(tmp_path):
    before = os.umask(0o077)
    try:
        replace_file(tmp_path / "command", b"#!/bin/sh\n", 0o755)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "command").stat().st_mode) == 0o755


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "file"
    replace_file(path, b"old")

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="no room"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_leads_elsewhere_in_one_step(tmp_path):
    link = tmp_path / "current"
    assert replace_link(link, "releases/1")
    assert not replace_link(link, "releases/1")
    assert replace_link(link, "releases/2")
    assert str(link.readlink()) == "releases/2"
    assert list(tmp_path.iterdir()) == [link]


def test_a_folder_takes_its_name_when_it_is_full(tmp_path):
    (tmp_path / "made.part").mkdir()
    (tmp_path / "made.part" / "file").write_bytes(b"text")
    put_folder_in_place(tmp_path / "made.part", tmp_path / "made")
    assert (tmp_path / "made" / "file").read_bytes() == b"text"


def test_what_is_not_there_cannot_be_put_in_place(tmp_path):
    with pytest.raises(FileNotFoundError):
        put_in_place(tmp_path / "none", tmp_path / "file")


def test_a_secret_is_written_over_where_it_lies(tmp_path):
    path = tmp_path / "claim"
    path.write_bytes(b"secret, and more")
    before = path.stat().st_ino
    overwrite_file(path, b"xxxxxx")
    assert path.read_bytes() == b"xxxxxx, and more"
    assert path.stat().st_ino == before


def test_a_file_that_damage_made_endless_is_refused_and_not_read(tmp_path):
    """A length of many gigabytes in a broken directory entry would take all the memory of a board."""
    path = tmp_path / "identity.json"
    path.write_bytes(b"{}")
    assert read_file(path) == b"{}"
    os.truncate(path, 2**40)
    with pytest.raises(OSError, match="expected at most 67108864 bytes") as refused:
        read_file(path)
    assert refused.value.errno == errno.EFBIG
    assert read_file(path, 2) == b"{}"
