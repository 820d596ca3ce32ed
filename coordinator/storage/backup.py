"""Backups: a folder with the database and the artifacts that it names, made while the service runs.

The database is copied first (``VACUUM INTO``: one moment of it, without what was deleted), then the artifacts, which
are stored before a row names them and never change.

Keys are copied only on request: with them one can sign what devices obey, and make devices and servers.

A restored coordinator must not use a round's number again: devices may still hold reports of rounds that the backup
does not know. So restoring adds an abandoned round with a number far ahead, further the older the backup is (it may
have been restored before), and new rounds are counted from there. What devices obey has numbers of its own, which are
drawn anew at each start and need nothing of a backup (docs/adr/0036). Nor may a claim be used again that was used after
the backup, so restoring revokes every claim.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from coordinator.enrolment.authority import CURRENT, FORMER
from coordinator.enrolment.register import Register
from coordinator.enrolment.tls_files import AUTHORITY_FOLDER
from coordinator.rounds.round import AbandonCause, Phase, Round
from coordinator.storage.blobs import FileBlobs, unavailable
from coordinator.storage.database import Database, database_file
from coordinator.storage.schema import copy_sqlite
from coordinator.storage.signing_key import KEY_FILE, KEYS_FILE
from host.files import private_file, private_folder, put_folder_in_place, put_in_place, replace_file
from models.manifest import Manifest
from wire.errors import ConfigError, RemoteProtocolError, UnavailableError

ARTIFACTS = "artifacts"
"""Folder of a coordinator's data, and of a backup."""
ROUNDS_SKIPPED = 1_000_000
"""Far more rounds than can have passed since any backup; one more for each second since then, which is more than were
held since the same backup was restored before."""


def back_up(data_dir: Path, folder: Path, *, with_keys: bool = False) -> int:
    """Copy a coordinator's data, which may be in use.

    Args:
        data_dir: of the coordinator.
        folder: for the backup; must not exist.
        with_keys: the keys of :func:`keys_in`, too.

    Returns:
        Its length in bytes.

    Raises:
        ConfigError: nothing to copy, or the folder is there already.
        UnavailableError: no room, or a broken disk; nothing is left in the folder.
    """
    if not database_file(data_dir).is_file():
        msg = f"there is no coordinator's database in {data_dir}; check data_dir in the configuration"
        raise ConfigError(msg)
    if with_keys and not keys_in(data_dir):
        msg = f"there is no key in {data_dir}: 'serve' makes them, or enrolment.signer has the authority's elsewhere"
        raise ConfigError(msg)
    if folder.exists():
        msg = f"{folder} exists already; give the backup a folder of its own"
        raise ConfigError(msg)
    writing = folder.with_name(folder.name + ".writing")
    try:
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir(parents=True, mode=0o700)
        copy_sqlite(database_file(data_dir), database_file(writing))
        _copy_artifacts(data_dir, writing)
        lacking = missing(writing)
        if lacking:
            msg = f"{data_dir} lacks {len(lacking)} artifacts that its database names, such as {lacking[0]}"
            raise UnavailableError(msg)
        _copy_keys(data_dir, writing, with_keys=with_keys)
        put_folder_in_place(writing, folder)
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    except OSError as error:
        raise unavailable(folder, error) from error
    finally:
        shutil.rmtree(writing, ignore_errors=True)


def restore(folder: Path, data_dir: Path, now_s: float) -> int:
    """Make a coordinator's data of a backup.

    Args:
        folder: the backup.
        data_dir: must not hold a database.
        now_s: wall-clock time.

    Returns:
        The last round number that counts as used.

    Raises:
        ConfigError: no backup, or there is data already.
        IntegrityError: the backup is damaged.
        UnavailableError: no room, or a broken disk.
    """
    if not database_file(folder).is_file():
        msg = f"{folder} is not a backup: there is no {database_file(folder).name} in it"
        raise ConfigError(msg)
    if database_file(data_dir).exists():
        msg = f"{data_dir} holds a coordinator's database already; move it away first"
        raise ConfigError(msg)
    try:
        private_folder(data_dir)
        with tempfile.TemporaryDirectory(prefix=".restoring-", dir=data_dir) as place:
            arriving = Path(place) / database_file(folder).name
            copy_sqlite(database_file(folder), arriving)
            number = _fill(data_dir, folder, _sqlite(arriving), now_s)
            put_in_place(arriving, database_file(data_dir))
    except OSError as error:
        raise unavailable(data_dir, error) from error
    return number


