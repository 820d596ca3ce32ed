"""Databases of former releases, killed in the middle of a round, lose nothing on the way to the present one."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade as alembic_upgrade
from alembic.runtime.migration import MigrationContext
from click.testing import CliRunner

from coordinator.__main__ import cli
from coordinator.averaging import do_job
from coordinator.config import CoordinatorConfig, OptimizerName, ServerConfig
from coordinator.core.round import AbandonCause, Phase
from coordinator.core.seats import SeatState
from coordinator.driver import Driver
from coordinator.inbox import Connected, JobEnded, MessageArrived, Ticked
from coordinator.jobs import Metrics
from coordinator.shell import schema
from coordinator.shell.backup import missing, restore
from coordinator.shell.blobs import FileBlobs
from coordinator.shell.database import Database, database_file
from coordinator.shell.packs import PackedBlobs
from coordinator.shell.tables import METADATA
from models.manifest import Manifest
from tests.coordinator.fakes import POPULATION, FakeClock, FakeTransport, FakeWorker, task_config
from tests.coordinator.model_folder import INITIAL, write_model
from tests.coordinator.shell.upgrade.make_old import HERE, RELEASES
from wire import frame, topics
from wire.errors import ConfigError
from wire.identifiers import DeviceId
from wire.messages import Assignment, Receipt, Verdict
from wire.parameters import weights_from_bytes

KILLED_AT_S = 1_000_100.0
"""On the scenario's clock, a little after its end."""
SMALL_PART_BYTES = 327
"""The scenario cuts a small report in two, because what is stored here should be small."""


