"""Backups: a folder with the database and the artifacts that it references, written while the service runs.

The database is copied first (``VACUUM INTO``: a consistent snapshot without deleted data), then the artifacts. These
are stored before any row references them, and never change.

Keys are copied only on request: whoever has them can sign orders to devices, issue certificates, and choose releases.
What the noise of private tasks is drawn from is never copied: a thief could take it off the versions that are published
after the backup. A restored coordinator does not know which rounds were noised since, so restoring ends these tasks
with their open rounds, and counts their whole epsilon as spent.

The releases' metadata that the owner signed is among the artifacts; the rest is signed again after restoring, with
versions from the clock.

A restored coordinator must not reuse a round's number: devices may still hold reports of rounds that the backup does
not have. So restoring adds an abandoned round with a number far ahead, and new rounds are numbered from there. The gap
grows with the age of the backup, because the same backup may have been restored before. Orders have separate numbers,
which are drawn anew at each start and do not depend on a backup (docs/adr/0036). A claim that was used after the backup
must not be usable again, so restoring revokes every claim.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.rounds.round import AbandonCause, Phase, Round
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.blobs import MOST_BYTES, WRITING, FileBlobs, disk, stored_in
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.release_metadata import FOLDER as RELEASES
from nightjar.coordinator.storage.release_metadata import ONLINE_KEY
from nightjar.coordinator.storage.restored_tasks import end_restored
from nightjar.coordinator.storage.schema import copy_sqlite
from nightjar.coordinator.storage.signing_key import KEY_FILE, KEYS_FILE
from nightjar.coordinator.tls.authority import CURRENT, FORMER
from nightjar.coordinator.tls.files import AUTHORITY_FOLDER
from nightjar.host.files import private_file, private_folder, put_folder_in_place, put_in_place, replace_file
from nightjar.host.locks import folder_lock
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError, rewording

ROUNDS_SKIPPED = 1_000_000
"""Far more rounds than can have passed since any backup. One more number is skipped for each second since the backup's
last round, which exceeds the rounds held since an earlier restore of the same backup."""

_UNFINISHED = ".nightjar-backup-"
"""Begins the name of a folder beside the backup that it becomes; nobody else's begins so."""
_RESTORING = ".restoring-"


