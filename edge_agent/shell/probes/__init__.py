"""What can be found out about a device: one module a subject, each behind the same small face.

A probe is called with nothing and returns readings (:data:`Probe`). It never raises and never waits: what takes long is
asked in the background (:mod:`edge_agent.shell.probes.background`), and a reading then has an age. A probe translates;
what an answer means for training is in :mod:`edge_agent.core.eligibility`. Files are found below a ``root`` and
programs are run by a ``run``, so that tests (and emulated phones) have a device of their own.

================ =============================================== ========================================
module         conditions                                      asks
================ =============================================== ========================================
``power``        charging, battery-high                          ``/sys/class/power_supply``
``heat``         cool                                            batteries, ``/sys/class/thermal``
``raspberry``    steady-power, cool                              ``hwmon``, ``vcgencmd get_throttled``
``idle``         idle                                            our keyboard, terminals, input devices
``sessions``     idle                                            ``loginctl``
``busy``         idle                                            pressure stall information, load
``network``      unmetered                                       routes, ``nmcli``, the configuration
``resources``    disk-free, memory-free                          ``statvfs``, ``/proc/meminfo``
``preferences``  wanted, outside-quiet-hours                     the person's settings
``termux``       charging, battery-high, cool                    ``termux-battery-status``
``adb``          charging, battery-high, idle, unmetered, cool   ``adb shell dumpsys ...``
================ =============================================== ========================================
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings

Probe = Callable[[], Readings]
"""Looks now. Never raises, never waits."""

_WEIGHT = (Answer.NO, Answer.YES, Answer.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Probes:
    """Implements :class:`edge_agent.ports.Conditions` by asking every probe.

    Of several readings of one condition a no counts before a yes, and a yes before an unknown; of equal ones the first.

    Attributes:
        probes: in the order in which they are asked.
    """

    probes: Sequence[Probe]

    def read(self) -> Readings:
        """Look now."""
        found: dict[Condition, ConditionReading] = {}
        for probe in self.probes:
            for condition, reading in probe().items():
                earlier = found.get(condition)
                if earlier is None or _WEIGHT.index(reading.value) < _WEIGHT.index(earlier.value):
                    found[condition] = reading
        return found
