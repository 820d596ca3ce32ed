"""Records that tests of repositories write, and what they read."""

import msgspec

from nightjar.coordinator.records.rounds import StoredChunk, StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.round import open_round
from nightjar.coordinator.rounds.rules import RoundRules
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.simulation.rounds.storage import MemoryRepository as SimulatedRepository
from nightjar.wire.identifiers import DeviceId

RULES = RoundRules(
    goal=2,
    minimum=2,
    over_selection=1.0,
    selection_window_s=0,
    selection_deadline_s=60,
    report_deadline_s=100,
    lost_grace_s=10,
)
A, B = DeviceId("a"), DeviceId("b")


def start(repository):
    with repository.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="0" * 64, created_s=1.0))
        tx.save_round(open_round(1, 0, RULES, 7, 10.0))
    return repository


def stored(device: DeviceId, round_number: int = 1, **changes) -> StoredReport:
    report = StoredReport(
        round=round_number,
        device=device,
        attempt=1,
        sha256="1" * 64,
        size_bytes=100,
        num_examples=5,
        steps=1,
        loss=2.0,
        seconds=0.5,
        norm=1.0,
        received_s=20.0,
    )
    return msgspec.structs.replace(report, **changes)


def chunk(device: DeviceId, number: int) -> StoredChunk:
    return StoredChunk(round=1, device=device, attempt=1, number=number, count=3, total_bytes=9)


def pending(tx):
    return [(number, effect) for number, effect, _begun in tx.begin_effects()]


def private_of(repository):
    return repository.view if isinstance(repository, SimulatedRepository) else PrivateTables(repository)
