"""Renews the running agent's certificate: checks once a day in a child process, and loads a new certificate.

It uses a child process because making a key needs a library that the agent does not need otherwise.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from nightjar.edge_agent.enrolment.identity import CREDENTIAL, FOLDER, held_identity
from nightjar.host.children import python_command
from nightjar.wire.errors import NightjarError

FIRST_S = 300.0
"""The first wait is one to two times this: a device may be on for only an hour a day."""
EVERY_S = 86400.0
AT_ONCE_S, ENDED_S = 5.0, 300.0
"""The first wait, and the others, while the certificate has ended."""
TIMEOUT_S = 300.0

log = structlog.get_logger()


class Renewal:
    """The renewal thread, until it is closed; ``changed`` is called after a change of certificate or authorities."""

    def __init__(self, data_dir: Path, changed: Callable[[], None]) -> None:
        self._data_dir, self._changed = data_dir, changed
        self._ended = False
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="renewal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, and kill a running check."""
        self._closing.set()
        child = self._child
        if child is not None:
            child.kill()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        wait_s = self._soon(FIRST_S)
        while not self._closing.wait(wait_s * random.uniform(1.0, 2.0)):  # noqa: S311 - spreads devices
            try:
                self._ask()
            except (OSError, subprocess.SubprocessError, NightjarError) as error:
                log.warning("certificate_not_renewed", reason=str(error), again_in_s=EVERY_S)
            wait_s = self._soon(EVERY_S / 2)

    def _soon(self, wait_s: float) -> float:
        """The wait, or a shorter one if the certificate has ended, so that nothing else works."""
        try:
            held = held_identity(self._data_dir)
        except NightjarError:
            return wait_s
        now_s = time.time()  # noqa: TID251 - asking costs nothing, and the coordinator decides
        ended_now = held is not None and now_s >= held.expires_s
        first, self._ended = ended_now and not self._ended, ended_now
        return AT_ONCE_S if first else min(wait_s, ENDED_S) if ended_now else wait_s

    def _ask(self) -> None:
        before = self._state()
        command = python_command("-m", "nightjar.edge_agent", "renew", "--data-dir", str(self._data_dir))
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as self._child:  # noqa: S603 - our own module
            try:
                _, stderr = self._child.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                raise
            status = self._child.returncode
        self._child = None
        if status and not self._closing.is_set():
            log.warning("certificate_not_renewed", reason=stderr.decode(errors="replace").strip()[-300:])
        if self._state() != before:
            self._changed()
            log.info("certificate_renewed")

    def _state(self) -> object:
        return held_identity(self._data_dir), (self._data_dir / FOLDER / CREDENTIAL).read_bytes()
