"""Probe for a person at the device's own screen, from logind; uses ``loginctl``, so no D-Bus library is needed.

Only a user's session at a seat and in the foreground counts. Other sessions keep their idle hint at "no" for ever:
ssh sessions (their terminals have a probe of their own), background and manager sessions, a greeter.
"""

from __future__ import annotations

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings, yes_or_no
from nightjar.edge_agent.shell.probes.background import Background
from nightjar.edge_agent.shell.probes.command import Run, run

EVERY_S = 10.0
TIMEOUT_S = 5.0
_PROPERTIES = "Class,Seat,Active,IdleHint,LockedHint"


class Sessions:
    """Probe for graphical and console sessions."""

    def __init__(self, run: Run = run) -> None:
        self._run = run
        self.question = Background(self._ask, EVERY_S)

    def __call__(self) -> Readings:
        """Take a reading now."""
        latest = self.question.latest()
        if latest.answer is None:
            return {Condition.IDLE: ConditionReading(Answer.UNKNOWN, "logind", latest.reason, latest.age_s)}
        return {Condition.IDLE: yes_or_no(not latest.answer, "logind", "idle", "in use", latest.age_s)}

    def _ask(self) -> bool:
        listed = self._run(("loginctl", "list-sessions", "--no-legend", "--no-pager"), TIMEOUT_S)
        names = [line.split()[0] for line in listed.splitlines() if line.split()]
        if not names:
            return False
        properties = ("--property=" + name for name in _PROPERTIES.split(","))
        return in_use(self._run(("loginctl", "show-session", "--no-pager", *properties, *names), TIMEOUT_S))


def in_use(shown: str) -> bool:
    r"""Whether any session in the output of ``loginctl show-session`` is in use.

    >>> in_use("Class=user\nSeat=seat0\nActive=yes\nIdleHint=no\nLockedHint=no")
    True
    >>> in_use("Class=user\nSeat=\nActive=yes\nIdleHint=no\nLockedHint=no")
    False
    """
    for block in shown.strip().split("\n\n"):
        session = dict(line.partition("=")[::2] for line in block.splitlines())
        somebodys = session.get("Class") == "user" and session.get("Seat") and session.get("Active") == "yes"
        if somebodys and session.get("IdleHint") == "no" and session.get("LockedHint") != "yes":
            return True
    return False
