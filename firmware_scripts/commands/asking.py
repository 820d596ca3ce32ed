"""Asks a person to confirm a target, by typing its description or giving its serial number."""

from __future__ import annotations

from collections.abc import Sequence

import click

from firmware_scripts.core.confirm import phrase, serial_objection, typed_matches
from firmware_scripts.core.devices import BlockDevice
from firmware_scripts.core.printable import printable, size_text
from firmware_scripts.shell.naming import DiskTarget, FileTarget, Target


def objection_to(
    target: Target, name: str, serial: str, disks: Sequence[BlockDevice], what_happens: str, *, yes: bool
) -> str | None:
    """Why a target is not confirmed; None if it is.

    Args:
        target: the target that was named.
        name: the name as it was given.
        serial: the serial number that the target must have; empty if none is expected.
        disks: the disks of this machine, from which the target must be distinguishable.
        what_happens: a sentence that says what will happen to the target.
        yes: ask nothing.
    """
    if serial and isinstance(target, DiskTarget):
        objection = serial_objection(target.device, serial, disks)
    elif serial:
        objection = f"{printable(name)} is a file, and has no serial number"
    else:
        objection = None
    return _ask(target, disks, what_happens) if objection is None and not yes else objection


def _ask(target: Target, disks: Sequence[BlockDevice], what_happens: str) -> str | None:
    match target:
        case FileTarget(_, None):
            return None
        case FileTarget(path, size_bytes):
            expected = f"{printable(path.name)} {size_text(size_bytes or 0)}"
        case DiskTarget(path, device):
            expected = phrase(device, disks)
    click.echo(what_happens, err=True)
    try:
        typed = click.prompt(
            f"To go on, type: {expected}\n", prompt_suffix="> ", err=True, default="", show_default=False
        )
    except click.Abort:
        return "nothing was typed"
    return None if typed_matches(typed, expected) else f"expected {expected!r}, got {printable(typed)!r}"
