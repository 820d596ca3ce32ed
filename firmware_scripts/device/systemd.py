"""Asks systemd, and tells it. Where none runs (an image that is being made) nothing is asked and nothing happens."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_ANSWER_S = 60.0
_WORK_S = 900.0  # an enrolment, or a step of training, on a slow board


class Systemd:
    """The line to systemd; ``live`` is whether it may be asked to do things."""

    def __init__(self, *, live: bool) -> None:
        self.live = live

    def reload(self) -> None:
        """Read the units again."""
        self._run("daemon-reload")

    def restart(self, unit: str) -> None:
        """End a unit, wait until it is gone, and start it without waiting: what is seen of it then is new."""
        self._run("stop", unit)
        self._run("reset-failed", unit)
        self._run("start", "--no-block", unit)

    def stop(self, unit: str) -> None:
        """End a unit."""
        self._run("stop", unit)

    def work(self, unit: str) -> int:
        """Run a unit that ends by itself; its exit status, or 3 if that cannot be found out."""
        self._run("start", unit, timeout_s=_WORK_S)
        status = self.show(unit).get("ExecMainStatus", "")
        return int(status) if status.isdigit() else 3

    def show(self, unit: str) -> Mapping[str, str]:
        """What systemd knows of a unit; empty if it does not answer."""
        wanted = "ActiveState,SubState,StatusText,Result,NRestarts,ExecMainStatus"
        lines = self._run("show", unit, f"--property={wanted}").splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def last_words(self, unit: str) -> str:
        """The last line that a unit logged."""
        try:
            done = subprocess.run(  # noqa: S603 - a constant and a unit of ours
                # By field, because --unit adds what systemd itself says of the unit, which is never the reason.
                ["journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=1", f"_SYSTEMD_UNIT={unit}"],  # noqa: S607
                capture_output=True,
                text=True,
                check=False,
                timeout=_ANSWER_S,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        return " ".join(done.stdout.split())[-300:]

    def _run(self, *arguments: str, timeout_s: float = _ANSWER_S) -> str:
        if not self.live:
            return ""
        try:
            done = subprocess.run(  # noqa: S603 - this module names all of it
                ["systemctl", *arguments],  # noqa: S607
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except (OSError, subprocess.TimeoutExpired):
            # What matters is looked at afterwards: whether the unit runs.
            return ""
        return done.stdout


def is_live() -> bool:
    """Whether systemd runs this machine, as sd_booted(3) finds it out, and has started all of it.

    Under ``kernel-command-line.target``, where a firstrun.sh runs, units wait for a start that follows.
    """
    if not Path("/run/systemd/system").is_dir():
        return False
    return "kernel-command-line.target" not in Path("/proc/cmdline").read_text(encoding="utf-8", errors="replace")
