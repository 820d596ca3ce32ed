"""Blobs that wait for the end of a batch: named at once, stored together before the transaction is committed.

A batch of messages brings hundreds of reports, and making each durable by itself would take longer than everything else
together. Nobody is told of a report before the commit, so nothing is promised too early.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from coordinator.ports import BlobStore


class StagedBlobs:
    """A blob store in front of another one. Not safe for threads; the driver owns it.

    Args:
        store: where the blobs go.
    """

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._waiting: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep it until ``flush``; its hash."""
        name = hashlib.sha256(data).hexdigest()
        self._waiting[name] = data
        return name

    def put_all(self, blobs: Mapping[str, bytes]) -> None:
        """Keep them until ``flush``."""
        self._waiting.update(blobs)

    def get(self, sha256: str) -> bytes:
        """Read, also what still waits.

        Raises:
            IntegrityError: as the store.
            UnavailableError: as the store.
        """
        waiting = self._waiting.get(sha256)
        return self._store.get(sha256) if waiting is None else waiting

    def delete(self, sha256: str) -> None:
        """Delete it if it is there."""
        self._waiting.pop(sha256, None)
        self._store.delete(sha256)

    def flush(self) -> None:
        """Make everything durable that waits.

        Raises:
            UnavailableError: no room, or a broken disk; all of it waits on.
        """
        if self._waiting:
            self._store.put_all(self._waiting)
            self._waiting.clear()

    def forget(self) -> None:
        """The batch failed: nobody will ask for what waits."""
        self._waiting.clear()