def back_up(data_dir: Path, folder: Path, *, with_keys: bool = False, beside: bool = False) -> int:
    """Back up a coordinator's data, which may be in use.

    Args:
        data_dir: the coordinator's data folder.
        folder: for the backup; must not exist.
        with_keys: also copy the keys that :func:`keys_in` lists.
        beside: copy only what is beside a PostgreSQL database, for :func:`restore_beside`; ``pg_dump`` came first.

    Returns:
        Size of the backup in bytes.

    Raises:
        ConfigError: there is nothing to copy, or the folder exists already.
        UnavailableError: the disk is full or broken; no partial backup is left behind.
    """
    if not (beside or database_file(data_dir).is_file()):
        msg = f"there is no coordinator's database in {data_dir}; check data_dir in the configuration"
        raise ConfigError(msg)
    if with_keys and not keys_in(data_dir):
        msg = f"there is no key in {data_dir}: 'serve' makes them, or enrolment.signer has the authority's elsewhere"
        raise ConfigError(msg)
    if folder.exists():
        msg = f"{folder} exists already; give the backup a folder of its own"
        raise ConfigError(msg)
    with (
        rewording(UnavailableError, str(folder), "free some space there, or give another folder"),
        _unfinished(folder) as writing,
    ):
        if not beside:
            _copy_database(data_dir, writing)
        _copy_artifacts(data_dir, writing)
        lacking = [] if beside else missing(writing)
        if lacking:
            msg = f"{data_dir} lacks {len(lacking)} artifacts that its database names, such as {lacking[0]}"
            raise UnavailableError(msg)
        _copy_keys(data_dir, writing, with_keys=with_keys)
        put_folder_in_place(writing, folder)
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A new folder beside ``folder``, to be filled and renamed; what killed backups left there is deleted first."""
    for left in folder.parent.glob(f"{_UNFINISHED}*"):
        with suppress(OSError), folder_lock(left):  # of a backup that is being written, or of another user
            shutil.rmtree(left)
    writing = folder.with_name(_UNFINISHED + folder.name)
    try:
        writing.mkdir(parents=True, mode=0o700)
    except FileExistsError as error:
        msg = f"{writing} exists: another backup is being written there, or was killed, and then delete that folder"
        raise ConfigError(msg) from error
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, writing, ignore_errors=True)
        with suppress(OSError):  # such as on NFS, where the next backup cannot tell a killed one and leaves it
            ending.enter_context(folder_lock(writing))
        yield writing


def _copy_database(data_dir: Path, writing: Path) -> None:
    """Copy the database without the secrets of noise; what the first copy had of them is not even in free pages."""
    whole = writing / ".whole.sqlite"
    copy_sqlite(database_file(data_dir), whole)
    with closing(Database(_sqlite(whole), migrate=False)) as database, database.transaction() as view:
        for record in view.tasks():
            if record.state.noise is not None:
                view.save_task(replace(record, state=replace(record.state, noise=record.state.noise.without_secrets())))
    copy_sqlite(whole, database_file(writing))
    for path in writing.glob(f"{whole.name}*"):
        path.unlink()


def restore(folder: Path, data_dir: Path, now_s: float) -> int:
    """Restore a coordinator's data folder from a backup; returns the last round number that counts as used.

    Raises:
        ConfigError: the folder is no backup, or the data folder holds a database already.
        IntegrityError: the backup is damaged.
        UnavailableError: the disk is full or broken.
    """
    if not database_file(folder).is_file():
        msg = f"{folder} is not a backup: there is no {database_file(folder).name} in it"
        raise ConfigError(msg)
    if database_file(data_dir).exists():
        msg = f"{data_dir} holds a coordinator's database already; move it away first"
        raise ConfigError(msg)
    with disk(data_dir):
        private_folder(data_dir)
        for left in data_dir.glob(f"{_RESTORING}*"):  # by a restore that was killed
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_RESTORING, dir=data_dir) as place:
            arriving = Path(place) / database_file(folder).name
            copy_sqlite(database_file(folder), arriving)
            number = _fill(data_dir, folder, _sqlite(arriving), "", now_s)
            put_in_place(arriving, database_file(data_dir))
    return number


def restore_beside(url: str, artifacts_url: str, folder: Path, data_dir: Path, now_s: float) -> int:
    """Restore a coordinator's data folder next to a PostgreSQL database that has been restored already.

    Args:
        url: SQLAlchemy URL of the database; its tables are brought up to date.
        artifacts_url: S3-compatible store of the artifacts; empty for none.
        folder: the backup, with the folder ``artifacts``, which is filled with those that are kept elsewhere.
        data_dir: the data folder; may hold some of the files already.
        now_s: wall-clock time.

    Returns:
        The last round number that counts as used.

    Raises:
        ConfigError: the folder lacks an artifact that the database references.
        UnavailableError: the database does not work, or the disk is full or broken.
    """
    if not (folder / ARTIFACTS).is_dir():
        msg = f"{folder} is not a backup: there is no folder {ARTIFACTS} in it"
        raise ConfigError(msg)
    with disk(data_dir):
        private_folder(data_dir)
        return _fill(data_dir, folder, url, artifacts_url, now_s)


def _fill(data_dir: Path, folder: Path, url: str, artifacts_url: str, now_s: float) -> int:
    """Bring the tables up to date, copy the files they reference, skip round numbers; the last number used."""
    with closing(Database(url)) as database:
        lacking = _lacking(database, artifacts_url, folder)
        if lacking:
            msg = f"{folder} cannot be restored: {len(lacking)} artifacts are missing or damaged, such as {lacking[0]}"
            raise ConfigError(msg)
        _copy_artifacts(folder, data_dir)
        _copy_keys(folder, data_dir, with_keys=True)
        _end_claims(database, now_s)
        number = _skip_numbers(database, now_s)
        _end_noised(database, number, now_s)
        return number


def keys_in(folder: Path) -> set[str]:
    """Which keys a data folder or a backup holds: ``signing`` orders, ``authority`` (certificates), ``releases``."""
    places = {
        "signing": folder / KEY_FILE,
        "authority": folder / AUTHORITY_FOLDER / CURRENT,
        "releases": folder / RELEASES / ONLINE_KEY,
    }
    return {name for name, path in places.items() if path.is_file()}


def missing(folder: Path) -> list[str]:
    """Hashes of artifacts that a data folder's database references but that are missing or damaged."""
    with closing(Database(_sqlite(database_file(folder)), migrate=False)) as database:
        return _lacking(database, "", folder)


