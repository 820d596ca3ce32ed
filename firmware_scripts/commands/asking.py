"""How a target is confirmed: a person types its description, or a script gives its serial number."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from nightjar.firmware_scripts.commands.ending import CommandEnded
from nightjar.firmware_scripts.core.confirm import phrase, serial_objection, typed_matches
from nightjar.firmware_scripts.core.devices import StorageDevice
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.host_settings import wifi_key
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import CAN_BE_ALLOWED, Rule
from nightjar.firmware_scripts.shell.naming import DiskTarget, FileTarget, Target
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError

WIFI_PHRASE = "NIGHTJAR_WIFI_PHRASE"
"""The environment variable with the Wi-Fi's phrase. It is no option: every user can read those of a running program."""

allow_option = click.option(
    "--allow",
    multiple=True,
    type=click.Choice(sorted(rule.value for rule in CAN_BE_ALLOWED)),
    callback=lambda _context, _option, names: frozenset(map(Rule, names)),
    help="A rule that shall not refuse a target. Nothing allows a disk that is in use.",
)


def confirm(
    target: Target, name: str, serial: str, disks: Sequence[StorageDevice], what_happens: str, *, yes: bool
) -> None:
    """End the command unless the target, given as ``name``, is confirmed.

    What is typed tells it from the other ``disks`` of this machine. An empty ``serial`` is not checked; ``yes`` asks
    nothing.
    """
    if serial and isinstance(target, DiskTarget):
        objection = serial_objection(target.device, serial, disks)
    elif serial:
        objection = f"{printable(name)} is a file, and has no serial number"
    else:
        objection = None
    if objection is None and not yes:
        objection = _ask(target, disks, what_happens)
    if objection is not None:
        raise CommandEnded(ExitStatus.NOT_CONFIRMED, f"not confirmed, nothing was written: {objection}")


def has_terminal() -> bool:
    """Whether a person can be asked for something that is not shown."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True


def wifi_key_given(ssid: str) -> str | None:
    """The key of a Wi-Fi from the phrase in the environment; None if there is none.

    Raises:
        ConfigError: it is no phrase.
    """
    phrase = os.environ.get(WIFI_PHRASE)
    if not phrase:
        return None
    try:
        return wifi_key(ssid, phrase)
    except ConfigError as error:
        msg = f"{WIFI_PHRASE}: {error}"
        raise ConfigError(msg) from error


def ask_wifi_key(ssid: str, *, twice: bool = False) -> str:
    """Ask for the phrase of a Wi-Fi until it can be one, and return its key; ``twice`` guards against slips.

    Raises:
        ConfigError: there is nobody to ask.
    """
    shown = printable(ssid)
    if not has_terminal():
        msg = f"the phrase of the Wi-Fi {shown} is missing, and there is no terminal to ask for it: set {WIFI_PHRASE}"
        raise ConfigError(msg)
    while True:
        phrase = click.prompt(f"Phrase of the Wi-Fi {shown}", hide_input=True, err=True, confirmation_prompt=twice)
        try:
            return wifi_key(ssid, phrase)
        except ConfigError as error:
            click.echo(str(error), err=True)


def _ask(target: Target, disks: Sequence[StorageDevice], what_happens: str) -> str | None:
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
