"""Where artifacts are kept: in a folder, in PostgreSQL, or in an S3-compatible store.

With several hosts the folder is a cache: every artifact is in the shared store before a manifest names it, and a host
fetches what it lacks.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import sqlalchemy as sa

from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.storage.blobs import FileBlobs, StoredBlob, checked
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.tables import artifacts, upsert
from nightjar.wire.errors import ConfigError, IntegrityError, UnavailableError

ARTIFACTS = "artifacts"
"""Subfolder of a data folder and of a backup."""
_HASH = re.compile(r"[0-9a-f]{64}")


def open_artifacts(folder: Path, url: str, database: Database) -> FileBlobs:
    """The store of a coordinator's artifacts: at the S3 URL; without one, PostgreSQL, and with SQLite the folder.

    Raises:
        ConfigError: boto3 is not installed, or its settings cannot be used.
        UnavailableError: the folder cannot be created.
    """
    if url:
        return SharedBlobs(folder, S3Blobs(url))
    return SharedBlobs(folder, DatabaseBlobs(database)) if database.shared else FileBlobs(folder)


class SharedStore(BlobStore, Protocol):
    """A store that several hosts share."""

    def listed(self) -> Iterable[StoredBlob]:
        """All blobs."""

    def remove(self, sha256: str) -> None:
        """Delete a blob if it exists."""


class SharedBlobs(FileBlobs):
    """Blobs in a store that several hosts share, with copies in a folder.

    Raises:
        UnavailableError: the folder cannot be created.
    """

    def __init__(self, folder: Path, shared: SharedStore) -> None:
        super().__init__(folder)
        self._shared = shared

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash."""
        self._shared.put(data)
        return super().put(data)

    def find(self, sha256: str) -> Path | None:
        """The file of a blob, fetched if this host lacks it; None if there is no such blob."""
        if super().find(sha256) is None:
            try:
                super().put(self._shared.get(sha256))
            except IntegrityError:
                return None
        return self.path(sha256)

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash."""
        self.find(sha256)
        return super().get(sha256)

    def listed(self) -> Iterator[StoredBlob]:
        """All blobs, those of the folder alone included."""
        shared = {blob.sha256: blob for blob in self._shared.listed()}
        yield from shared.values()
        yield from (blob for blob in super().listed() if blob.sha256 not in shared)

    def remove(self, sha256: str) -> None:
        """Delete a blob here and in the shared store."""
        self._shared.remove(sha256)
        super().remove(sha256)


class DatabaseBlobs:
    """Blobs in a table; implements :class:`nightjar.coordinator.ports.BlobStore`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash."""
        name = hashlib.sha256(data).hexdigest()
        with self._database.connection() as connection:
            if connection.scalar(sa.select(artifacts.c.sha256).where(artifacts.c.sha256 == name)) is None:
                row = {"sha256": name, "body": data, "stored_s": time.time()}  # noqa: TID251 - this is the adapter
                connection.execute(upsert(connection.dialect.name, artifacts), row)
            else:
                again = sa.update(artifacts).where(artifacts.c.sha256 == name)
                connection.execute(again.values(stored_s=time.time()))  # noqa: TID251 - this is the adapter
        return name

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash."""
        with self._database.connection() as connection:
            body = connection.scalar(sa.select(artifacts.c.body).where(artifacts.c.sha256 == sha256))
        return checked(sha256, body, "the database")

    def listed(self) -> list[StoredBlob]:
        """All blobs."""
        size_bytes = sa.func.length(artifacts.c.body)
        with self._database.connection() as connection:
            rows = connection.execute(sa.select(artifacts.c.sha256, size_bytes, artifacts.c.stored_s))
            return [StoredBlob(*row) for row in rows]

    def remove(self, sha256: str) -> None:
        """Delete a blob if it exists."""
        with self._database.connection() as connection:
            connection.execute(sa.delete(artifacts).where(artifacts.c.sha256 == sha256))


class S3Blobs:
    """Blobs in an S3 store, ``s3://bucket/prefix``; implements :class:`nightjar.coordinator.ports.BlobStore`.

    Credentials, region and the address of a store other than Amazon's come from where boto3 looks for them, such as
    ``AWS_ACCESS_KEY_ID`` and ``AWS_ENDPOINT_URL``.

    Raises:
        ConfigError: boto3 is not installed, or its settings cannot be used.
    """

    def __init__(self, url: str) -> None:
        try:
            import boto3  # type: ignore[import-untyped] # optional: most fleets need no object store
            from botocore.config import Config  # type: ignore[import-untyped]
            from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]
        except ImportError as error:
            msg = "artifacts_url: boto3 is not installed: pip install -r requirements/s3.txt"
            raise ConfigError(msg) from error
        self._faults: tuple[type[Exception], ...] = (BotoCoreError, ClientError)
        self._url = url
        split = urlsplit(url)
        self._bucket, self._prefix = split.netloc, split.path.strip("/")
        try:
            self._client: Any = boto3.client("s3", config=Config(connect_timeout=5, read_timeout=30))
        except (BotoCoreError, ValueError) as error:
            msg = f"artifacts_url: {error}"
            raise ConfigError(msg) from error

    def put(self, data: bytes) -> str:
        """Store a blob durably; returns its hash."""
        name = hashlib.sha256(data).hexdigest()
        try:
            self._client.put_object(Bucket=self._bucket, Key=self._key(name), Body=data)
        except self._faults as error:
            raise self._unavailable(error) from error
        return name

    def get(self, sha256: str) -> bytes:
        """Read a blob and verify its hash."""
        try:
            body = self._client.get_object(Bucket=self._bucket, Key=self._key(sha256))["Body"].read()
        except self._client.exceptions.NoSuchKey:
            body = None
        except self._faults as error:
            raise self._unavailable(error) from error
        return checked(sha256, body, self._url)

    def listed(self) -> list[StoredBlob]:
        """All blobs under the prefix; objects of other names are left out."""
        prefix = self._key("")
        try:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=prefix)
            objects = [each for page in pages for each in page.get("Contents", [])]
        except self._faults as error:
            raise self._unavailable(error) from error
        blobs = [
            StoredBlob(each["Key"][len(prefix) :], each["Size"], each["LastModified"].timestamp()) for each in objects
        ]
        return [blob for blob in blobs if _HASH.fullmatch(blob.sha256)]

    def remove(self, sha256: str) -> None:
        """Delete a blob if it exists."""
        try:
            self._client.delete_object(Bucket=self._bucket, Key=self._key(sha256))
        except self._faults as error:
            raise self._unavailable(error) from error

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}" if self._prefix else name

    def _unavailable(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"artifacts_url: {self._url} does not work: {error}")
