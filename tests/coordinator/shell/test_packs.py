"""Packs beyond what every blob store does."""

import hashlib

import pytest

from coordinator.shell.packs import PackedBlobs
from wire.errors import IntegrityError

ONE, TWO, THREE = b"one", b"two" * 1000, b"three"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def named(*blobs: bytes) -> dict[str, bytes]:
    return {sha256(data): data for data in blobs}


def files(folder) -> list:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_what_is_put_together_lies_in_one_file_that_goes_with_the_last_of_it(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.put_all(named(ONE, TWO))
    assert len(files(tmp_path)) == 1
    blobs.delete(sha256(ONE))
    assert len(files(tmp_path)) == 1
    assert blobs.get(sha256(TWO)) == TWO
    blobs.delete(sha256(TWO))
    assert files(tmp_path) == []


def test_the_next_process_and_one_that_runs_beside_find_them(tmp_path):
    beside = PackedBlobs(tmp_path)
    writer = PackedBlobs(tmp_path)
    writer.put_all(named(ONE, TWO))
    alone = writer.put(THREE)
    for reader in (beside, PackedBlobs(tmp_path)):
        assert [reader.get(name) for name in (sha256(ONE), sha256(TWO), alone)] == [ONE, TWO, THREE]


def test_a_sweep_leaves_what_is_needed_and_nothing_half_written(tmp_path):
    PackedBlobs(tmp_path).put_all(named(ONE, TWO))
    PackedBlobs(tmp_path).put_all(named(THREE))
    kept = PackedBlobs(tmp_path).put(b"optimizer state")
    (tmp_path / ".writing-x").write_bytes(b"ha")
    blobs = PackedBlobs(tmp_path)
    assert blobs.sweep({sha256(TWO), kept}) == 2
    assert (blobs.get(sha256(TWO)), blobs.get(kept)) == (TWO, b"optimizer state")
    for gone in (ONE, THREE):
        with pytest.raises(IntegrityError):
            blobs.get(sha256(gone))
    blobs.delete(sha256(TWO))
    assert [path.name for path in files(tmp_path)] == [kept]


def test_damaged_bytes_are_noticed(tmp_path):
    blobs = PackedBlobs(tmp_path)
    blobs.put_all(named(ONE, TWO))
    (pack,) = files(tmp_path)
    pack.write_bytes(pack.read_bytes().replace(b"one", b"two"))
    with pytest.raises(IntegrityError, match="damaged"):
        blobs.get(sha256(ONE))
    assert blobs.get(sha256(TWO)) == TWO
    pack.write_bytes(pack.read_bytes()[:50])
    with pytest.raises(IntegrityError, match="damaged"):
        PackedBlobs(tmp_path)
