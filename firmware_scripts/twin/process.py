"""Runs QEMU as a process, follows its console, and never leaves it behind.

QEMU gets its own session, so that ctrl-C reaches only us, and the kernel kills it whenever and however we end.
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

from nightjar.firmware_scripts.image.tools import require
from nightjar.wire.errors import UnavailableError

# Everything that a terminal would act on: escape sequences and other control characters.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[c()][0-9A-Za-z]?|[\x00-\x08\x0b-\x1f]")
_TAKES_S = 10.0
_UNTIL_WE_END = ("setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
"""Followed by our process id: if we end before setpriv takes effect, we are not the parent and nothing is started."""
BOOTED = re.compile(r"nightjar: booted")


class Qemu:
    """One running machine. A context manager that kills the machine when the block ends.

    ``log`` receives all output of the console, and ``on_line`` each line, on another thread.

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
            # setpriv is part of util-linux. It makes the kernel kill QEMU when this process ends, however that happens.
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
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, name="console", daemon=True)
        self._reader.start()

    def __enter__(self) -> Qemu:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut_power()

    def running(self) -> bool:
        """Whether the machine is on."""
        return self._process.poll() is None

    def wait_for(self, pattern: re.Pattern[str], deadline_s: float) -> float:
        """Wait for a line on the console; return the seconds from the start until it appeared.

        Raises:
            UnavailableError: the machine ended, or the line did not appear in time; has the console's last lines.
        """
        seen = 0
        with self._changed:
            while True:
                ended = not self._reader.is_alive()  # checked first, so that the last lines are not missed
                for line in self._lines[seen:]:
                    if pattern.search(line):
                        return time.monotonic() - self.started_s
                seen = len(self._lines)
                remaining_s = self.started_s + deadline_s - time.monotonic()
                if remaining_s <= 0 or ended:
                    what = "ended" if ended else f"did not say {pattern.pattern!r} in {deadline_s:.0f} s"
                    msg = f"the machine {what}. Its console ended with:\n  " + "\n  ".join(self._lines[-12:])
                    raise UnavailableError(msg)
                self._changed.wait(min(remaining_s, 1.0))

    def cut_power(self) -> None:
        """Kill the machine, like a power cut: the guest is not notified."""
        if self.running():
            os.killpg(self.pid, signal.SIGKILL)
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
