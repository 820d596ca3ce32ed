"""Where artifacts are kept: in a folder, or in PostgreSQL.

With several hosts the folder is a cache: every artifact is in the shared store before a manifest names it, and a host
fetches what it lacks.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import sqlalchemy as sa

from coordinator.ports import BlobStore
from coordinator.storage.blobs import FileBlobs
from coordinator.storage.database import Database
from coordinator.storage.tables import artifacts, upsert
from wire.errors import IntegrityError


def open_artifacts(folder: Path, database: Database) -> FileBlobs:
    """The store of a coordinator's artifacts: PostgreSQL, or with SQLite the folder.

    Args:
        folder: folder for them, or for the copies of this host.
        database: the coordinator's database.

    Raises:
        UnavailableError: the folder cannot be created.
    """
    return SharedBlobs(folder, DatabaseBlobs(database)) if database.shared else FileBlobs(folder)


class SharedBlobs(FileBlobs):
    """Blobs in a store that several hosts share, with copies in a folder.

    Args:
        folder: for the copies; created if missing.
        shared: the store.

    Raises:
        UnavailableError: the folder cannot be created.
    """

    def __init__(self, folder: Path, shared: BlobStore) -> None:
        super().__init__(folder)
        self._shared = shared

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash.

        Raises:
            UnavailableError: the store or the disk does not work.
        """
        self._shared.put(data)
        return super().put(data)

    def find(self, sha256: str) -> Path | None:
        """The file of a blob, fetched if this host lacks it; None if there is no such blob.

        Raises:
            RemoteProtocolError: the name is not a sha256.
            UnavailableError: the store or the disk does not work.
        """
        if super().find(sha256) is None:
            try:
                super().put(self._shared.get(sha256))
            except IntegrityError:
                return None
        return self.path(sha256)

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
            UnavailableError: the blob cannot be read.
        """
        self.find(sha256)
        return super().get(sha256)


class DatabaseBlobs:
    """Blobs in a table; implements :class:`coordinator.ports.BlobStore`.

    Args:
        database: the coordinator's database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash.

        Raises:
            UnavailableError: the database cannot be written now.
        """
        name = hashlib.sha256(data).hexdigest()
        with self._database.connection() as connection:
            if connection.scalar(sa.select(artifacts.c.sha256).where(artifacts.c.sha256 == name)) is None:
                connection.execute(upsert(connection.dialect.name, artifacts), {"sha256": name, "body": data})
        return name

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash.

        Raises:
            IntegrityError: there is no such blob, or its bytes are damaged.
            UnavailableError: the database cannot be read now.
        """
        with self._database.connection() as connection:
            body = connection.scalar(sa.select(artifacts.c.body).where(artifacts.c.sha256 == sha256))
        return _checked(sha256, body, "the database")


def _checked(sha256: str, body: bytes | None, where: str) -> bytes:
    if body is None:
        msg = f"there is no blob {sha256} in {where}"
        raise IntegrityError(msg)
    if hashlib.sha256(body).hexdigest() != sha256:
        msg = f"{sha256} is damaged in {where}"
        raise IntegrityError(msg)
    return body
