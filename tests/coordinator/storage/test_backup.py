import contextlib
import os
import stat
import threading

import pytest
from msgspec.structs import replace

from nightjar.coordinator.enrolment.claims import Claim, ClaimRefused
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.coordinator.rounds.round import AbandonCause, Phase
from nightjar.coordinator.storage.backup import (
    ARTIFACTS,
    ROUNDS_SKIPPED,
    back_up,
    keys_in,
    missing,
    restore,
    restore_beside,
)
from nightjar.coordinator.storage.blobs import MOST_BYTES, FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.lock import only_one
from nightjar.coordinator.storage.private import PrivateTables
from nightjar.coordinator.storage.signing_key import KEY_FILE, load_signer
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import DpConfig, Privacy
from nightjar.coordinator.tasks.task import OVER, RuleRead, step
from nightjar.coordinator.tls.authority import Authority
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER
from nightjar.host.locks import folder_lock
from nightjar.wire.errors import ConfigError, IntegrityError, LocalProtocolError, UnavailableError
from tests.coordinator.commands.site import REPORT, Site, report


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def view(folder):
    database = Database(f"sqlite:///{database_file(folder)}")
    try:
        with database.transaction() as tx:
            return (
                next(iter(tx.open_rounds()), None),
                tx.last_round_number(),
                tx.reports(2),
                tx.round(tx.last_round_number()),
            )
    finally:
        database.close()


def frame_of(folder, kept):
    with contextlib.closing(Database(f"sqlite:///{database_file(folder)}")) as database:
        return PrivateTables(database).frame(kept.round, kept.device, kept.attempt)


def readable(folder, kept):
    try:
        return bool(frame_of(folder, kept))
    except IntegrityError:
        return False


def test_a_backup_has_no_bytes_of_reports_that_were_deleted(site, tmp_path):
    with contextlib.closing(Database(f"sqlite:///{database_file(site.data)}")) as database:
        with database.transaction() as tx:
            tx.drop_frames(2)
        back_up(site.data, tmp_path / "saved")
    assert REPORT not in database_file(tmp_path / "saved").read_bytes()
    assert REPORT not in database_file(site.data).read_bytes(), "overwritten in the database itself, too"


def test_a_backup_has_the_accepted_reports_of_the_open_round(site, tmp_path):
    size_bytes = back_up(site.data, tmp_path / "saved")
    assert size_bytes > len(REPORT)
    assert missing(tmp_path / "saved") == []
    _, _, [kept], _ = view(tmp_path / "saved")
    assert frame_of(tmp_path / "saved", kept) == REPORT


def test_a_backup_deletes_what_killed_ones_left_and_not_what_another_one_writes(site, tmp_path):
    """Proven before: a killed nightly backup, named by its date, left accepted reports and keys there for ever."""
    left, written, mine = (tmp_path / f".nightjar-backup-{name}" for name in ("2026-11-28", "2026-11-29", "notes"))
    for folder in (left, written):
        (folder / ARTIFACTS).mkdir(parents=True)
        (folder / KEY_FILE).write_text("a key")
    mine.write_text("no folder")
    with folder_lock(written):
        back_up(site.data, tmp_path / "saved")
        assert (left.exists(), written.exists(), mine.exists()) == (False, True, True)
        with pytest.raises(ConfigError, match="another backup is being written"):
            back_up(site.data, tmp_path / "2026-11-29")
        assert (written / KEY_FILE).exists()


def test_a_backup_leaves_out_what_cannot_be_an_artifact(site, tmp_path):
    """Proven before: a named pipe ended each backup, "free some space", and a sparse file of 3 GB took 3 GB."""
    folder = site.data / ARTIFACTS / "ef"
    folder.mkdir(exist_ok=True)
    os.mkfifo(folder / ("ef" * 32))
    os.mkfifo(folder / "pipe")
    with (folder / ("ef" * 31 + "00")).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    (folder / ("ef" * 31 + "01")).symlink_to(tmp_path / "nothing")
    assert back_up(site.data, tmp_path / "saved") < 10_000_000
    assert missing(tmp_path / "saved") == []
    assert not (tmp_path / "saved" / ARTIFACTS / "ef").exists()


