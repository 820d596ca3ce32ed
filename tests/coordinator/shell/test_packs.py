"""Packs beyond what every blob store does."""

import hashlib

import pytest

from coordinator.shell.packs import PackedBlobs
from wire.errors import IntegrityError, UnavailableError

ONE, TWO, THREE = b"one", b"two" * 1000, b"three"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def named(*blobs: bytes) -> dict[str, bytes]:
    return {sha256(data): data for data in blobs}


def files(folder) -> list:
    return [path for path in folder.rglob("*") if path.is_file()]


def packs(folder) -> list:
    return sorted(folder.glob("*.pack"))


def test_what_is_put_together_lies_in_one_file_that_goes_with_the_last_of_it(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE, TWO))
    assert len(files(tmp_path)) == 1
    blobs.delete(sha256(ONE))
    assert len(packs(tmp_path)) == 1
    assert blobs.get(sha256(TWO)) == TWO
    blobs.delete(sha256(TWO))
    assert packs(tmp_path) == []


def test_of_a_deleted_pack_nothing_is_left_but_its_room_which_the_next_one_takes(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE, TWO))
    (before,) = files(tmp_path)
    room = before.stat()
    blobs.delete(sha256(ONE))
    blobs.delete(sha256(TWO))
    (spare,) = files(tmp_path)
    assert spare.read_bytes() == bytes(room.st_size)
    blobs.keep_all(named(THREE))
    (after,) = files(tmp_path)
    assert (after.stat().st_ino, after.stat().st_size) == (room.st_ino, room.st_size)
    assert PackedBlobs(tmp_path).get(sha256(THREE)) == THREE
    assert after.read_bytes().rstrip(b"\0").endswith(THREE)


def test_a_longer_pack_takes_the_room_of_a_shorter_one(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE))
    blobs.delete(sha256(ONE))
    blobs.keep_all(named(TWO, THREE))
    assert len(files(tmp_path)) == 1
    reader = PackedBlobs(tmp_path)
    assert [reader.get(sha256(data)) for data in (TWO, THREE)] == [TWO, THREE]


def test_a_pack_takes_the_smallest_room_that_is_enough_and_otherwise_the_largest(tmp_path):
    blobs = PackedBlobs(tmp_path)
    small, middle, large = (bytes([number]) * (4_000 * number) for number in (1, 2, 3))
    for data in (middle, large, small):
        blobs.keep_all(named(data))
    rooms = {path.stat().st_size: path.stat().st_ino for path in files(tmp_path)}
    by_size = [rooms[size] for size in sorted(rooms)]
    for data in (large, small, middle):
        blobs.delete(sha256(data))
    taken = []
    for data in (b"5" * 5_000, b"3" * 3_000, b"99" * 10_000):
        blobs.keep_all(named(data))
        taken.append(next(path for path in packs(tmp_path) if path.stat().st_ino not in taken).stat().st_ino)
    assert taken == [by_size[1], by_size[0], by_size[2]]


def test_no_more_room_is_kept_than_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr("coordinator.shell.packs.SPARE_BYTES", 10_000)
    blobs = PackedBlobs(tmp_path)
    many = [bytes([number]) * 4_000 for number in range(5)]
    for data in many:
        blobs.keep_all(named(data))
    for data in many:
        blobs.delete(sha256(data))
    assert len(files(tmp_path)) == 2


def test_old_bytes_behind_a_pack_are_not_taken_for_blobs(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE))
    (pack,) = packs(tmp_path)
    with pack.open("ab") as file:  # as after a power cut that undid the zeros
        file.write(b"old " * 1000)
    reader = PackedBlobs(tmp_path)
    assert reader.get(sha256(ONE)) == ONE
    reader.delete(sha256(ONE))
    assert packs(tmp_path) == []


def test_a_pack_that_the_disk_did_not_take_leaves_nothing_and_can_be_tried_again(tmp_path, monkeypatch):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE))
    blobs.delete(sha256(ONE))

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("coordinator.shell.blobs.os.fsync", full)
        with pytest.raises(UnavailableError, match="No space left"):
            blobs.keep_all(named(TWO))
    assert files(tmp_path) == []
    blobs.keep_all(named(TWO))
    assert blobs.get(sha256(TWO)) == TWO


def test_the_next_process_and_one_that_runs_beside_find_them(tmp_path):
    beside = PackedBlobs(tmp_path)
    writer = PackedBlobs(tmp_path)
    writer.keep_all(named(ONE, TWO))
    alone = writer.put(THREE)
    for reader in (beside, PackedBlobs(tmp_path)):
        assert [reader.get(name) for name in (sha256(ONE), sha256(TWO), alone)] == [ONE, TWO, THREE]


def test_a_sweep_leaves_what_is_needed_and_nothing_half_written(tmp_path):
    PackedBlobs(tmp_path).keep_all(named(ONE, TWO))
    PackedBlobs(tmp_path).keep_all(named(THREE))
    kept = PackedBlobs(tmp_path).put(b"optimizer state")
    (tmp_path / ".writing-x").write_bytes(b"ha")
    blobs = PackedBlobs(tmp_path)
    assert blobs.sweep({sha256(TWO), kept}) == 2
    assert (blobs.get(sha256(TWO)), blobs.get(kept)) == (TWO, b"optimizer state")
    for gone in (ONE, THREE):
        with pytest.raises(IntegrityError):
            blobs.get(sha256(gone))
    blobs.delete(sha256(TWO))
    blobs.sweep({kept})
    assert [path.name for path in files(tmp_path)] == [kept]


def test_an_entry_that_is_not_where_it_was_written_is_noticed(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.keep_all(named(ONE, TWO))
    (pack,) = files(tmp_path)
    pack.write_bytes(pack.read_bytes().replace(bytes.fromhex(sha256(ONE)), bytes(32)))
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(sha256(ONE))
    assert blobs.get(sha256(TWO)) == TWO
    pack.write_bytes(pack.read_bytes()[:50])
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(sha256(TWO))
    with pytest.raises(IntegrityError, match="damaged"):
        PackedBlobs(tmp_path)
