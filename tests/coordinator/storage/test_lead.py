import queue

import pytest
import sqlalchemy as sa

from nightjar.coordinator.storage.artifacts import DatabaseBlobs, SharedBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.fencing import LeadLostError
from nightjar.coordinator.storage.lead import LOST_S, RELEASE_S, TURN_S, LeaderElection
from nightjar.coordinator.storage.tables import counters, effects
from nightjar.wire.errors import ConfigError, IntegrityError, UnavailableError

pytestmark = pytest.mark.postgresql
PATIENCE_S = 60.0


@pytest.fixture
def hosts(postgresql):
    """Opens the database as another process would."""
    opened = []

    def open_database() -> Database:
        opened.append(Database(postgresql))
        return opened[-1]

    yield open_database
    for database in opened:
        database.close()


@pytest.fixture
def candidate(postgresql):
    made = []

    def make() -> tuple[LeaderElection, queue.Queue]:
        lost: queue.Queue = queue.Queue()
        made.append(LeaderElection(postgresql, lost.put))
        made[-1].start()
        return made[-1], lost

    yield make
    for lead in made:
        lead.close()


def count(database: Database) -> None:
    with database.transaction() as tx:
        tx.count("rounds_committed")


def counted(database: Database) -> int:
    with database.transaction() as tx:
        return tx.counters().get("rounds_committed", 0)


def test_a_former_leader_can_read_but_writes_nothing_more(hosts):
    former, successor = hosts(), hosts()
    assert former.lead("a", "key", []) == 1
    count(former)
    assert successor.lead("b", "key", []) == 2
    with pytest.raises(LeadLostError, match="term 1"):
        count(former)
    assert former.leader() == ("b", "key")
    count(successor)
    assert counted(former) == counted(successor) == 2


def test_a_leader_that_froze_within_a_transaction_does_not_hold_up_its_successor(hosts):
    former, successor = hosts(), hosts()
    former.lead("a", "key", [])

    def freeze_and_wake() -> None:
        with former.transaction() as tx:
            tx.count("rounds_committed")
            tx.flush()  # written, not committed: here it froze
            successor.lead("b", "key", [])

    with pytest.raises(UnavailableError):
        freeze_and_wake()
    assert counted(successor) == 0


def test_a_worker_of_a_former_leader_stores_nothing(hosts, postgresql):
    term = hosts().lead("a", "key", [])
    worker = Database(postgresql, migrate=False, term=term)
    stored = DatabaseBlobs(worker).put(b"weights")
    hosts().lead("b", "key", [])
    with pytest.raises(LeadLostError):
        DatabaseBlobs(worker).put(b"other weights")
    assert DatabaseBlobs(worker).get(stored) == b"weights"
    worker.close()


def test_a_successor_numbers_effects_after_those_of_the_former_leader(hosts):
    former, successor = hosts(), hosts()
    former.lead("a", "key", [])
    with former.connection() as connection:
        connection.execute(sa.insert(effects).values(number=41, body=b"{}"))
    successor.lead("b", "key", [])
    with successor.transaction() as tx:
        assert next(tx._effect_numbers) == 42


def test_a_host_with_a_key_that_devices_do_not_know_cannot_lead(hosts):
    hosts().lead("a", "key", [])
    with pytest.raises(ConfigError, match=r"copy signing\.pem"):
        hosts().lead("b", "other", [])
    assert hosts().lead("b", "newer", ["key"]) == 2  # devices exchange the one for the other
    assert hosts().lead("b", "remade", []) == 3  # its owner gave the same host another key


def test_one_leads_and_another_follows_when_the_server_ends_the_session(candidate, hosts):
    first, lost = candidate()
    second, _ = candidate()
    assert first.wait(0)
    assert not second.wait(0)
    with hosts().connection() as connection:
        held = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted"
        assert connection.exec_driver_sql(held).all() == [(True,)]
    assert lost.get(timeout=PATIENCE_S)
    assert second.wait(PATIENCE_S)


def test_a_leader_that_ends_in_order_hands_over(candidate):
    first, lost = candidate()
    second, _ = candidate()
    first.close()
    assert second.wait(PATIENCE_S)
    assert lost.empty()


def test_a_leader_gives_up_before_the_server_gives_its_lock_away_and_another_leads_in_15_s():
    assert 3 * TURN_S < LOST_S < RELEASE_S
    assert RELEASE_S + 2 * TURN_S < 15


def test_a_host_fetches_artifacts_that_another_stored(hosts, tmp_path):
    a, b = (SharedBlobs(tmp_path / name, DatabaseBlobs(hosts())) for name in "ab")
    name = a.put(b"weights")
    assert b.get(name) == b"weights"
    assert b.find(name).read_bytes() == b"weights"
    assert b.find("0" * 64) is None
    with pytest.raises(IntegrityError):
        b.get("0" * 64)


def test_only_a_leader_is_bound_to_a_term(hosts):
    hosts().lead("a", "key", [])
    command = hosts()
    count(command)
    with command.connection() as connection:
        assert connection.scalar(sa.select(counters.c.value)) == 1
