"""Watches this device's standing while the broker does not accept it: asks the coordinator why, over HTTPS.

A broker refuses a revoked or blocked device without a reason. The thread also notices a new certificate, from an
enrolment beside the running agent, and has it loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from nightjar.edge_agent.enrolment.enrolling import refusal
from nightjar.edge_agent.enrolment.identity import CREDENTIAL, FOLDER, IDENTITY, EnrolledIdentity, held_identity
from nightjar.wire.errors import NightjarError

LOOK_S = 2.0
"""Interval between looks for a new certificate; only while not connected."""
ASK_S = (2.0, 15.0, 60.0, 300.0, 900.0)
"""Waits before each question to the coordinator; the last one repeats."""
MOVED = "this device was enrolled again under another name or at another address: restart the agent"

log = structlog.get_logger()


class StandingWatch:
    """The thread; runs until it is closed.

    ``changed`` is called when there is a new certificate; ``told`` with why the coordinator refuses this device, empty
    if it does not. ``now_s`` returns the time, None while none is trusted.
    """

    def __init__(
        self,
        data_dir: Path,
        changed: Callable[[], None],
        told: Callable[[str], None],
        now_s: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._data_dir, self._changed, self._told, self._now_s = data_dir, changed, told, now_s
        self._down, self._closing = threading.Event(), threading.Event()
        self._loaded, self._started_as = self._files(), held_identity(data_dir)
        self._thread = threading.Thread(target=self._run, name="standing", daemon=True)
        self._thread.start()

    def connected(self, connected: bool) -> None:
        """Note whether the broker accepts us. Thread-safe."""
        (self._down.clear if connected else self._down.set)()

    def close(self) -> None:
        """Stop the thread; a question to the coordinator is not waited for."""
        self._closing.set()
        self._down.set()
        self._thread.join(timeout=1)

    def _run(self) -> None:
        while self._down.wait() and not self._closing.is_set():
            asked, waited_s = 0, 0.0
            while self._down.is_set() and not self._closing.wait(LOOK_S):
                waited_s += LOOK_S
                try:
                    if self._reloaded():
                        asked, waited_s = 0, 0.0
                    elif waited_s >= ASK_S[min(asked, len(ASK_S) - 1)]:
                        asked, waited_s = asked + 1, 0.0
                        self._told(self._moved() or refusal(self._data_dir, self._now_s()))
                except (NightjarError, OSError) as error:
                    log.debug("standing_unknown", reason=str(error))  # not reachable: the broker's error says so

    def _reloaded(self) -> bool:
        files = self._files()
        if files == self._loaded:
            return False
        self._changed()
        self._loaded = files
        self._told(self._moved())
        log.info("certificate_loaded")
        return True

    def _moved(self) -> str:
        return "" if _place(held_identity(self._data_dir)) == _place(self._started_as) else MOVED

    def _files(self) -> object:
        folder = self._data_dir / FOLDER
        looks = [path.stat() for path in (folder / CREDENTIAL, folder / IDENTITY) if path.exists()]
        return [(each.st_mtime_ns, each.st_ino) for each in looks]


def _place(identity: EnrolledIdentity | None) -> object:
    return identity and (
        identity.device,
        identity.population,
        identity.broker_host,
        identity.broker_port,
        identity.broker_websocket,
    )