def _sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def _lacking(database: Database, artifacts_url: str, folder: Path) -> list[str]:
    with database.transaction() as view:
        names = [record.name for record in view.tasks()]
        held = [found(name) for name in names for found in (view.current_version, view.training_version)]
        signed = view.release_files().values()
    kept = open_artifacts(folder / ARTIFACTS, artifacts_url, database)
    needed = sorted({version.manifest for version in held if version is not None})
    for name in [each for each in needed if _readable(kept, each)]:
        manifest = Manifest.decode(kept.get(name))
        needed += [manifest.program.sha256, manifest.weights.sha256, manifest.vocabulary.sha256]
        needed += [each.sha256 for each in manifest.for_keyboards]
    return [name for name in (*needed, *signed) if not _readable(kept, name)]


def _readable(blobs: FileBlobs, sha256: str) -> bool:
    try:
        blobs.get(sha256)
    except RemoteProtocolError:
        return False
    return True


def _copy_artifacts(source: Path, target: Path) -> None:
    """Copy what can be an artifact; what damage left there, such as a named pipe or a file of any length, is not."""
    private_folder(target / ARTIFACTS)
    for path in stored_in(source / ARTIFACTS):
        copy = target / ARTIFACTS / path.parent.name / path.name
        if _can_be_artifact(path) and not copy.exists():
            private_folder(copy.parent)
            arriving = copy.with_name(f"{WRITING}{copy.name}")
            private_file(arriving)
            try:
                shutil.copyfile(path, arriving)
            except FileNotFoundError:  # the service has just pruned it; what the database needs is checked afterwards
                arriving.unlink()
            else:
                arriving.rename(copy)


def _can_be_artifact(path: Path) -> bool:
    with suppress(FileNotFoundError):
        return path.is_file() and path.stat().st_size <= MOST_BYTES
    return False


def _copy_keys(source: Path, target: Path, *, with_keys: bool) -> None:
    """Copy the public record of the signing key, and on request the keys that the target does not have."""
    existing = keys_in(target)
    if "signing" not in existing and (source / KEYS_FILE).is_file():
        replace_file(target / KEYS_FILE, (source / KEYS_FILE).read_bytes())
    copied = keys_in(source) - existing if with_keys else set()
    if "signing" in copied:
        replace_file(target / KEY_FILE, (source / KEY_FILE).read_bytes())
    if "authority" in copied:
        _copy_authority(source, target)
    if "releases" in copied:
        private_folder(target / RELEASES)
        replace_file(target / RELEASES / ONLINE_KEY, (source / RELEASES / ONLINE_KEY).read_bytes())


def _copy_authority(source: Path, target: Path) -> None:
    """Copy the authority's keys; both files are read again if a rotation changes them in between."""
    private_folder(target / AUTHORITY_FOLDER)
    held: dict[str, bytes] | None = None
    while held != (now := _authority_files(source)):
        held = now
    for name, data in now.items():
        replace_file(target / AUTHORITY_FOLDER / name, data)


def _authority_files(folder: Path) -> dict[str, bytes]:
    paths = [folder / AUTHORITY_FOLDER / name for name in (FORMER, CURRENT)]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def _end_claims(database: Database, now_s: float) -> None:
    """Revoke all claims: it is unknown which of them were used after the backup."""
    register = Register(database)
    for claim in register.claims():
        register.remove_claim(claim.name, "restore", now_s)


def _skip_numbers(database: Database, now_s: float) -> int:
    """Skip the round numbers that may have been used after the backup; returns the last one skipped."""
    with database.transaction() as view:
        last = view.last_round_number()
        newest = view.round(last)
        if newest is None:
            return 0  # no round ever took place, so no device holds a report
        marker = Round(
            number=last + ROUNDS_SKIPPED + max(0, int(now_s - newest.opened_at_s)),
            base_version=newest.base_version,
            rules=newest.rules,
            seed=newest.seed,
            opened_at_s=now_s,
            deadline_s=now_s,
            phase=Phase.ABANDONED,
            closed_at_s=now_s,
            cause=AbandonCause.RESTORED,
            reason="restored from a backup; numbers up to this one may have been used after it was made",
        )
        view.save_round(marker)
        return marker.number


def _end_noised(database: Database, number: int, now_s: float) -> None:
    """End tasks with differential privacy: which of their rounds were noised after the backup is unknown."""
    with database.transaction() as view:
        for record in view.tasks():
            end_restored(view, record, number, now_s)
