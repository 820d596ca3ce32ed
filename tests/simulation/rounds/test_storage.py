"""Transactions that fail; what a repository must do otherwise is in tests/coordinator/storage/test_repository.py."""

import pytest

from nightjar.coordinator.records.effects import AnnounceModel
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease
from nightjar.simulation.rounds.faults import Fuse, PowerCut
from nightjar.simulation.rounds.storage import MemoryBlobs, MemoryRepository
from nightjar.wire.errors import IntegrityError
from nightjar.wire.identifiers import DeviceId

A = DeviceId("a")


def write(repository: MemoryRepository) -> None:
    with repository.transaction() as tx:
        tx.add_version(VersionRecord(version=1, manifest="1" * 64))
        tx.save_lease(Lease(device=A, state="training", last_seen_s=2.0))
        tx.count("reports_late")
        tx.remove_effects([1])
        tx.add_effect(AnnounceModel())


def contents(repository: MemoryRepository) -> tuple[object, ...]:
    view = repository.view
    return view.current_version(), view.lease(A), view.counters(), dict(view._effects), view.device_states()


@pytest.mark.parametrize("touches", range(1, 20))
def test_a_power_cut_at_any_touch_leaves_all_of_a_transaction_or_nothing(touches):
    fuse = Fuse()
    repository = MemoryRepository(fuse.touch)
    with repository.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="0" * 64))
        tx.save_lease(Lease(device=A, state="resting"))
        tx.add_effect(AnnounceModel())
    before = contents(repository)
    fuse.left = touches
    try:
        write(repository)
    except PowerCut:
        assert contents(repository) == before
        write(repository)
    assert contents(repository)[2] == {"reports_late": 1}
    assert dict(repository.view._effects) == {2: AnnounceModel()}
    assert repository.view.device_states() == {("training", ""): 1}


def test_blobs_are_found_by_their_hash():
    blobs = MemoryBlobs()
    assert blobs.get(blobs.put(b"weights")) == b"weights"
    assert len(blobs) == 1
    with pytest.raises(IntegrityError):
        blobs.get("0" * 64)