def test_a_restored_coordinator_goes_on_with_its_round_and_with_unused_numbers(site, tmp_path):
    back_up(site.data, tmp_path / "saved")
    restored = restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    assert restored >= 2 + ROUNDS_SKIPPED
    current, last, [kept], marker = view(tmp_path / "new")
    assert (current.number, current.reported) == (2, 1)
    assert last == restored
    assert (marker.phase, marker.cause) == (Phase.ABANDONED, AbandonCause.RESTORED)
    assert frame_of(tmp_path / "new", kept) == REPORT


def test_restored_a_second_time_from_the_same_backup_it_uses_no_number_of_the_first(site, tmp_path):
    back_up(site.data, tmp_path / "saved")
    first, second = (restore(tmp_path / "saved", tmp_path / name, 1e6 + n) for n, name in ((0, "a"), (500, "b")))
    assert second - first >= 500  # more than there can have been rounds in so many seconds


def test_a_restored_coordinator_signs_as_the_lost_one_did(site, tmp_path):
    lost = load_signer(site.data)
    back_up(site.data, tmp_path / "saved", with_keys=True)
    restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    assert load_signer(tmp_path / "new").public == lost.public  # which also checks who may read it


def test_a_backup_holds_no_key_and_what_is_restored_from_it_makes_no_other(site, tmp_path):
    lost = load_signer(site.data)
    Authority(site.data / AUTHORITY_FOLDER)
    back_up(site.data, tmp_path / "saved")
    assert b"PRIVATE KEY" not in b"".join(p.read_bytes() for p in (tmp_path / "saved").rglob("*") if p.is_file())
    restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    with pytest.raises(ConfigError, match="restore it"):
        load_signer(tmp_path / "new")  # devices would obey no other key
    (tmp_path / "new" / KEY_FILE).write_bytes((site.data / KEY_FILE).read_bytes())
    (tmp_path / "new" / KEY_FILE).chmod(0o600)
    assert load_signer(tmp_path / "new").public == lost.public


def modes(*folders):
    """What somebody else may do with each path that is there, the folders themselves among them."""
    found = [path for folder in folders for path in (folder, *folder.rglob("*"))]
    return {str(path): oct(stat.S_IMODE(path.stat().st_mode)) for path in found}


def test_whatever_is_made_is_its_owners_alone_from_the_first_moment(site, tmp_path):
    before = os.umask(0)  # nothing is closed by itself
    seen = {}
    try:
        with only_one(tmp_path / "data"):
            database = Database(f"sqlite:///{database_file(tmp_path / 'data')}")
            load_signer(tmp_path / "data")
            Authority(tmp_path / "data" / AUTHORITY_FOLDER)
            FileBlobs(tmp_path / "data" / ARTIFACTS).put(b"weights")
            assert (tmp_path / "data" / "coordinator.sqlite-wal").exists()
            seen |= modes(tmp_path / "data")
            database.close()
        back_up(site.data, tmp_path / "saved")
        back_up(tmp_path / "data", tmp_path / "saved with keys", with_keys=True)
        restore(tmp_path / "saved", tmp_path / "new", 1.0)
        restore(tmp_path / "saved with keys", tmp_path / "other", 1.0)
    finally:
        os.umask(before)
    seen |= modes(tmp_path / "saved", tmp_path / "saved with keys", tmp_path / "new", tmp_path / "other")
    assert len(seen) > 30
    open_to_others = {path: mode for path, mode in seen.items() if mode not in ("0o600", "0o700")}
    assert open_to_others == {}


def test_a_folder_and_a_database_of_an_earlier_version_are_closed(tmp_path):
    (tmp_path / "data").mkdir(mode=0o755)
    path = database_file(tmp_path / "data")
    path.touch(mode=0o644)
    with only_one(tmp_path / "data"), contextlib.closing(Database(f"sqlite:///{path}")):
        assert set(modes(tmp_path / "data").values()) <= {"0o600", "0o700"}


