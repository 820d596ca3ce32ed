"""Blobs that wait for the end of a batch: named at once, stored together before the transaction is committed.

A batch of messages brings hundreds of reports, and making each durable by itself would take longer than everything else
together. Nobody is told of a report before the commit, so nothing is promised too early.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import Future, ThreadPoolExecutor, wait

from coordinator.ports import PrivateStore

BESIDE_BYTES = 256 * 1024
"""From so much on, a thread of its own writes while the driver writes the rows."""


class StagedBlobs:
    """A blob store in front of another one. Not safe for threads; the driver owns it.

    Args:
        store: where the blobs go.
    """

    def __init__(self, store: PrivateStore) -> None:
        self._store = store
        self._waiting: dict[str, bytes] = {}
        self._begun: Future[None] | None = None
        self._writer = ThreadPoolExecutor(1, "staging")  # makes its thread when it is first needed

    def put(self, data: bytes) -> str:
        """Keep it until ``flush``; its hash."""
        name = hashlib.sha256(data).hexdigest()
        self._waiting[name] = data
        return name

    def keep(self, name: str, data: bytes) -> None:
        """Keep it until ``flush``, under a name of the caller's."""
        self._waiting[name] = data

    def get(self, name: str) -> bytes:
        """Read, also what still waits.

        Raises:
            IntegrityError: as the store.
            UnavailableError: as the store.
        """
        waiting = self._waiting.get(name)
        return self._store.get(name) if waiting is None else waiting

    def delete(self, name: str) -> None:
        """Delete it if it is there."""
        self._waiting.pop(name, None)
        self._store.delete(name)

    def begin_flush(self) -> None:
        """Nothing more comes before ``flush``: what is much is begun with now, by another thread."""
        if sum(map(len, self._waiting.values())) >= BESIDE_BYTES:
            self._begun = self._writer.submit(self._store.keep_all, self._waiting)

    def flush(self) -> None:
        """Make everything durable that waits.

        Raises:
            UnavailableError: no room, or a broken disk; all of it waits on.
        """
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.result()
        elif self._waiting:
            self._store.keep_all(self._waiting)
        self._waiting.clear()

    def forget(self) -> None:
        """The batch failed: nobody will ask for what waits."""
        begun, self._begun = self._begun, None
        if begun is not None:
            wait([begun])
        self._waiting.clear()