def old_rows(revision: str) -> dict[str, list[dict]]:
    """Every row of a release's database, by table."""
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.executescript((HERE / revision / "coordinator.sql").read_text())
        database.row_factory = sqlite3.Row
        names = [row["name"] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {name: [dict(row) for row in database.execute(f'SELECT * FROM "{name}"')] for name in names}
    return {name: rows for name, rows in found.items() if not name.startswith("sqlite_")}


def old_folder(revision: str, folder: Path) -> Path:
    """A copy of a release's data folder."""
    shutil.copytree(HERE / revision, folder)
    with contextlib.closing(sqlite3.connect(database_file(folder))) as database:
        database.executescript((folder / "coordinator.sql").read_text())
    return folder


def old_postgresql(revision: str, url: str) -> None:
    """The same rows in PostgreSQL, in the tables of that time."""
    engine = sa.create_engine(url)
    config = schema.migrations()
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        alembic_upgrade(config, revision)
        tables = sa.MetaData()
        tables.reflect(connection)
        rows = old_rows(revision)
        for table in tables.sorted_tables:
            if table.name == "alembic_version" or not rows[table.name]:
                continue
            booleans = {column.name for column in table.columns if isinstance(column.type, sa.Boolean)}
            connection.execute(
                table.insert(),
                [{key: bool(v) if key in booleans else v for key, v in row.items()} for row in rows[table.name]],
            )
    engine.dispose()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def old(request, tmp_path):
    """Makes the data folder and the database of a revision; gives the folder and the URL."""

    def make(revision: str) -> tuple[Path, str]:
        folder = old_folder(revision, tmp_path / "data")
        if request.param == "sqlite":
            return folder, f"sqlite:///{database_file(folder)}"
        url = request.getfixturevalue("postgresql")
        old_postgresql(revision, url)
        return folder, url

    return make


@contextlib.contextmanager
def opened(url: str):
    database = Database(url)
    try:
        yield database
    finally:
        database.close()


def rows_of(url: str) -> dict[str, list[dict]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        tables = sa.MetaData()
        tables.reflect(connection)
        found = {
            table.name: [dict(row) for row in connection.execute(table.select()).mappings()]
            for table in tables.sorted_tables
        }
    engine.dispose()
    return found


@pytest.mark.parametrize("revision", RELEASES)
def test_a_stored_database_has_rows_in_every_table(revision):
    empty = {name for name, rows in old_rows(revision).items() if not rows}
    assert empty == set()


@pytest.mark.parametrize("revision", RELEASES)
def test_every_row_keeps_its_values(old, revision):
    _, url = old(revision)
    with opened(url):
        pass
    found, before = rows_of(url), old_rows(revision)
    changed = {("devices", "online"), ("rounds", "state"), ("alembic_version", "version_num")}
    renamed = {("reports", "sha256"): "blob"}
    for table, rows in before.items():
        for row in rows:
            kept = {renamed.get((table, key), key): row[key] for key in row if (table, key) not in changed}
            assert any(kept.items() <= now.items() for now in found[table]), (table, kept)
    online = {row["device"]: bool(row["online"]) for row in before["devices"] if "online" in row}
    assert (
        online.items() <= {row["device"]: row["presence"] != "away" for row in found["devices"]}.items() or not online
    )


@pytest.mark.parametrize("revision", RELEASES)
def test_every_rounds_state_keeps_its_meaning(old, revision):
    _, url = old(revision)
    before = {row["number"]: json.loads(row["state"]) for row in old_rows(revision)["rounds"]}
    with opened(url) as database, database.transaction() as view:
        committed, abandoned, current = (view.round(number) for number in (1, 2, 3))
        assert (committed.phase, committed.version) == (Phase.COMMITTED, 1)
        assert (abandoned.phase, abandoned.cause) == (Phase.ABANDONED, AbandonCause.TOO_FEW_DEVICES)
        assert next(iter(view.open_rounds()), None) == current
        assert view.counters()["rounds_abandoned:too-few-devices"] == 1
        for one in (committed, abandoned, current):
            was = before[one.number]
            assert one.reason == was["reason"]
            assert {d: (s.state.value, s.attempt) for d, s in one.seats.items()} == {
                device: (seat["state"], seat["attempt"]) for device, seat in was["seats"].items()
            }
            assert one.working == len(one.devices(SeatState.WORKING))
            assert one.reported == len(one.devices(SeatState.REPORTED))
            assert (one.rules.goal, one.rules.minimum, one.seed) == (3, 2, was["seed"])
        assert (current.working, current.reported) == (3, 1)
        assert [entry.target for entry in view.audit(10)] == (["kim", "f"] if revision >= "0003" else [])


@pytest.mark.parametrize("revision", RELEASES)
def test_the_round_goes_on_where_it_was_killed(old, revision, tmp_path, monkeypatch):
    monkeypatch.setattr(frame, "CHUNK_PART_BYTES", SMALL_PART_BYTES)
    folder, url = old(revision)
    write_model(tmp_path / "model")
    artifacts, private = FileBlobs(folder / "artifacts"), PackedBlobs(folder / "private")
    server = ServerConfig(optimizer=OptimizerName.FEDAVGM, learning_rate=1.0, momentum=0.5)
    config = CoordinatorConfig(task=task_config(tmp_path / "model", goal=3, over_selection=4 / 3, server=server))
    transport, worker = FakeTransport(), FakeWorker()
    with opened(url) as database:
        with database.transaction() as tx:
            tx.name_first_task(config.task.name)
        driver = Driver(
            config, database, artifacts, private, transport, worker, FakeClock(KILLED_AT_S), np.random.default_rng(5)
        )
        driver.resume()
        driver.handle(Connected())
        driver.handle(Ticked())
        assert transport.to("e", Assignment), "its assignment was decided, and not sent, before the kill"

        def send(device: str) -> Verdict:
            payload = (folder / "outbox" / device).read_bytes()
            driver.handle(MessageArrived(topics.up(POPULATION, DeviceId(device), "report", 1), payload))
            return transport.to(device, Receipt)[-1].verdict

        assert [send("b"), send("c")] == [Verdict.ACCEPTED] * 2
        for job in list(worker.jobs):
            worker.jobs.remove(job)
            result = do_job(job, artifacts, private, lambda *_: Metrics(0.25, 0.5, 2.0))
            driver.handle(JobEnded(result))
        assert send("b") is Verdict.DUPLICATE
        with database.transaction() as view:
            assert view.round(3).phase is Phase.COMMITTED
            version = view.current_version()
            assert [record.version for record in view.versions(10)] == [0, 1, 2]
    manifest = Manifest.decode(artifacts.get(version.manifest))
    weights = weights_from_bytes(artifacts.get(manifest.weights.sha256), manifest.layout)
    mean = (0.01 * 1 + 0.02 * 2 + 0.03 * 3) / 6  # of both rounds; the momentum of the first came along
    np.testing.assert_allclose(weights, INITIAL + mean + 1.5 * mean, rtol=1e-5)


@pytest.mark.parametrize("revision", RELEASES)
def test_the_tables_are_those_that_the_code_uses(old, revision):
    _, url = old(revision)
    with opened(url):
        pass
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


@pytest.mark.parametrize("revision", RELEASES)
def test_the_database_is_copied_before_it_is_changed(tmp_path, revision):
    folder = old_folder(revision, tmp_path / "data")
    with opened(f"sqlite:///{database_file(folder)}"):
        pass
    (kept,) = folder.glob("coordinator.sqlite.*")
    assert kept.name == f"coordinator.sqlite.{revision}"
    assert kept.stat().st_mode & 0o777 == 0o600
    with opened(f"sqlite:///{database_file(folder)}"):
        pass
    assert list(folder.glob("coordinator.sqlite.*")) == [kept], "nothing is changed the second time"
    with contextlib.closing(sqlite3.connect(kept)) as database:
        assert "\n".join(database.iterdump()) + "\n" == (folder / "coordinator.sql").read_text()


class StoppedHereError(Exception):
    pass


def test_stopped_at_any_statement_it_is_as_it_was(tmp_path):
    folder = old_folder("0001", tmp_path / "data")
    url, before = f"sqlite:///{database_file(folder)}", old_rows("0001")
    for statements in range(1, 1000):
        left = [statements]

        def count_down(left=left) -> None:
            left[0] -= 1
            if not left[0]:
                raise StoppedHereError

        try:
            Database(url, count_down).close()
        except StoppedHereError:
            found = rows_of(url)
            if found.get("alembic_version") != before["alembic_version"]:
                break  # it was done with
            assert {name: len(rows) for name, rows in found.items()} == {n: len(r) for n, r in before.items()}
            assert "online" in found["devices"][0]
        else:
            break
    assert statements > 20
    with opened(url) as database, database.transaction() as view:
        assert view.round(3).reported == 1


@pytest.mark.parametrize("migrate", [True, False])
def test_a_database_of_a_newer_program_is_left_alone_and_the_message_says_so(old, migrate):
    _, url = old("0003")
    with opened(url):
        pass
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    before = rows_of(url)
    with pytest.raises(ConfigError, match=r"tables of version 9999.*a newer Nightjar made them"):
        Database(url, migrate=migrate)
    assert rows_of(url) == before
    engine.dispose()


@pytest.mark.parametrize("revision", RELEASES)
def test_an_old_backup_can_be_restored(tmp_path, revision):
    saved = old_folder(revision, tmp_path / "saved")
    before = saved.joinpath("coordinator.sqlite").read_bytes()
    restore(saved, tmp_path / "new", now_s=KILLED_AT_S)
    assert saved.joinpath("coordinator.sqlite").read_bytes() == before
    assert missing(tmp_path / "new") == []
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"artifacts", "private", "coordinator.sqlite"}
    with opened(f"sqlite:///{database_file(tmp_path / 'new')}") as database, database.transaction() as view:
        assert view.round(3).reported == 1
        assert view.last_round_number() > 1_000_000


def test_commands_ask_for_the_upgrade_and_then_answer(tmp_path, monkeypatch):
    old_folder("0001", tmp_path / "data")
    write_model(tmp_path / "model")
    (tmp_path / "coordinator.toml").write_text('data_dir = "data"\n[task]\nmodel = "model"\n')
    monkeypatch.chdir(tmp_path)
    asked = CliRunner().invoke(cli, ["round", "list", "--json"])
    assert isinstance(asked.exception, ConfigError)
    assert "nightjar-coordinator db upgrade" in str(asked.exception)
    assert CliRunner().invoke(cli, ["db", "upgrade", "--json"]).exit_code == 0
    listed = CliRunner().invoke(cli, ["round", "list", "--json"])
    assert [row["number"] for row in json.loads(listed.stdout)] == [1, 2, 3]
