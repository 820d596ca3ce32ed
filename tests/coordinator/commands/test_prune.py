"""``prune`` shows what is not needed, and deletes it only when told."""

import os
from dataclasses import replace as replaced

import pytest
from msgspec.structs import replace

from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.disk_use import DiskPoint
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.reserve import FILE as RESERVE
from nightjar.coordinator.storage.reserve import RESERVE_BYTES
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.host.sizes import size_text
from nightjar.host.trusted_time import ClockReading
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.coordinator.commands.site import Site
from tests.faults.small_disk import MountedDisk, small_disk
from tests.skips import NOT_ALLOWED


def superseded(site, many):
    """Versions after the site's own that were current once, each with files of its own."""
    with site.transaction() as tx:
        first = tx.version(0)
        for number in range(2, many + 2):
            manifest = site.artifacts.put(replace(site.manifest, version=number).encode())
            tx.add_version(
                replace(
                    first,
                    version=number,
                    manifest=manifest,
                    created_s=WallClock().now_s() - 3600,
                    rollout=Rollout(stage=Stage.CURRENT if number == many + 1 else Stage.SUPERSEDED),
                )
            )


def test_it_shows_first_and_deletes_on_request(ask, run, site):
    superseded(site, 40)
    found = ask("prune")
    assert found["versions"] > 0
    assert not found["deleted"]
    assert ask("prune") | {"disk": None} == found | {"disk": None}, "nothing was deleted"
    done = ask("prune", "--yes")
    assert done["deleted"]
    assert done["versions"] == found["versions"]
    assert ask("prune")["versions"] == 0
    status, out, _err = run("prune", "--config", site.config)
    assert (status, out.splitlines()[0]) == (0, "there is nothing to delete")
    entry = ask("audit")[0]
    assert entry["action"] == "prune"
    assert f"{done['versions']} versions' files" in entry["after"]


def test_where_nothing_is_to_delete_it_says_so_and_the_audit_has_no_entry(ask, run, site):
    entries = ask("audit")
    for asked in ((), ("--yes",)):
        status, out, err = run("prune", *asked, "--config", site.config)
        assert (status, err, out.splitlines()[0]) == (0, "", "there is nothing to delete")
    assert ask("audit") == entries


def test_the_disk_is_measured_now_and_doctor_says_the_same(ask, run, site):
    with site.transaction() as tx:
        tx.save_disk_points((DiskPoint(WallClock().now_s() - 60, 1, 10**15),))
    (site.data / "large").write_bytes(bytes(30_000_000))
    found = ask("prune")["disk"]
    assert found["used_bytes"] >= 30_000_000
    said = [each["found"] for each in ask("doctor") if each["category"] == "storage"]
    assert any(f"{size_text(found['used_bytes'])} used" in each for each in said), said


@pytest.fixture
def full(tmp_path):
    """A site with a reserve, on a disk that can be filled."""
    with small_disk(tmp_path / "small", 60 * 2**20) as disk:
        if not isinstance(disk, MountedDisk):
            pytest.skip(f"{NOT_ALLOWED} mount a disk")
        site = Site(disk.folder)
        superseded(site, 40)
        (site.data / RESERVE).write_bytes(bytes(RESERVE_BYTES))
        yield disk, site


def test_on_a_disk_without_a_free_byte_it_deletes_what_is_not_needed(full, run):
    """Proven before: 'disk I/O error; free some space on its disk', by the command that is to free it."""
    disk, site = full
    disk.fill(0)
    for path in site.data.glob("*.sqlite-*"):
        path.unlink()  # as after a clean end of the service
    disk.fill(0)
    arguments = ("prune", "--config", site.config)
    status, _out, err = run(*arguments)
    assert (status, "'prune --yes' deletes" in err) == (UnavailableError.exit_status, True)
    status, out, err = run(*arguments, "--yes")
    assert (status, err) == (0, "")
    assert "versions' files" in out


def test_the_reserve_stays_where_pruning_works_without_it_or_is_refused(full, run):
    disk, site = full
    with site.transaction() as tx:
        tx.save_disk_points((DiskPoint(WallClock().now_s() + 3600, 1, 10**15),))
    disk.fill(0)
    os.truncate(disk.folder / "ballast", (disk.folder / "ballast").stat().st_size - 4 * 2**20)
    arguments = ("prune", "--yes", "--config", site.config)
    status, _out, err = run(*arguments)
    assert (status, "clock of this machine is behind" in err) == (ConfigError.exit_status, True)
    with site.transaction() as tx:
        tx.save_disk_points(())
    status, out, err = run(*arguments)
    assert (status, err, "versions' files" in out) == (0, "", True)
    assert (site.data / RESERVE).is_file()


def test_a_database_that_does_not_work_for_another_reason_takes_no_reserve(run, site):
    (site.data / RESERVE).write_bytes(bytes(RESERVE_BYTES))
    database_file(site.data).write_bytes(b"no database" * 1000)
    status, _out, err = run("prune", "--yes", "--config", site.config)
    assert (status, RESERVE in err) == (UnavailableError.exit_status, False)
    assert (site.data / RESERVE).is_file()


@pytest.mark.parametrize("wrong_by_days", [-400, 7000])
def test_nothing_is_deleted_by_a_clock_that_the_service_would_not_trust(ask, run, site, monkeypatch, wrong_by_days):
    """Proven before: a clock that was 20 years ahead deleted all tokens and claims, which were good for weeks."""
    now_s = WallClock().now_s()
    superseded(site, 40)
    ask("token", "create", "good-for-90-days", "--role", "admin")
    with site.transaction() as tx:
        tx.save_trusted_time(now_s)
    reading = ClockReading(now_s + wrong_by_days * 86_400, 1.0, synchronised=False)
    monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: reading)
    for asked in ((), ("--yes",)):
        status, _out, err = run("prune", *asked, "--config", site.config)
        assert (status, "the newest time known to be right" in err) == (ConfigError.exit_status, True), err
    assert [each["name"] for each in ask("token", "list")] == ["good-for-90-days"]
    monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: replaced(reading, wall_s=now_s))
    assert ask("prune", "--yes")["versions"] > 0


def test_a_version_without_files_is_said_to_be_one(ask, run, site):
    superseded(site, 40)
    ask("prune", "--yes")
    gone = next(each["version"] for each in ask("model", "list", "--limit", "50") if each["pruned"])
    status, _out, err = run("model", "export", gone, "--out", site.data / "out", "--config", site.config)
    assert status == 2
    assert f"the files of version {gone} were deleted" in err
