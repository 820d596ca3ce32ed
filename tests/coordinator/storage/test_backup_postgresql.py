"""The way of docs/operating.md to back a coordinator with PostgreSQL up, and back: pg_dump, then the rest."""

import contextlib
import os
import shutil
import subprocess

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from nightjar.coordinator.__main__ import cli
from nightjar.coordinator.commands.deployment import BACKUP
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.backup import ROUNDS_SKIPPED
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.wire.errors import ConfigError
from tests.coordinator.commands.site import REPORT, Site
from tests.coordinator.storage.postgresql import fresh_database

pytestmark = pytest.mark.postgresql


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed: apt install postgresql")
    return found


def libpq(url: str) -> str:
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


@pytest.fixture
def site(tmp_path, postgresql, monkeypatch):
    """A coordinator's folder, with its database in PostgreSQL."""
    Site(tmp_path, postgresql)
    (tmp_path / "coordinator.toml").write_text('data_dir = "new"\n[task]\nmodel = "model"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def save(site, url):
    dump = [program("pg_dump"), "--format=custom", f"--file={site / 'dump'}", libpq(url)]
    subprocess.run(dump, check=True, capture_output=True)
    of_the_site = {"NIGHTJAR_DATABASE_URL": libpq(url), "NIGHTJAR_DATA_DIR": "data"}
    done = CliRunner().invoke(cli, ["backup", str(site / "saved")], env=of_the_site)
    assert done.exit_code == 0, done.exception


def test_restored_from_the_dump_and_the_folders_it_goes_on_with_unused_numbers(
    site, postgresql, postgresql_server, monkeypatch
):
    save(site, postgresql)
    empty = fresh_database(postgresql_server, f"restored_{os.getpid()}")
    load = [program("pg_restore"), "--single-transaction", f"--dbname={libpq(empty)}", site / "dump"]
    subprocess.run(load, check=True, capture_output=True)
    monkeypatch.setenv("NIGHTJAR_DATABASE_URL", libpq(empty))
    done = CliRunner().invoke(cli, ["restore", str(site / "saved")])
    assert done.exit_code == 0, done.exception
    with contextlib.closing(Database(empty)) as database, database.transaction() as view:
        current = view.round(2)
        assert (current.phase, current.reported) == (Phase.REPORTING, 1)
        assert view.last_round_number() >= 2 + ROUNDS_SKIPPED
        [report] = view.reports(2)
        assert PrivateTables(database).frame(2, report.device, report.attempt) == REPORT


def test_a_folder_that_lacks_what_the_database_names_is_refused(site, postgresql, monkeypatch):
    save(site, postgresql)
    monkeypatch.setenv("NIGHTJAR_DATABASE_URL", libpq(postgresql))
    next((site / "saved" / "artifacts").glob("*/*")).unlink()
    refused = CliRunner().invoke(cli, ["restore", str(site / "saved")])
    assert isinstance(refused.exception, ConfigError)
    assert "artifacts are missing or damaged" in str(refused.exception)


def test_the_doctor_knows_of_the_backup(site, postgresql):
    save(site, postgresql)
    with contextlib.closing(Database(postgresql)) as database, database.transaction() as view:
        assert view.last_audited(BACKUP)
