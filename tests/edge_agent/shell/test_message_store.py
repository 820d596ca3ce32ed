"""The store of messages, put in order and emptied by a process of its own."""

import sqlite3

import pytest

from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.session.task import StoredMessages
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.message_store import StoreAnswer, prepare, prepare_here, wipe
from nightjar.edge_agent.shell.stored_messages import read_messages
from nightjar.wire.errors import ConfigError, UnavailableError

CAPS = Caps(messages=100, total_bytes=10_000, age_s=1e6, forbidden=("hush",))


@pytest.fixture
def stored(tmp_path):
    return StoredMessages(tmp_path / "agent.db", CAPS)


@pytest.fixture
def person(tmp_path):
    path = tmp_path / "messages.txt"
    path.write_text("the cat sat\n\nhush now\non the mat\n")
    return path


@pytest.mark.parametrize("way", [prepare, prepare_here])
def test_a_persons_messages_are_stored_once(stored, person, way):
    assert way(stored, person) == StoreAnswer(added=3, stored=2)
    assert way(stored, person) == StoreAnswer(added=0, stored=2)
    assert way(stored, None) == StoreAnswer(added=0, stored=2)
    assert read_messages(stored, SystemClock().wall_s()) == ["the cat sat", "on the mat"]


def test_a_fault_is_told_as_what_it_is(stored, tmp_path):
    with pytest.raises(ConfigError, match="expected a UTF-8 text file"):
        prepare(stored, tmp_path / "nowhere.txt")


def test_a_database_that_is_none_is_put_away_and_that_is_told(stored):
    stored.database.write_bytes(b"this is no database" * 100)
    assert "not a database" in prepare(stored, None).mended
    assert prepare(stored, None) == StoreAnswer()


def test_a_wipe_empties_it_while_the_agent_has_it_open(stored, person):
    prepare(stored, person)
    agent = Database(stored.database, CAPS, SystemClock(), tidy=False)
    assert (agent.count(), agent.wipes()) == (2, 0)
    wipe(stored)
    assert (agent.count(), agent.wipes()) == (0, 1)
    assert not any(b"the mat" in path.read_bytes() for path in stored.database.parent.glob("agent.db*"))
    agent.close()


def test_messages_are_counted_without_their_pages(stored, person):
    prepare(stored, person)
    (plan,) = sqlite3.connect(stored.database).execute("EXPLAIN QUERY PLAN SELECT count(*) FROM examples").fetchall()
    assert "examples_by_bytes" in plan[3]
    assert Database(stored.database, CAPS, SystemClock(), tidy=False).size_bytes() == len("the cat sat") * 2 - 1


def test_a_store_that_is_not_there_cannot_be_read(stored):
    with pytest.raises(UnavailableError):
        read_messages(stored, 0.0)
