"""What a service's sandbox should hold, and what is open where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple


class Protection(NamedTuple):
    """What is open without it, the settings of systemd that close it, and those that a person's own systemd has."""

    open: str
    of_the_system: Mapping[str, str]
    of_a_person: Mapping[str, str]


_ANY = "*"
"""Some value, whatever it is: a list."""


def _all(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, "yes")


PROTECTIONS = (
    Protection(
        "files of the system and of people can be read and changed",
        {"ProtectSystem": "strict", **_all("ProtectHome", "PrivateTmp", "PrivateMounts")},
        {},
    ),
    Protection("other processes can be seen", {"ProtectProc": "invisible"}, {}),
    Protection(
        "settings, log and clock of the kernel are in reach",
        _all(
            *("ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs"),
            *("ProtectControlGroups", "ProtectClock", "ProtectHostname"),
        ),
        {},
    ),
    Protection("devices are in reach", {"DevicePolicy": "closed"}, {}),
    Protection(
        "rights can be gained",
        {**_all("NoNewPrivileges", "RestrictSUIDSGID", "RestrictNamespaces"), "CapabilityBoundingSet": ""},
        _all("NoNewPrivileges", "RestrictSUIDSGID", "RestrictNamespaces"),
    ),
    Protection(
        "memory that was written can be run as a program",
        _all("MemoryDenyWriteExecute", "LockPersonality"),
        _all("MemoryDenyWriteExecute", "LockPersonality"),
    ),
    Protection(
        "every system call is allowed",
        {"SystemCallFilter": _ANY, "SystemCallArchitectures": "native", **_all("RestrictRealtime")},
        {"SystemCallFilter": _ANY, "SystemCallArchitectures": "native", **_all("RestrictRealtime")},
    ),
    Protection(
        "sockets of every kind can be opened",
        {"RestrictAddressFamilies": _ANY},
        {"RestrictAddressFamilies": _ANY},
    ),
)


class Unit(NamedTuple):
    """The unit that a process belongs to, and whether it is one of a person's own systemd."""

    name: str
    of_a_person: bool


def unit_of(cgroups: str) -> Unit | None:
    """The service that a process belongs to, by its ``/proc/PID/cgroup``; None if that is none.

    >>> unit_of("0::/system.slice/nightjar-agent.service")
    Unit(name='nightjar-agent.service', of_a_person=False)
    >>> unit_of("0::/user.slice/user-1000.slice/user@1000.service/app.slice/nightjar-agent.service").of_a_person
    True
    >>> unit_of("0::/user.slice/user-1000.slice/session-3.scope") is None
    True
    """
    for line in cgroups.splitlines():
        path = line.split(":", 2)[-1]
        last = path.rpartition("/")[2]
        if re.fullmatch(r"[\w.:@-]+\.service", last, re.ASCII) and not last.startswith("user@"):
            return Unit(last, bool(re.search(r"/user@\d+\.service/", path)))
    return None


def wanted(*, of_a_person: bool) -> dict[str, str]:
    """The settings of all protections."""
    found: dict[str, str] = {}
    for protection in PROTECTIONS:
        found |= protection.of_a_person if of_a_person else protection.of_the_system
    return found


def lacking(shown: Mapping[str, str], *, of_a_person: bool) -> tuple[str, ...]:
    """What is open, with the settings that would close it, where systemd shows these properties of a unit.

    >>> shown = dict.fromkeys(wanted(of_a_person=False), "yes")
    >>> shown |= {"ProtectSystem": "strict", "ProtectProc": "default", "DevicePolicy": "closed"}
    >>> shown |= {"CapabilityBoundingSet": "", "SystemCallArchitectures": "native"}
    >>> lacking(shown, of_a_person=False)
    ('other processes can be seen (ProtectProc=invisible)',)
    """
    found = []
    for protection in PROTECTIONS:
        settings = protection.of_a_person if of_a_person else protection.of_the_system
        missing = [name for name, value in settings.items() if not _holds(shown.get(name), value)]
        if missing:
            found.append(f"{protection.open} ({' '.join(f'{name}={settings[name]}' for name in missing)})")
    return tuple(text.replace(f"={_ANY}", "=") for text in found)


def open_without_systemd(*, of_a_person: bool = False) -> tuple[str, ...]:
    """What is open where nothing makes a sandbox, or beside the one that a person's own systemd makes."""
    return tuple(each.open for each in PROTECTIONS if not (of_a_person and each.of_a_person))


def _holds(shown: str | None, value: str) -> bool:
    if not value:
        return not shown  # an empty list may be left out
    if shown is None:
        return False
    if value == _ANY:
        # A list that begins with ~ allows all but what it names, and an empty one everything.
        return bool(shown) and not shown.startswith("~")
    return shown == value
