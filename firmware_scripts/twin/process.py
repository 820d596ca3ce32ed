"""QEMU as a process: started, listened to, and never left behind.

It gets a session of its own, so that ctrl-C reaches us alone, and the kernel kills it when we end in any way at all.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from firmware_scripts.image.tools import require
from wire.errors import UnavailableError

# Whatever a terminal would act upon: escape sequences, and other control characters.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[c()][0-9A-Za-z]?|[\x00-\x08\x0b-\x1f]")
_TAKES_S = 10.0
_UNTIL_WE_END = ("setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
"""And a process id: who ended before the kernel was asked is not the parent any more, and nothing is started."""
BOOTED = re.compile(r"nightjar: booted")


class Qemu:
    """One running machine. A context manager: it is dead when the block is left.

    Args:
        command: of :func:`firmware_scripts.twin.machines.qemu_command`.
        log: file that everything on the console is written to.
        on_line: told each line of the console, from a thread.

    Raises:
        UnavailableError: QEMU is not installed, or cannot be started.
    """

    def __init__(self, command: Sequence[str], log: Path, on_line: Callable[[str], None] = lambda _: None) -> None:
        require(command[0])
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._on_line = on_line
        self.started_s = time.monotonic()
        try:
            self._log = log.open("ab", buffering=0)
            # setpriv is a part of util-linux: the kernel ends QEMU when this process ends, however that happens.
            self._process = subprocess.Popen(  # noqa: S603 - words of qemu_command
                [*_UNTIL_WE_END, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            msg = f"{command[0]} could not be started: {error}"
            raise UnavailableError(msg) from error
        self._reader = threading.Thread(target=self._read, name="console", daemon=True)
        self._reader.start()

    def __enter__(self) -> Qemu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_power()

    @property
    def pid(self) -> int:
        """Of QEMU."""
        return self._process.pid

    def running(self) -> bool:
        """Whether the machine is on."""
        return self._process.poll() is None

    def wait_for(self, pattern: re.Pattern[str], deadline_s: float) -> float:
        """Wait for a line on the console; returns the seconds from the start until it came.

        Raises:
            UnavailableError: the machine ended, or the line did not come in time; with the console's last lines.
        """
        seen = 0
        with self._changed:
            while True:
                ended = not self._reader.is_alive()  # asked first, so that no last line is missed
                for line in self._lines[seen:]:
                    if pattern.search(line):
                        return time.monotonic() - self.started_s
                seen = len(self._lines)
                left = self.started_s + deadline_s - time.monotonic()
                if left <= 0 or ended:
                    what = "ended" if ended else f"did not say {pattern.pattern!r} in {deadline_s:.0f} s"
                    msg = f"the machine {what}. Its console ended with:\n  " + "\n  ".join(self._lines[-12:])
                    raise UnavailableError(msg)
                self._changed.wait(min(left, 1.0))

    def cut_power(self) -> None:
        """End the machine as a pulled plug would: nothing in it is asked or told."""
        if self.running():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_TAKES_S)
        self._reader.join(_TAKES_S)
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        for raw in stream:
            self._log.write(raw)
            line = _CONTROL.sub("", raw.decode(errors="replace")).rstrip()
            with self._changed:
                self._lines.append(line)
                self._changed.notify_all()
            self._on_line(line)
        with self._changed:
            self._changed.notify_all()
