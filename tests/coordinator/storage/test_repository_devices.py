"""What every repository must do with leases, labels and the rhythm of devices."""

import contextlib

from msgspec.structs import replace

from nightjar.coordinator.rounds.labelling import Labelling, LabelRule
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.rounds.pace_steering import Rhythm, check_in_counted
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.storage.records import A, B


def test_what_a_report_changes_of_a_lease_is_changed_and_nothing_else(started_database):
    said = Lease(device=A, presence=Presence.READY, state="checked-in", last_seen_s=1.0, runtime="litert", examples=3)
    other = replace(said, device=B)
    with started_database.transaction() as tx:
        tx.save_lease(said)
        tx.save_lease(other)
    heard = replace(said, presence=Presence.PRESENT, last_seen_s=2.0, last_round=7, rounds_counted=5)
    with started_database.transaction() as tx:
        tx.save_lease(heard)
        tx.save_lease(replace(other, last_seen_s=3.0, reason="in use"))
    with started_database.transaction() as tx:
        assert tx.leases(10) == [heard, replace(other, last_seen_s=3.0, reason="in use")]
        tx.save_lease(replace(heard, last_seen_s=4.0))
        assert tx.leases(1) == [replace(heard, last_seen_s=4.0)]
        tx.save_lease(replace(heard, last_seen_s=5.0, blocked="lost"))
        tx.save_lease(replace(heard, last_seen_s=6.0, blocked="lost"))
    with started_database.transaction() as tx:
        assert tx.leases(1) == [replace(heard, last_seen_s=6.0, blocked="lost")]


def test_what_was_rolled_back_of_a_lease_is_not_taken_for_written(started_database):
    lease = Lease(device=A, presence=Presence.READY, state="checked-in", last_seen_s=1.0)
    with contextlib.suppress(KeyError), started_database.transaction() as tx:
        tx.save_lease(lease)
        tx.devices_since(0.0)
        raise KeyError
    with started_database.transaction() as tx:
        tx.save_lease(replace(lease, last_seen_s=2.0))
    with started_database.transaction() as tx:
        assert tx.leases(1) == [replace(lease, last_seen_s=2.0)]


def test_leases_are_replaced_and_counted_by_when_they_were_seen(database):
    with database.transaction() as tx:
        tx.save_lease(Lease(device=B, presence=Presence.READY, last_seen_s=10.0, program="4" * 64))
        tx.save_lease(Lease(device=A, last_seen_s=5.0))
        tx.save_lease(
            Lease(
                device=A,
                last_seen_s=20.0,
                reason="not charging",
                examples=3,
                emulated=True,
                last_round=2**40,
                rounds_counted=2**50 - 1,
            )
        )
    with database.transaction() as tx:
        assert (tx.lease(A).presence, tx.lease(A).reason, tx.lease(A).examples) == (Presence.AWAY, "not charging", 3)
        assert (tx.lease(A).last_round, tx.lease(A).rounds_counted) == (2**40, 2**50 - 1)
        assert tx.lease(B).program == "4" * 64
        assert tx.devices_since(15.0) == 1
        assert [lease.device for lease in tx.leases(10)] == [A, B]
        assert [lease.device for lease in tx.leases(1)] == [A]
        assert [lease.device for lease in tx.leases_after(1, "")] == [A]
        assert [lease.device for lease in tx.leases_after(9, A)] == [B]


def test_devices_are_counted_by_what_they_do_and_only_the_ineligible_by_why(repository):
    with repository.transaction() as tx:
        for number, (state, reason) in enumerate(
            [
                ("ineligible", "not charging"),
                ("ineligible", "not charging"),
                ("ineligible", "in use"),
                ("resting", "again in 30 s"),
                ("resting", "again in 31 s"),
            ]
        ):
            device = DeviceId(f"d{number}")
            tx.save_lease(Lease(device=device, presence=Presence.PRESENT, state=state, reason=reason))
    with repository.transaction() as tx:
        assert tx.device_states() == {
            ("ineligible", "not charging"): 2,
            ("ineligible", "in use"): 1,
            ("resting", ""): 2,
        }


def test_the_rules_for_labels_are_kept_and_devices_come_by_name(repository):
    labelling = Labelling(rules=(LabelRule(label="small", maximum_memory_mb=1024),), dropped=("old",), after="b")
    with repository.transaction() as tx:
        assert tx.labelling() == Labelling()
        tx.save_labelling(labelling)
        for name in ("c", "a", "b"):
            tx.save_lease(Lease(device=DeviceId(name), memory_bytes=1 << 33))
    with repository.transaction() as tx:
        assert tx.labelling() == labelling
        assert [lease.device for lease in tx.leases_after(2, "")] == ["a", "b"]
        assert [lease.memory_bytes for lease in tx.leases_after(2, "b")] == [1 << 33]


def test_the_rhythm_is_kept(repository):
    with repository.transaction() as tx:
        assert tx.rhythm() == Rhythm()
        tx.save_rhythm(check_in_counted(tx.rhythm(), 1e9))
        tx.save_rhythm(check_in_counted(tx.rhythm(), 1e9))
    with repository.transaction() as tx:
        assert sum(tx.rhythm().hours) == 2
        assert tx.rhythm().since_s == 1e9
