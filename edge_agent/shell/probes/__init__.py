"""Probes of the device's state: one module per subject, all with the same small interface.

A probe takes no arguments and returns readings (:data:`Probe`). It never raises and never blocks: slow questions are
asked in the background (:mod:`nightjar.edge_agent.shell.probes.background`), and a reading then has an age. A probe
only translates; :mod:`nightjar.edge_agent.core.eligibility` decides what an answer means for training. Files are looked
up below a ``root`` and programs are started by a ``run``, so that tests (and emulated phones) can supply a device of
their own.

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

from nightjar.edge_agent.core.eligibility import Answer, Condition, ConditionReading, Readings

Probe = Callable[[], Readings]
"""Takes a reading now. Never raises, never blocks."""

_WEIGHT = (Answer.NO, Answer.YES, Answer.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Probes:
    """Implements :class:`nightjar.edge_agent.ports.Conditions` by asking every probe.

    Among several readings of one condition, a no takes precedence over a yes, and a yes over an unknown; among equal
    answers the first reading wins.
    """

    probes: Sequence[Probe]

    def read(self) -> Readings:
        """Take a reading now."""
        readings: dict[Condition, ConditionReading] = {}
        for probe in self.probes:
            for condition, reading in probe().items():
                earlier = readings.get(condition)
                if earlier is None or _WEIGHT.index(reading.value) < _WEIGHT.index(earlier.value):
                    readings[condition] = reading
        return readings
