"""Decides whether a person or a script has correctly named the disk that is about to be overwritten.

A person types the model and the size as shown; a script gives the serial number. If two disks look the same, the person
must also type the disk's name. A serial number that two disks share confirms nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from nightjar.firmware_scripts.core.devices import StorageDevice
from nightjar.firmware_scripts.core.printable import printable
from nightjar.host.sizes import size_text

# The facts that must not change for a disk to count as the same disk when it is checked again.
_IDENTITY = ("number", "path", "model", "vendor", "serial", "wwn", "size_bytes", "sequence")


def differences(confirmed: StorageDevice, now: StorageDevice) -> tuple[str, ...]:
    """The names of the fields that changed since the confirmation; empty if it is the same disk."""
    return tuple(name for name in _IDENTITY if getattr(confirmed, name) != getattr(now, name))


def phrase(device: StorageDevice, disks: Sequence[StorageDevice]) -> str:
    """The phrase that confirms ``device``, one of ``disks``: model and size, plus the name if those are ambiguous."""
    words = _looks(device)
    alike = [other for other in disks if other.name != device.name and other.size_bytes and _looks(other) == words]
    return f"{words} {device.name}" if alike and device.name not in words else words


def typed_matches(typed: str, expected: str) -> bool:
    """Whether a typed line is the phrase, ignoring case and spacing.

    >>> typed_matches("generic  sd reader 31.9 gb", "Generic SD Reader 31.9 GB")
    True
    >>> typed_matches("y", "Generic SD Reader 31.9 GB")
    False
    """
    return typed.casefold().split() == expected.casefold().split()


def serial_objection(device: StorageDevice, expected: str, disks: Sequence[StorageDevice]) -> str | None:
    """Why the serial number given by a script does not confirm ``device``; None if it does."""
    if not device.serial:
        return f"{printable(device.path)} has no serial number to expect: confirm it by hand"
    if device.serial != expected:
        return f"{printable(device.path)} has serial {printable(device.serial)!r}, not {printable(expected)!r}"
    if any(other.name != device.name and other.size_bytes and other.serial == expected for other in disks):
        return f"another disk has serial {printable(expected)!r} too: confirm by hand"
    return None


def _looks(device: StorageDevice) -> str:
    model = printable(device.model or device.vendor or device.name)
    return f"{model} {size_text(device.size_bytes or 0)}"
