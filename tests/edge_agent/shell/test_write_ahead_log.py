"""The log's checks against what SQLite itself makes of the same bytes."""

import contextlib
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightjar.edge_agent.shell.write_ahead_log import HEADER_BYTES, log_fault

ROWS = 30


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A database and its log of so many transactions, as a kill leaves them."""
    path = tmp_path_factory.mktemp("log") / "some.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept (text TEXT)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for number in range(ROWS):
            connection.execute("INSERT INTO kept VALUES (?)", (f"{number:03}" * 300,))
        return path.read_bytes(), path.with_name("some.db-wal").read_bytes()


@pytest.fixture(scope="module")
def rows_of(written, tmp_path_factory):
    folder = tmp_path_factory.mktemp("read")

    def rows(log):
        path = folder / "some.db"
        for end in ("-wal", "-shm"):
            path.with_name(f"some.db{end}").unlink(missing_ok=True)
        path.write_bytes(written[0])
        path.with_name("some.db-wal").write_bytes(log)
        with contextlib.closing(sqlite3.connect(path)) as connection:
            ((count,),) = connection.execute("SELECT count(*) FROM kept").fetchall()
        return count

    return rows


def test_a_whole_log_has_no_fault(written, rows_of):
    assert log_fault(written[1]) == ""
    assert rows_of(written[1]) == ROWS


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_row_that_was_durable_is_lost_without_a_word_and_a_torn_end_is_no_fault(written, rows_of, data):
    log = bytearray(written[1])
    if data.draw(st.booleans()):
        log = log[: data.draw(st.integers(0, len(log)))]
        assert log_fault(bytes(log)) == ""
        return
    begin = data.draw(st.integers(0, len(log) - 1))
    length = data.draw(st.sampled_from([1, 100, 4096]))
    for at in range(begin, min(begin + length, len(log))):
        log[at] ^= data.draw(st.integers(1, 255)) if length == 1 else 0x5A
    found, lost = log_fault(bytes(log)), ROWS - rows_of(bytes(log))
    assert bool(found) >= (lost > 3), "a page of the last transactions may have been torn"
    assert bool(found) <= (lost > 0)


def test_what_an_earlier_log_left_is_no_fault(written, tmp_path):
    path = tmp_path / "some.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE kept (text TEXT)")
        for _ in range(20):
            connection.execute("INSERT INTO kept VALUES (?)", ("x" * 900,))
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
        connection.execute("INSERT INTO kept VALUES ('over the first pages of the log')")
        log = path.with_name("some.db-wal").read_bytes()
    assert len(log) > HEADER_BYTES + 10 * 4096
    assert log_fault(log) == ""