def test_a_backup_made_while_rounds_come_and_go_is_whole(site, tmp_path):
    """A writer ends rounds, deletes their reports and opens the next as fast as it can."""
    stop = threading.Event()

    def live() -> None:
        database = Database(f"sqlite:///{database_file(site.data)}")
        number = 2
        while not stop.wait(0.002):
            with database.transaction() as tx:
                old = next(iter(tx.open_rounds()), None)
                tx.save_round(replace(old, phase=Phase.ABANDONED, closed_at_s=1.0))
                number += 1
                tx.save_round(replace(old, number=number))
                tx.drop_frames(number - 1)
                tx.add_report(report(number), f"report {number}".encode())
        database.close()

    writer = threading.Thread(target=live)
    writer.start()
    try:
        for attempt in range(5):
            back_up(site.data, tmp_path / f"saved-{attempt}")
    finally:
        stop.set()
        writer.join()
    assert all(missing(tmp_path / f"saved-{attempt}") == [] for attempt in range(5))


def test_what_a_killed_restore_left_goes_with_the_next_one(site, tmp_path):
    back_up(site.data, tmp_path / "backup")
    left = tmp_path / "new" / ".restoring-killed"
    left.mkdir(parents=True)
    (left / "coordinator.sqlite").write_bytes(bytes(1000))
    restore(tmp_path / "backup", tmp_path / "new", 1e9)
    assert not left.exists()


def test_a_damaged_backup_is_not_restored(site, tmp_path):
    back_up(site.data, tmp_path / "saved")
    for path in (tmp_path / "saved" / ARTIFACTS).rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ConfigError, match="missing or damaged"):
        restore(tmp_path / "saved", tmp_path / "new", now_s=0.0)
    assert not database_file(tmp_path / "new").exists()


def test_a_backup_that_fails_leaves_nothing(site, tmp_path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nightjar.coordinator.storage.backup.shutil.copyfile", full)
    with pytest.raises(Exception, match="No space left"):
        back_up(site.data, tmp_path / "saved")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("saved")] == []


def test_only_a_new_folder_is_written_and_only_a_backup_is_read(site, tmp_path):
    (tmp_path / "there").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        back_up(site.data, tmp_path / "there")
    with pytest.raises(ConfigError, match="no coordinator's database"):
        back_up(tmp_path / "nothing", tmp_path / "saved")
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"Not a directory; .* give another folder$"):
        back_up(site.data, tmp_path / "file" / "saved")
    with pytest.raises(ConfigError, match="not a backup"):
        restore(tmp_path / "there", tmp_path / "new", now_s=0.0)


def test_the_authoritys_key_is_in_a_backup_only_when_that_is_asked_for(site, tmp_path):
    with pytest.raises(ConfigError, match="there is no key"):
        back_up(site.data, tmp_path / "none", with_keys=True)
    held = Authority(site.data / AUTHORITY_FOLDER)
    held.rotate()
    back_up(site.data, tmp_path / "daily")
    assert keys_in(tmp_path / "daily") == set()
    back_up(site.data, tmp_path / "whole", with_keys=True)
    copied = tmp_path / "whole" / AUTHORITY_FOLDER
    assert {stat.S_IMODE(path.stat().st_mode) for path in copied.iterdir()} == {0o600}
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    restore(tmp_path / "whole", tmp_path / "new", 2.0)
    assert Authority(tmp_path / "new" / AUTHORITY_FOLDER).certificates() == held.certificates()


def test_an_authority_that_is_there_is_not_replaced_by_an_older_one(site, tmp_path):
    Authority(site.data / AUTHORITY_FOLDER)
    back_up(site.data, tmp_path / "whole", with_keys=True)
    newer = Authority(tmp_path / "new" / AUTHORITY_FOLDER)
    restore(tmp_path / "whole", tmp_path / "new", 6.0)
    assert Authority(tmp_path / "new" / AUTHORITY_FOLDER).certificates() == newer.certificates()


