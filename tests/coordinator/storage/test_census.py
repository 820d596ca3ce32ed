import threading
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds.lease import Lease, Presence
from nightjar.coordinator.storage import census as module
from nightjar.coordinator.storage.apart import apart
from nightjar.coordinator.storage.census import KEEP_S, CensusTaker, Recorder
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fleet import APART, Census
from nightjar.coordinator.storage.reading import Wanted
from nightjar.coordinator.storage.tables import credentials
from nightjar.wire.identifiers import DeviceId
from tests.coordinator.fakes import FakeClock


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    with made.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="a" * 64))
        tx.add_version(VersionRecord(version=1, manifest="b" * 64))
        for number, (state, version) in enumerate((("training", 1), ("ineligible", 0), ("checked-in", 77))):
            tx.save_lease(
                Lease(
                    device=DeviceId(f"d{number}"),
                    presence=Presence.PRESENT,
                    state=state,
                    reason="in use",
                    weights="the same",
                    version=version,
                    last_seen_s=1_000_000.0,
                )
            )
    yield made
    made.close()


def taker(database, **options):
    return CensusTaker(database, FakeClock(), **options)


def test_it_counts_what_devices_do_and_which_version_they_hold(database):
    found = taker(database).now()
    assert (found.known, found.eligible) == (3, 2)
    assert found.groups == {"waiting": 1, "at work": 1, "resting": 0, "not eligible": 1, "offline": 0}
    assert found.holders == {1: 1, 0: 1, None: 1}


def test_a_fresh_count_is_not_made_again(database):
    one = taker(database, fresh_s=3600.0)
    assert one.now() is one.now()


def test_a_few_devices_are_counted_anew_however_long_the_first_count_took(database, monkeypatch):
    now_s, took_s = [1000.0], [20.0]

    def monotonic() -> float:
        now_s[0] += took_s[0]
        return now_s[0]

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=monotonic))
    one = taker(database)
    first = one.now()
    took_s[0] = 0.0
    now_s[0] += 2.0
    assert one.now() is not first, "the page shows the round as it is now, beside it"


def test_devices_that_are_shut_out_or_were_never_heard_of_are_counted_apart(database):
    with database.transaction() as tx:
        tx.save_lease(Lease(device=DeviceId("lost"), state="resting", last_seen_s=1_000_000.0, blocked="lost"))
        tx.save_lease(Lease(device=DeviceId("typo"), labels="porch"))
        for name, days in (("drawer", 31), ("travels", 29)):
            heard_s = 1_000_000.0 - days * 86400
            tx.save_lease(Lease(device=DeviceId(name), state="offline", last_seen_s=heard_s + 1e8))
        tx.save_lease(Lease(device=DeviceId("gone"), state="resting", last_seen_s=1_000_000.0))
    with database.connection() as tx:
        texts = dict.fromkeys(["claim", "csr", "certificate", "serial", "authority", "address"], "")
        key = {**texts, "key": "k", "device": "gone", "standing": "revoked", "requested_s": 0.0, "expires_s": 1.0}
        tx.execute(sa.insert(credentials).values(key))
    clock = FakeClock()
    clock.time_s += 1e8
    with database.transaction() as tx:
        for name in ("d0", "d1", "d2"):
            tx.save_lease(replace(tx.lease(DeviceId(name)), last_seen_s=clock.time_s))
    found = CensusTaker(database, clock).now()
    assert found.known == sum(found.groups.values()) == 4
    assert list(found.apart.items()) == [("revoked", 1), ("blocked", 1), ("lost", 1), ("never heard of", 1)]
    found = CensusTaker(database, clock, distrust=lambda: "it is 1970").now()
    assert found.known == sum(found.groups.values()) == 5, "nobody is lost by a clock that is not trusted"


