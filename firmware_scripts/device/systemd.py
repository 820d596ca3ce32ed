"""Queries and controls systemd. If systemd is not running (an image is being built), nothing is queried or done."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nightjar.host.programs import run_program
from nightjar.wire.errors import UnavailableError

_ANSWER_S = 60.0
_WORK_S = 900.0  # an enrolment or a training step on a slow board


class Systemd:
    """The interface to systemd; ``live`` is whether commands are actually run."""

    def __init__(self, *, live: bool) -> None:
        self.live = live

    def reload(self) -> None:
        """Reload the units."""
        self._run("daemon-reload")

    def restart(self, unit: str) -> None:
        """Stop a unit, wait for that, and start it again without waiting: its state is then that of a new run."""
        self._run("stop", unit)
        self._run("reset-failed", unit)
        self._run("start", "--no-block", unit)

    def start(self, unit: str) -> None:
        """Start a unit without waiting."""
        self._run("start", "--no-block", unit)

    def stop(self, unit: str) -> None:
        """Stop a unit."""
        self._run("stop", unit)

    def work(self, unit: str) -> int:
        """Run a unit that ends by itself; return its exit status, or 3 if that is unknown."""
        self._run("start", unit, timeout_s=_WORK_S)
        status = self.show(unit).get("ExecMainStatus", "")
        return int(status) if status.isdigit() else 3

    def show(self, unit: str) -> Mapping[str, str]:
        """The properties of a unit; empty if systemd does not answer."""
        wanted = "ActiveState,SubState,StatusText,Result,NRestarts,ExecMainStatus"
        lines = self._run("show", unit, f"--property={wanted}").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def last_words(self, unit: str) -> str:
        """The last line that a unit logged."""
        # Selected by field, because --unit adds systemd's own messages about the unit, never the real reason.
        command = ["journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=1", f"_SYSTEMD_UNIT={unit}"]
        try:
            return " ".join(run_program(command, _ANSWER_S).stdout.split())[-300:]
        except UnavailableError:
            return ""

    def _run(self, *arguments: str, timeout_s: float = _ANSWER_S) -> str:
        if not self.live:
            return ""
        try:
            return run_program(["systemctl", *arguments], timeout_s).stdout
        except UnavailableError:  # the caller checks afterwards whether the unit runs
            return ""


def is_live() -> bool:
    """Whether systemd runs this machine, by the test of sd_booted(3), and has booted the regular system.

    Under ``kernel-command-line.target``, where firstrun.sh runs, units wait for the boot that follows.
    """
    if not Path("/run/systemd/system").is_dir():
        return False
    return "kernel-command-line.target" not in Path("/proc/cmdline").read_text(encoding="utf-8", errors="replace")
