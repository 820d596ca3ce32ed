"""The twin's charger: the kernel's test power supply, set through its module's parameters.

The values that the agent reads in /sys/class/power_supply come from the kernel itself.
Source: Linux 6.1, drivers/power/supply/test_power.c.
"""

from __future__ import annotations

from firmware_scripts.twin.guest import Guest

_PARAMETERS = "/sys/module/test_power/parameters"


def has_battery(guest: Guest) -> bool:
    """Whether the machine has a battery; one without is always on mains.

    Raises:
        UnavailableError: the machine does not answer.
    """
    return guest.read(f"{_PARAMETERS}/ac_online") is not None


def set_charging(guest: Guest, *, charging: bool) -> None:
    """Connect or disconnect the charger.

    Raises:
        UnavailableError: the machine does not answer, or its kernel lacks the module.
    """
    plug, battery = ("on", "charging") if charging else ("off", "discharging")
    settings = {"ac_online": plug, "usb_online": plug, "battery_status": battery, "battery_capacity": "80"}
    guest.shell(" && ".join(f"echo {value} > {_PARAMETERS}/{name}" for name, value in settings.items()))
