"""Keeps the doors as the register says: who was revoked or blocked is out within seconds, open connections included.

Looks at the register every second, whoever changed it (a page, the command line, the driver), and brings the servers
to what it says: files, then the servers' reading of them, then the connections that are open. Doing it again does no
harm, so nothing is remembered over a restart; and a fault is tried again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.enrolment.premises import Changes, refresh
from coordinator.enrolment.register import Register
from coordinator.enrolment.signing import Signer
from coordinator.ports import Clock
from wire.errors import NightjarError
from wire.identifiers import DeviceId

LOOK_S = 1.0
REFRESH_S = 5.0
"""Our own certificate and the authorities change rarely; what is revoked is written at once. A device that gets a
certificate of a new authority is not let in before."""
EVICT_AT_LOOKS = frozenset({0, 1, 2, 20, 40, 60, 80, 100})
"""Looks after a revocation at which sessions are ended. Again at once, because a broker reads its files a moment after
it is told to; and up to when mosquitto gives up a connection (90 s) that came before and said nothing until then."""

_log = structlog.get_logger("coordinator")


class Gate:
    """Runs in a thread of its own until it is closed.

    Args:
        config: of the coordinator.
        register: says who is out.
        signer: the authority.
        clock: wall-clock time.
        changed: tells the servers that their files changed.
        evict: ends the open connections of devices and of certificates, as far as it can.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        register: Register,
        signer: Signer,
        clock: Clock,
        changed: Callable[[Changes], None],
        evict: Callable[[Collection[DeviceId], Collection[str]], None],
    ) -> None:
        self._config, self._register, self._signer, self._clock = config, register, signer, clock
        self._changed, self._evict = changed, evict
        self._known: dict[str, DeviceId] = {}
        self._looks: dict[str, int] = {}  # since they were revoked
        self._refreshed_s = float("-inf")
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)

    def start(self) -> None:
        """Begin to look; what was so before needs nobody to be thrown out."""
        self._known = self._register.shut_out(self._clock.now_s())
        self._thread.start()

    def close(self) -> None:
        """Stop looking."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def look(self) -> None:
        """Bring the doors to what the register says.

        Raises:
            NightjarError: the database, the disk or the authority does not work now.
        """
        now_s = self._clock.now_s()
        out = self._register.shut_out(now_s)
        if out != self._known or now_s - self._refreshed_s > REFRESH_S or now_s < self._refreshed_s:
            changes = refresh(self._config, self._signer, out, now_s)
            if changes:
                self._changed(changes)
            self._refreshed_s = now_s
            self._looks |= dict.fromkeys(out.keys() - self._known.keys(), 0)
            self._known = out
        due = [serial for serial, looks in self._looks.items() if looks in EVICT_AT_LOOKS and serial in out]
        if due:
            self._evict({out[serial] for serial in due}, due)
        last = max(EVICT_AT_LOOKS)
        self._looks = {serial: looks + 1 for serial, looks in self._looks.items() if looks < last and serial in out}

    def _run(self) -> None:
        said = ""
        while not self._closing.wait(LOOK_S):
            try:
                self.look()
                said = ""
            except NightjarError as error:
                if str(error) != said:
                    said = str(error)
                    _log.error("gate_not_kept", reason=said, again_in_s=LOOK_S)
            except Exception:
                _log.exception("gate_failed")  # a defect of ours must not leave the door open for good
