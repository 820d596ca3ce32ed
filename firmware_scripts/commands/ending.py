"""Ends a command with an exit status that docs/flashing.md lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import click

from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import Reason
from nightjar.wire.errors import NightjarError


class CommandEnded(NightjarError):  # noqa: N818 - an end with a status, most often no fault of ours
    """Ends the command with this status and message. Never caught within a command."""

    def __init__(self, status: ExitStatus, message: str) -> None:
        super().__init__(message)
        self.exit_status = status


def refuse(*targets: tuple[str, Sequence[Reason]]) -> NoReturn:
    """End the command because of targets, each given as (name, reasons), with a line for each reason."""
    for name, reasons in targets:
        for reason in reasons:
            click.echo(f"refused  {printable(name)}  {reason.rule.value}: {reason.text}", err=True)
    raise click.exceptions.Exit(ExitStatus.REFUSED)
