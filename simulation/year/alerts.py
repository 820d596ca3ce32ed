"""Compares what an operator is told with the faults that were thrown.

What is told is read where the product's rules read it (``deploy/prometheus/alerts.yml``): the troubles of
``/healthz``, the register of certificates, and what devices say of themselves. The rules themselves are not evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

SEEN_WITHIN_S = 900.0
"""A fault of the service has been told by then, or at its end."""
SETTLED_S = 3600.0
"""After the end of a fault an alert may last so long: devices come back, and a rule waits."""
CHECKED_EVERY_S, CONFIRMED_S = 300.0, 120.0
"""How often the troubles are looked at; they count if they are there two minutes later, as in the rules."""
UNHEALTHY, EXPIRING, NOTICE = "NightjarUnhealthy", "NightjarCertificatesExpiring", "notice"
"""The alerts: two rules, and what a device says of itself, followed by its name."""
CLOCK = "clock"
"""What ``/healthz`` warns of: the coordinator's clock is not trusted."""
RAISED_BY = {
    CLOCK: frozenset({"NightjarClockDistrusted"}),
    UNHEALTHY: frozenset({UNHEALTHY, "NightjarDown"}),
    EXPIRING: frozenset({EXPIRING}),
}
"""The rules of which one has to fire. A coordinator whose database is away shows no metrics, and counts as down."""
FOLLOW_AN_OUTAGE = frozenset({"NightjarRoundOverdue", "NightjarDevicesGone", "NightjarDropouts"})
"""What also fires while a broker or a database is away, as it should."""
FOLLOW_A_WRONG_CLOCK = frozenset({"NightjarRoundOverdue"})
"""After a start with a wrong clock the coordinator's time is up to an hour behind, and so are its rounds' times."""
NOTICED_S = 2 * 86_400.0
"""A device that has mended itself has said so by then."""
ENDS_S = 90 * 86_400.0
"""A certificate ends so long after a device was last seen, at the latest."""
WARNED_S = 10 * 86_400.0
"""Certificates that end within ten days, as in the rule ``NightjarCertificatesExpiring``."""


class AlertBook:
    """Alerts that are active, and faults that are."""

    def __init__(self) -> None:
        self._active: dict[str, float] = {}  # alert -> since when
        self._explained: Counter[str] = Counter()  # alert -> faults that explain it now
        self._until_s: dict[str, float] = {}  # alert -> until when an ended fault explains it
        self._owed: dict[str, tuple[str, float]] = {}  # fault -> (alert, latest time)
        self.without_alert: list[str] = []
        self.without_fault: list[str] = []
        self.seen: Counter[str] = Counter()

    def began(self, fault: str, alert: str, *, owed_by_s: float | None) -> None:
        """Note that a fault began that explains an alert; ``owed_by_s`` is when it must have been told, None never."""
        self._explained[alert] += 1
        if owed_by_s is not None and alert not in self._active:
            self._owed[fault] = (alert, owed_by_s)

    def ended(self, fault: str, alert: str, now_s: float) -> None:
        """Note the end of a fault, which should have been told by now if it is owed."""
        self._explained[alert] -= 1
        self._until_s[alert] = now_s + SETTLED_S
        if self._owed.pop(fault, None) is not None:
            self.without_alert.append(f"{fault}: no {alert}")

    def told(self, alerts: Collection[str], now_s: float) -> None:
        """Note which alerts are active now."""
        for alert in [each for each in self._active if each not in alerts]:
            del self._active[alert]
        for alert in alerts:
            self._owed = {fault: owed for fault, owed in self._owed.items() if owed[0] != alert}
            if alert in self._active:
                continue
            self._active[alert] = now_s
            self.seen[alert] += 1
            if self._explained[alert] <= 0 and now_s > self._until_s.get(alert, -1.0):
                self.without_fault.append(f"{alert} at {now_s:.0f}")
        for fault, (alert, latest_s) in list(self._owed.items()):
            if now_s >= latest_s:
                self.without_alert.append(f"{fault}: no {alert}")
                del self._owed[fault]
