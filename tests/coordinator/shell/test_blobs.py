"""What every blob store must do, and what files can suffer."""

import hashlib
import os
import threading

import pytest

from coordinator.shell.blobs import FileBlobs, write_durably
from coordinator.shell.packs import PackedBlobs
from coordinator.staging import BESIDE_BYTES, StagedBlobs
from tests.coordinator.fakes import MemoryBlobs
from tests.power_cut import assert_old_or_new, power_cut_library, recorded
from wire.errors import IntegrityError, RemoteProtocolError, UnavailableError


@pytest.fixture(params=["files", "packs", "staged", "memory"])
def blobs(request, tmp_path):
    match request.param:
        case "files":
            return FileBlobs(tmp_path)
        case "packs":
            return PackedBlobs(tmp_path)
        case "staged":
            return StagedBlobs(PackedBlobs(tmp_path))
        case _:
            return MemoryBlobs()


@pytest.mark.parametrize("kind", [PackedBlobs, lambda _folder: MemoryBlobs()])
def test_many_are_kept_at_once_under_names_of_the_callers(tmp_path, kind):
    blobs, one, two, three, four = kind(tmp_path), *(digit * 64 for digit in "1234")
    many = {one: b"one", two: b"", three: b"three"}
    blobs.keep_all(many)
    blobs.keep_all({})
    blobs.keep_all({three: b"three", four: b"four"})
    assert {name: blobs.get(name) for name in many} == many
    for name in (one, four):
        blobs.delete(name)
        with pytest.raises(IntegrityError):
            blobs.get(name)
    assert blobs.get(three) == b"three"


def test_what_is_staged_is_there_at_once_and_stored_with_the_rest(tmp_path):
    store = PackedBlobs(tmp_path)
    staged = StagedBlobs(store)
    staged.keep("1" * 64, b"report")
    chunk = staged.put(b"chunk")
    assert [staged.get(name) for name in ("1" * 64, chunk)] == [b"report", b"chunk"]
    with pytest.raises(IntegrityError):
        store.get(chunk)
    staged.flush()
    assert [PackedBlobs(tmp_path).get(name) for name in ("1" * 64, chunk)] == [b"report", b"chunk"]


def test_what_is_much_is_stored_by_another_thread_between_the_beginning_and_the_end_of_a_flush(tmp_path):
    store = PackedBlobs(tmp_path)
    staged, writers = StagedBlobs(store), []
    keep_all = store.keep_all

    def noted(blobs):
        writers.append(threading.current_thread())
        keep_all(blobs)

    store.keep_all = noted
    for data in (b"little", bytes(BESIDE_BYTES)):
        staged.keep("1" * 64, data)
        staged.begin_flush()
        assert staged.get("1" * 64) == data
        staged.flush()
        assert store.get("1" * 64) == data
        store.delete("1" * 64)
    assert [writer is threading.current_thread() for writer in writers] == [True, False]


@pytest.mark.parametrize("size_bytes", [10, BESIDE_BYTES])
def test_a_disk_that_refuses_what_is_staged_is_said_at_the_flush_and_what_is_forgotten_is_not_tried_again(size_bytes):
    store, tries = MemoryBlobs(), []

    def refuse(_blobs):
        tries.append(1)
        raise UnavailableError("no room")

    store.keep_all = refuse
    staged = StagedBlobs(store)
    for _ in range(2):
        staged.keep("1" * 64, bytes(size_bytes))
        staged.begin_flush()
        with pytest.raises(UnavailableError, match="no room"):
            staged.flush()
        staged.forget()
        staged.flush()
    assert len(tries) == 2


def test_what_fails_before_the_flush_waits_for_what_was_begun(tmp_path):
    staged = StagedBlobs(PackedBlobs(tmp_path))
    staged.keep("1" * 64, bytes(BESIDE_BYTES))
    staged.begin_flush()
    staged.forget()
    assert len(list(tmp_path.glob("*.pack"))) == 1
    staged.flush()
    assert len(list(tmp_path.glob("*.pack"))) == 1


def test_a_disk_that_takes_a_part_gets_the_rest_again(tmp_path, monkeypatch):
    original = os.writev
    monkeypatch.setattr(os, "writev", lambda handle, parts: original(handle, [b"".join(parts)[:700]]))
    parts = [bytes([number % 251]) * number for number in range(1500)]
    write_durably(tmp_path / "file", *parts)
    assert (tmp_path / "file").read_bytes() == b"".join(parts)


def test_a_power_cut_at_each_step_leaves_a_whole_blob_or_none(tmp_path):
    folder = tmp_path / "blobs"
    folder.mkdir()
    before = "from coordinator.shell.blobs import FileBlobs"
    (folder / hashlib.sha256(b"update").hexdigest()[:2]).mkdir()
    run = recorded(folder, power_cut_library(tmp_path), before, "FileBlobs(Path('.')).put(b'update')")
    assert_old_or_new(run, FileBlobs(folder).path(hashlib.sha256(b"update").hexdigest()))


def test_what_is_put_is_got_by_its_hash(blobs):
    name = blobs.put(b"update")
    assert name == hashlib.sha256(b"update").hexdigest()
    assert blobs.put(b"update") == name
    assert blobs.get(name) == b"update"


def test_what_is_not_there_is_an_integrity_error(blobs):
    with pytest.raises(IntegrityError):
        blobs.get("0" * 64)


def test_deleting_twice_is_deleting_once(blobs):
    name = blobs.put(b"update")
    blobs.delete(name)
    blobs.delete(name)
    with pytest.raises(IntegrityError):
        blobs.get(name)


def test_damaged_bytes_are_noticed(tmp_path):
    blobs = FileBlobs(tmp_path)
    name = blobs.put(b"update")
    blobs.path(name).write_bytes(b"upd")
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(name)


@pytest.mark.parametrize("name", ["../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_name_that_is_no_hash_is_refused(tmp_path, name):
    with pytest.raises(RemoteProtocolError):
        FileBlobs(tmp_path).path(name)


def test_nothing_but_whole_blobs_is_left_in_the_folder(tmp_path):
    blobs = FileBlobs(tmp_path)
    names = {blobs.put(bytes([number])) for number in range(20)}
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == names


def test_a_sweep_removes_what_is_not_needed_and_what_was_half_written(tmp_path):
    blobs = FileBlobs(tmp_path)
    kept, dropped = blobs.put(b"kept"), blobs.put(b"dropped")
    (blobs.path(kept).parent / ".writing-x").write_bytes(b"ha")
    assert blobs.sweep({kept}) == 2
    assert blobs.get(kept) == b"kept"
    assert not blobs.path(dropped).exists()


@pytest.mark.parametrize("kind", [FileBlobs, PackedBlobs])
def test_a_folder_that_cannot_be_is_said_to_be(tmp_path, kind):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="file"):
        kind(tmp_path / "file" / "blobs")
