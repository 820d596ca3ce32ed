import contextlib
import sqlite3
import threading

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nightjar.coordinator.records.effects import AnnounceModel
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import METADATA
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.coordinator.storage.records import A, stored


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    yield made
    made.close()


def test_migrations_make_exactly_the_tables_that_the_code_uses(database, tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'test.sqlite'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


def test_a_number_of_an_effect_is_never_used_again(database):
    with database.transaction() as tx:
        assert tx.add_effect(AnnounceModel()) == 1
        tx.remove_effects([1])
        assert tx.add_effect(AnnounceModel()) == 2


class StoppedHereError(Exception):
    pass


@pytest.mark.slow
def test_stopped_at_any_statement_while_the_tables_are_made_it_starts_again(tmp_path):
    url, statements = f"sqlite:///{tmp_path / 'test.sqlite'}", 0
    while True:
        statements += 1
        left = [statements]

        def count_down(left=left) -> None:
            left[0] -= 1
            if not left[0]:
                raise StoppedHereError

        try:
            Database(url, count_down).close()
        except StoppedHereError:
            with contextlib.closing(sqlite3.connect(tmp_path / "test.sqlite")) as connection:
                tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if tables:
                assert ("credentials",) in tables, "all or none"
                break
        else:
            break
    assert statements > 20
    Database(url).close()


@pytest.mark.parametrize("migrate", [True, False])
def test_a_database_of_a_newer_program_is_refused(tmp_path, migrate):
    path = tmp_path / "test.sqlite"
    Database(f"sqlite:///{path}").close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(ConfigError, match=r"tables of version 9999.*a newer Nightjar made them"):
        Database(f"sqlite:///{path}", migrate=migrate)


def test_a_second_start_finds_what_the_first_wrote(tmp_path):
    for expected in (None, 0):
        database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
        with database.transaction() as tx:
            found = tx.current_version()
            assert (found.version if found else None) == expected
            if found is None:
                tx.add_version(VersionRecord(version=0, manifest="0" * 64))
        database.close()


def test_it_is_written_for_good_and_read_beside_a_writer(database, tmp_path):
    with database.transaction() as tx:
        assert tx._connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert tx._connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert tx._connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        tx.count("bytes_up")
        seen = []

        def read() -> None:
            with database.transaction() as other:
                seen.append(other.counters())

        reader = threading.Thread(target=read)
        reader.start()
        reader.join(60)
        assert seen == [{}]


def test_a_report_of_a_round_that_is_not_there_is_refused(database):
    with pytest.raises(sa.exc.IntegrityError), database.transaction() as tx:
        tx.add_report(stored(A, round_number=9), b"frame")


def test_a_damaged_file_is_an_error_that_says_which(tmp_path):
    (tmp_path / "test.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(UnavailableError, match=r"test\.sqlite"):
        Database(f"sqlite:///{tmp_path / 'test.sqlite'}")


def count_impatiently(database: Database) -> None:
    with database.transaction() as tx:
        tx._connection.exec_driver_sql("PRAGMA busy_timeout = 10")
        tx.count("bytes_up")


def test_a_locked_database_is_an_error_and_not_a_loss(database, tmp_path):
    blocker = sqlite3.connect(tmp_path / "test.sqlite", isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    with pytest.raises(UnavailableError, match="locked"):
        count_impatiently(database)
    blocker.execute("ROLLBACK")
    blocker.close()
    with database.transaction() as tx:
        tx.count("bytes_up")
