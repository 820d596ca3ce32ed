"""The faces that a phone shows to whoever asks about it: a kernel's files, ``termux-battery-status``, ``dumpsys``.

Each is written from the state of an emulated phone, so that the same probes that ask a real device can be asked about
a played one. What a face cannot show (Termux does not tell whether a phone is in use) its probe cannot know either.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from nightjar.edge_agent.emulator.day import PhoneState
from nightjar.host.files import replace_file

BATTERY_C = 29.0


def write_files(root: Path, phone: PhoneState, now_s: float) -> None:
    """Show a phone as a kernel does: power supplies, heat, load, memory, routes, and a terminal.

    Args:
        root: folder of the tree.
        phone: its state.
        now_s: wall clock, seconds since 1970.
    """
    supply, zone = "sys/class/power_supply", "sys/class/thermal/thermal_zone0"
    interface = "wlan0" if phone.wifi else "rmnet0"
    files = {
        f"{supply}/usb/type": "USB",
        f"{supply}/usb/online": str(int(phone.charging)),
        f"{supply}/battery/type": "Battery",
        f"{supply}/battery/present": "1",
        f"{supply}/battery/status": _status(phone).replace("_", " ").capitalize(),
        f"{supply}/battery/capacity": str(round(100 * phone.battery)),
        f"{supply}/battery/temp": str(round(10 * BATTERY_C)),
        f"{zone}/type": "cpu-thermal",
        f"{zone}/temp": "38000",
        "proc/loadavg": "0.10 0.10 0.10 1/300 4000",
        "proc/meminfo": "MemAvailable:    2000000 kB",
        "proc/net/route": (
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
            f"{interface}\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0"
        ),
    }
    for name, text in files.items():
        _replace(root / name, f"{text}\n")
    terminal = root / "dev/tty1"
    if not terminal.exists() or phone.in_use:
        _replace(terminal, "")
        used_s = now_s if phone.in_use else 0.0
        os.utime(terminal, (used_s, used_s))


def termux_battery_status(phone: PhoneState) -> str:
    """What ``termux-battery-status`` prints."""
    return json.dumps(
        {
            "health": "GOOD",
            "percentage": round(100 * phone.battery),
            "plugged": "PLUGGED_AC" if phone.charging else "UNPLUGGED",
            "status": _status(phone),
            "temperature": BATTERY_C,
            "current": 400_000 if phone.charging else -250_000,
        }
    )


def write_termux(folder: Path, phone: PhoneState) -> Path:
    """Put a program ``termux-battery-status`` into a folder, which prints the state of a phone; returns its path."""
    _replace(folder / "battery.json", termux_battery_status(phone) + "\n")
    program = folder / "termux-battery-status"
    if not program.exists():
        _replace(program, '#!/bin/sh\nexec cat "${0%/*}/battery.json"\n')
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def shell(phone: PhoneState, command: str) -> str:
    r"""What ``adb shell`` prints for the commands that :mod:`nightjar.edge_agent.shell.probes.adb` asks.

    >>> from nightjar.edge_agent.emulator.day import DEFAULT_DAY, state_at
    >>> shell(state_at(DEFAULT_DAY, 1, 3 * 3600.0), "dumpsys deviceidle get deep")
    'IDLE\n'
    """
    match command.split():
        case ["dumpsys", "battery"]:
            number = {"CHARGING": 2, "DISCHARGING": 3, "FULL": 5}[_status(phone)]
            return (
                "Current Battery Service state:\n"
                f"  AC powered: {str(phone.charging).lower()}\n  USB powered: false\n  Wireless powered: false\n"
                f"  status: {number}\n  health: 2\n  present: true\n  level: {round(100 * phone.battery)}\n"
                f"  scale: 100\n  voltage: 4100\n  temperature: {round(10 * BATTERY_C)}\n  technology: Li-ion\n"
            )
        case ["dumpsys", "deviceidle", "get", "deep"]:
            return "ACTIVE\n" if phone.in_use else "IDLE\n"
        case ["dumpsys", "power"]:
            return f"POWER MANAGER (dumpsys power)\n  mWakefulness={'Awake' if phone.in_use else 'Asleep'}\n"
        case ["dumpsys", "netstats"]:
            kind, interface = ("WIFI", "wlan0") if phone.wifi else ("MOBILE", "rmnet0")
            metered = str(not phone.wifi).lower()
            ident = f"[{{type={kind}, subType=COMBINED, metered={metered}, defaultNetwork=true}}]"
            return f"Active interfaces:\n  iface={interface} ident={ident}\n"
        case ["dumpsys", "thermalservice"]:
            return "IsStatusOverride: false\nThermal Status: 0\n"
        case _:
            return f"Can't find service: {command[:80]}\n"


def _status(phone: PhoneState) -> str:
    if not phone.charging:
        return "DISCHARGING"
    return "FULL" if phone.battery >= 1.0 else "CHARGING"


def _replace(path: Path, text: str) -> None:
    """Whole or not at all: a probe may look at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, text.encode())
