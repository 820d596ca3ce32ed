"""Counts all devices, and as rarely as that is expensive.

Everything else on the pages costs the same for ten devices and for a million; what the population does as a whole can
only be counted. So everybody who asks gets the same count, it is made anew only when it is no longer fresh, and where
counting takes long nobody waits for it: the last one is shown, with its age.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

from coordinator.ports import Clock
from coordinator.storage.database import Database
from coordinator.storage.fleet import Census
from wire.errors import UnavailableError

FRESH_S = 1.0
"""A person does not see a difference sooner."""
REST_SHARE = 50
"""A count that took a second is good for fifty: counting takes at most a fiftieth of one core."""
PATIENCE_S = 0.03
"""Who asks waits for a count that takes no longer than this."""
LATELY_S = 7 * 86400.0
"""Devices that were not heard of for longer do not say what is out in the world."""
VERSIONS_NAMED = 20
"""The newest ones are told apart by what devices hold; the rest is older."""

_log = structlog.get_logger("coordinator")


class CensusTaker:
    """Knows how many devices do what. Any thread may ask.

    Args:
        database: where the devices are.
        weights_of: the hash of the weights that a manifest names, by the manifest's hash.
        clock: wall-clock time.
        fresh_s: how long a count is good for, at least.
    """

    def __init__(
        self, database: Database, weights_of: Callable[[str], str], clock: Clock, fresh_s: float = FRESH_S
    ) -> None:
        self._database = database
        self._weights_of = weights_of
        self._clock = clock
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._latest: Census | None = None
        self._counted_at_s = self._took_s = self._costs_s = 0.0
        self._counting = False

    def now(self) -> Census:
        """The last count, or a new one if that is not fresh.

        Raises:
            UnavailableError: the database cannot be read now.
        """
        with self._lock:
            latest = self._latest
            if latest is None:
                return self._count()
            if time.monotonic() - self._counted_at_s < max(self._fresh_s, REST_SHARE * self._costs_s):
                return latest
            if self._took_s <= PATIENCE_S:
                return self._count()
            if not self._counting:
                self._counting = True
                threading.Thread(target=self._count_aside, name="census", daemon=True).start()
            return latest

    def _count_aside(self) -> None:
        try:
            self._count()
        except UnavailableError as error:
            _log.warning("census_failed", error=str(error))
        finally:
            self._counting = False

    def _count(self) -> Census:
        begun_s, now_s = time.monotonic(), self._clock.now_s()
        with self._database.transaction() as view:
            states = view.device_states()
            holders = view.holders(now_s - LATELY_S)
            manifests = {record.version: record.manifest for record in view.versions(VERSIONS_NAMED)}
            known = view.devices_since(float("-inf"))
        versions = {self._weights_of(manifest): version for version, manifest in manifests.items()}
        held: dict[int | None, int] = {}
        for weights, devices in holders.items():
            if weights is not None:
                version = versions.get(weights)
                held[version] = held.get(version, 0) + devices
        self._latest = Census(counted_s=now_s, known=known, states=states, holders=held)
        self._counted_at_s = time.monotonic()
        took_s = self._counted_at_s - begun_s
        # One that took long although the last did not met a machine that stood still, and is no reason to rest.
        self._took_s, self._costs_s = took_s, min(took_s, self._took_s)
        return self._latest