@pytest.mark.parametrize("state", ["", "offline"])
@pytest.mark.parametrize("last_seen_s", [0.0, 1.0, 100.0])
@pytest.mark.parametrize("blocked", ["", "odd"])
@pytest.mark.parametrize("standing", [None, "active", "revoked"])
@pytest.mark.parametrize("lost_before_s", [0.0, 50.0])
def test_a_search_and_a_lease_say_alike_why_a_device_is_apart(
    tmp_path, state, last_seen_s, blocked, standing, lost_before_s
):
    database = Database(f"sqlite:///{tmp_path / 'one.sqlite'}")
    one = Lease(device=DeviceId("a"), state=state, last_seen_s=last_seen_s, blocked=blocked)
    with database.transaction() as tx:
        tx.save_lease(one)
    if standing:
        with database.connection() as tx:
            texts = dict.fromkeys(["claim", "csr", "certificate", "serial", "authority", "address"], "")
            key = {**texts, "key": "k", "device": "a", "standing": standing, "requested_s": 0.0, "expires_s": 1.0}
            tx.execute(sa.insert(credentials).values(key))
    why = apart(one, lost_before_s, revoked=standing == "revoked")
    with database.transaction() as tx:
        assert tx.fleet(lost_before_s) == {why: 1}
        for each in ("", *APART):
            wanted = Wanted(apart=each, lost_before_s=lost_before_s)
            assert len(tx.search_devices(wanted, 9, None)[0]) == (each == why), each
    database.close()


def test_what_devices_offer_is_counted_of_the_fleet_only(database):
    """Proven before: a task said that a device is too old for its codec which was named, and never heard of."""
    with database.transaction() as tx:
        offering = replace(tx.lease(DeviceId("d0")), task_types="keyboard", codecs="sampled-4")
        tx.save_lease(offering)
        for name, changes in {"d1": {"blocked": "stolen"}, "d2": {"last_seen_s": 1.0}}.items():
            tx.save_lease(replace(tx.lease(DeviceId(name)), **changes))
        tx.save_lease(Lease(device=DeviceId("named"), labels="kitchen"))
        offers = tx.device_offers(lost_before_s=1000.0)
    assert offers == {("keyboard", "sampled-4"): 1}


def test_where_counting_takes_long_nobody_waits_for_it(database, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_S", -1.0)
    monkeypatch.setattr(module, "SMALL", 0)
    monkeypatch.setattr(module, "REST_SHARE", 0)
    one, counted = taker(database, fresh_s=0.0), threading.Event()
    first = one.now()
    count = one._count

    def count_and_say() -> Census:
        found = count()
        counted.set()
        return found

    monkeypatch.setattr(one, "_count", count_and_say)
    assert one.now() is first, "the last one, while another is made"
    assert counted.wait(60)
    assert one._latest is not first


def test_a_count_that_a_busy_machine_held_up_once_does_not_grow_old(database, monkeypatch):
    now_s, took_s = [1000.0], [0.0]

    def monotonic() -> float:
        now_s[0] += took_s[0]
        return now_s[0]

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=monotonic))
    monkeypatch.setattr(module, "PATIENCE_S", 1e9)
    monkeypatch.setattr(module, "SMALL", 0)
    one = taker(database)
    took_s[0] = 3.0
    first = one.now()
    took_s[0] = 0.0
    assert one.now() is first
    now_s[0] += 2.0
    second = one.now()
    assert second is not first, "three seconds that it took once"
    for _ in range(2):  # and now each of them takes that long
        now_s[0] += 2.0
        took_s[0] = 3.0
        last = one.now()
        took_s[0] = 0.0
    now_s[0] += 60.0
    assert one.now() is last
    now_s[0] += 100.0
    assert one.now() is not last


def test_a_sample_holds_the_count_and_the_traffic(database):
    with database.transaction() as tx:
        tx.count("bytes_up", 700)
    Recorder(database, taker(database), FakeClock()).record()
    with database.transaction() as tx:
        (sample,) = tx.samples(0.0, 1)
    assert (sample.bytes_up, sample.groups["at work"], sample.holders) == (700, 1, {"1": 1, "0": 1, "older": 1})
    assert KEEP_S > 86400


def test_the_recorder_begins_at_once_and_ends_when_told(database):
    recorder = Recorder(database, taker(database), FakeClock())
    recorder.start()
    recorder.close()
    with database.transaction() as tx:
        assert len(tx.samples(0.0, 1)) <= 1
