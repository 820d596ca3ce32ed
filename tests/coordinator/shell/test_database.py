import contextlib
import sqlite3
import threading
from pathlib import Path

import msgspec
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

import coordinator.shell
from coordinator import effects
from coordinator.core.lease import Presence
from coordinator.core.round import Phase, open_round
from coordinator.core.rules import RoundRules
from coordinator.core.task import Status
from coordinator.effects import AnnounceModel
from coordinator.ports import StoredChunk, StoredReport, VersionRecord
from coordinator.shell.database import Database
from coordinator.shell.tables import METADATA
from wire.errors import UnavailableError
from wire.identifiers import DeviceId

RULES = RoundRules(
    goal=1,
    minimum=1,
    over_selection=1,
    selection_window_s=0,
    selection_deadline_s=1,
    report_deadline_s=1,
    lost_grace_s=1,
)


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


def test_a_database_of_the_first_version_is_brought_up_to_date_with_what_is_in_it(tmp_path):
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    engine = sa.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(coordinator.shell.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql(
            "INSERT INTO devices VALUES ('a', 1, 'training', '', 5.0, '0.1.0', 'none', NULL, NULL, 3, 0), "
            "('b', 0, 'offline', '', 4.0, '0.1.0', 'none', NULL, NULL, 3, 0)"
        )
        connection.exec_driver_sql("INSERT INTO effects (body) VALUES (?)", (effects.to_json(AnnounceModel()),))
    engine.dispose()
    database = Database(url)
    with database.transaction() as tx:
        assert tx.lease(DeviceId("a")).presence is Presence.PRESENT
        assert tx.lease(DeviceId("b")).presence is Presence.AWAY
        assert tx.lease(DeviceId("a")).examples == 3
        assert tx.begin_effects() == [(1, AnnounceModel(), 1)]
        tx.remove_effects([1])
        assert tx.add_effect(AnnounceModel()) == 2, "a number is never used again"
    database.close()


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
    report = StoredReport(
        round=9,
        device=DeviceId("a"),
        attempt=1,
        blob="0" * 64,
        size_bytes=1,
        num_examples=1,
        steps=1,
        loss=1.0,
        seconds=1.0,
        norm=1.0,
        received_s=1.0,
    )
    with pytest.raises(sa.exc.IntegrityError), database.transaction() as tx:
        tx.add_report(report)


def test_the_private_blobs_still_needed_are_those_of_the_open_round_and_the_optimizer(database):
    with database.transaction() as tx:
        tx.add_version(VersionRecord(version=0, manifest="0" * 64, optimizer_state="1" * 64))
        tx.add_version(VersionRecord(version=1, manifest="0" * 64, optimizer_state="2" * 64))
        tx.save_round(open_round(1, 0, RULES, 7, 0.0))
        tx.add_chunk(
            StoredChunk(round=1, device=DeviceId("a"), attempt=1, number=0, count=2, total_bytes=9, sha256="3" * 64)
        )
        assert tx.private_blobs() == {"1" * 64, "2" * 64, "3" * 64}
        assert tx.rounds_in(Phase.SELECTION) == 1


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


@pytest.mark.parametrize("paused", [False, True])
def test_what_there_was_before_there_were_tasks_becomes_the_files_task(tmp_path, paused):
    url = f"sqlite:///{tmp_path / 'old.sqlite'}"
    pause = '{"reason":"night","who":"anna","since_s":7.0}'
    state = open_round(2, 1, RULES, 7, 20.0)
    with migrating(url, "0007") as (connection, _):
        for number, top1 in ((0, 0.1), (1, 0.3), (2, 0.2)):
            connection.exec_driver_sql(
                "INSERT INTO versions (version, manifest, created_s, top1) VALUES (?, 'x', ?, ?)",
                (number, 10 + number, top1),
            )
        for number, phase in ((1, "committed"), (2, "selection")):
            row = (number, phase, 0, msgspec.json.encode(state))
            connection.exec_driver_sql("INSERT INTO rounds VALUES (?, ?, ?, ?)", row)
        if paused:
            connection.exec_driver_sql("INSERT INTO facts VALUES ('pause', ?)", (pause.encode(),))
    database = Database(url)
    with database.transaction() as tx:
        tx.name_first_task("keyboard")
        tx.name_first_task("another")  # there is none any more
    with database.transaction() as tx:
        (record,) = tx.tasks()
        assert (record.name, record.state.committed, record.state.created_s) == ("keyboard", 1, 10.0)
        assert (record.state.best_top1, record.state.since_best) == (0.3, 1)
        assert (record.state.status is Status.PAUSED, record.state.reason) == (paused, "night" if paused else "")
        assert [one.task for one in tx.open_rounds()] == [tx.round(2).task] == ["keyboard"]
        assert {version.task for version in tx.versions(9)} == {"keyboard"}
    database.close()
    with migrating(url, "head") as (connection, config):
        command.downgrade(config, "0007")
        kept = connection.exec_driver_sql("SELECT value FROM facts WHERE name = 'pause'").scalar()
        assert (kept is None) == (not paused)
        assert not paused or msgspec.json.decode(kept)["reason"] == "night"


@contextlib.contextmanager
def migrating(url: str, revision: str):
    """An old database, brought to that schema."""
    engine = sa.create_engine(url)
    config = Config()
    config.set_main_option("script_location", str(Path(coordinator.shell.__file__).parent / "migrations"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        yield connection, config
    engine.dispose()