def restore_beside(url: str, folder: Path, data_dir: Path, now_s: float) -> int:
    """Make a coordinator's data of a PostgreSQL database that was restored already, and of the files of its backup.

    Args:
        url: of the database, as SQLAlchemy wants it; its tables are brought up to date.
        folder: the backup, with what lay in ``artifacts``.
        data_dir: may hold some of it already.
        now_s: wall-clock time.

    Returns:
        The last round number that counts as used.

    Raises:
        ConfigError: something that the database names is not in the folder.
        UnavailableError: the database does not work, no room, or a broken disk.
    """
    if not (folder / ARTIFACTS).is_dir():
        msg = f"{folder} is not a backup: there is no folder {ARTIFACTS} in it"
        raise ConfigError(msg)
    try:
        private_folder(data_dir)
        return _fill(data_dir, folder, url, now_s)
    except OSError as error:
        raise unavailable(data_dir, error) from error


def _fill(data_dir: Path, folder: Path, url: str, now_s: float) -> int:
    """Bring the tables up to date, copy what they name, and use up numbers of rounds; the last one used."""
    Database(url).close()
    lacking = _lacking(url, folder)
    if lacking:
        msg = f"{folder} cannot be restored: {len(lacking)} artifacts are missing or damaged, such as {lacking[0]}"
        raise ConfigError(msg)
    _copy_artifacts(folder, data_dir)
    _copy_keys(folder, data_dir, with_keys=True)
    _end_claims(url, now_s)
    return _skip_numbers(url, now_s)


def keys_in(folder: Path) -> set[str]:
    """Which keys a data folder or a backup holds: ``signing``, of what devices obey, and ``authority``, of devices."""
    places = {"signing": folder / KEY_FILE, "authority": folder / AUTHORITY_FOLDER / CURRENT}
    return {name for name, path in places.items() if path.is_file()}


def missing(folder: Path) -> list[str]:
    """Hashes that the database of a data folder names and that are not there, or damaged."""
    return _lacking(_sqlite(database_file(folder)), folder)


def _sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def _lacking(url: str, folder: Path) -> list[str]:
    database = Database(url, migrate=False)
    artifacts = FileBlobs(folder / ARTIFACTS)
    try:
        with database.transaction() as view:
            newest = [view.current_version(record.name) for record in view.tasks()]
    finally:
        database.close()
    lacking = []
    for name in sorted({version.manifest for version in newest if version is not None}):
        if not _readable(artifacts, name):
            lacking.append(name)
            continue
        manifest = Manifest.decode(artifacts.get(name))
        parts = [manifest.program.sha256, manifest.weights.sha256, manifest.vocabulary.sha256]
        parts += [each.file.sha256 for each in manifest.lexicons]
        lacking += [part for part in parts if not _readable(artifacts, part)]
    return lacking


def _readable(blobs: FileBlobs, sha256: str) -> bool:
    try:
        blobs.get(sha256)
    except RemoteProtocolError:
        return False
    return True


def _copy_artifacts(source: Path, target: Path) -> None:
    private_folder(target / ARTIFACTS)
    for path in (source / ARTIFACTS).rglob("*"):
        copy = target / ARTIFACTS / path.relative_to(source / ARTIFACTS)
        if path.is_dir():
            private_folder(copy)
        elif not path.name.startswith(".") and not copy.exists():
            arriving = copy.with_name(f".{copy.name}")
            private_file(arriving)
            shutil.copyfile(path, arriving)
            arriving.rename(copy)


def _copy_keys(source: Path, target: Path, *, with_keys: bool) -> None:
    """What everybody may know of the key that signs; and the keys themselves, unless the target has some."""
    there = keys_in(target)
    if "signing" not in there and (source / KEYS_FILE).is_file():
        replace_file(target / KEYS_FILE, (source / KEYS_FILE).read_bytes())
    copied = keys_in(source) - there if with_keys else set()
    if "signing" in copied:
        replace_file(target / KEY_FILE, (source / KEY_FILE).read_bytes())
    if "authority" in copied:
        _copy_authority(source, target)


def _copy_authority(source: Path, target: Path) -> None:
    """What the authority signs with. A rotation in between is seen, and both files are taken again."""
    private_folder(target / AUTHORITY_FOLDER)
    held: dict[str, bytes] | None = None
    while held != (now := _authority_files(source)):
        held = now
    for name, data in now.items():
        replace_file(target / AUTHORITY_FOLDER / name, data)


def _authority_files(folder: Path) -> dict[str, bytes]:
    paths = [folder / AUTHORITY_FOLDER / name for name in (FORMER, CURRENT)]
    return {path.name: path.read_bytes() for path in paths if path.exists()}


def _end_claims(url: str, now_s: float) -> None:
    """Which of them were used after the backup, nobody knows any more."""
    database = Database(url, migrate=False)
    try:
        register = Register(database)
        for claim in register.claims():
            register.remove_claim(claim.name, "restore", now_s)
    finally:
        database.close()


def _skip_numbers(url: str, now_s: float) -> int:
    """Use up the numbers that may have been given to rounds after the backup; the last one used."""
    database = Database(url, migrate=False)
    try:
        with database.transaction() as view:
            last = view.last_round_number()
            newest = view.round(last)
            if newest is None:
                return 0  # no device was ever asked for anything
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
    finally:
        database.close()