def test_a_claim_of_a_backup_cannot_be_used_a_second_time(site, tmp_path):
    claim = Claim(name="kitchen", sha256=64 * "a", device="pi", created_s=0.0, expires_s=1e12)
    with contextlib.closing(Database(f"sqlite:///{database_file(site.data)}")) as database:
        Register(database).add_claim(claim, "test")
    back_up(site.data, tmp_path / "saved")
    restore(tmp_path / "saved", tmp_path / "new", 6.0)
    with contextlib.closing(Database(f"sqlite:///{database_file(tmp_path / 'new')}")) as database:
        register = Register(database)
        assert register.claims() == []
        assert isinstance(register.redeem(claim.sha256, 64 * "b", "", "", 7.0), ClaimRefused)
        with database.transaction() as view:
            assert ("restore", "revoke-claim") in {(each.who, each.action) for each in view.audit(9)}


NOISE = NoiseTerms(clip_norm=1.0, devices=9, multiplier=2.0, separation=4, key="ab" * 32, seeds={"0/0": "cd" * 16})


@pytest.fixture
def private(site):
    """A site whose task is private and has noised a round."""
    dp = DpConfig(epsilon=5.0, clip_norm=1.0)
    with (
        contextlib.closing(Database(f"sqlite:///{database_file(site.data)}")) as database,
        database.transaction() as tx,
    ):
        record = tx.tasks()[0]
        settings = replace(record.settings, privacy=Privacy.DP, rounds=8, minimum_separation=4, dp=dp)
        tx.save_task(TaskRecord(state=replace(record.state, noise=NOISE, noised=(1,)), settings=settings))
    return site


def tasks_of(folder):
    with contextlib.closing(Database(f"sqlite:///{database_file(folder)}")) as database, database.transaction() as tx:
        return tx.tasks()


@pytest.mark.parametrize("with_keys", [False, True])
def test_no_backup_holds_what_noise_is_drawn_from(private, tmp_path, with_keys):
    if with_keys:
        load_signer(private.data)
    back_up(private.data, tmp_path / "saved", with_keys=with_keys)
    held = b"".join(path.read_bytes() for path in (tmp_path / "saved").rglob("*") if path.is_file())
    assert tasks_of(private.data)[0].state.noise == NOISE
    assert [each for each in (NOISE.key, NOISE.seeds["0/0"]) if each.encode() in held] == []


def test_restoring_ends_private_tasks_and_counts_all_that_may_have_been_noised(private, tmp_path):
    back_up(private.data, tmp_path / "saved")
    restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    (record,) = tasks_of(tmp_path / "new")
    woken = step(record.state, RuleRead(9.0, record.settings.stop_rule())) if record.state.status in OVER else None
    ended = (len(record.state.noised), record.ledger().spent == record.ledger().epsilon, woken == record.state)
    assert ended == (8, True, True), "no start wakes it"


def test_a_restored_coordinator_draws_no_noise_that_was_drawn_before(private, tmp_path):
    """Also beside a database that was dumped with all its secrets: the old version less the new one has no noise."""
    drawn = {NOISE.noise(number, 5).tobytes() for number in range(8)}
    back_up(private.data, tmp_path / "saved")
    restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    dumped = f"sqlite:///{database_file(private.data)}"
    restore_beside(dumped, "", tmp_path / "saved", tmp_path / "beside", 1000.0)
    noises = [tasks_of(folder)[0].state.noise for folder in (tmp_path / "new", private.data)]
    again = []
    for noise in noises:
        with contextlib.suppress(LocalProtocolError):
            again += [number for number in range(8) if noise.noise(number, 5).tobytes() in drawn]
    assert again == [], "these rounds would be noised as before"


def test_a_round_that_was_open_ends_with_its_private_task_and_its_reports_are_not_read(private, tmp_path):
    back_up(private.data, tmp_path / "saved")
    assert view(tmp_path / "saved")[0].number == 2
    restore(tmp_path / "saved", tmp_path / "new", now_s=1000.0)
    with (
        contextlib.closing(Database(f"sqlite:///{database_file(tmp_path / 'new')}")) as database,
        database.transaction() as tx,
    ):
        ended, (kept,), still_open = tx.round(2), tx.reports(2), tx.open_rounds()
    told = "how often its task was noised since is unknown" in ended.reason
    found = (ended.phase, ended.cause, told, still_open, readable(tmp_path / "new", kept))
    assert found == (Phase.ABANDONED, AbandonCause.RESTORED, True, [], False), "devices refuse it, and it would go on"
