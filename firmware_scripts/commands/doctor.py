"""``nightjar-firmware doctor``: shows what this machine lacks for the other commands, and how to fix it."""

from __future__ import annotations

import itertools
import json

import click

from nightjar.firmware_scripts.core.checks import Level, findings, install_line
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.shell.host import ThisHost

COMMANDS = ("flash", "customise", "image", "twin", "android")


@click.command()
@click.argument("commands", nargs=-1, type=click.Choice(COMMANDS))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {category, level, text, remedy}.")
def doctor(commands: tuple[str, ...], *, as_json: bool) -> ExitStatus:
    """Check this machine and list the findings by category, with remedies. Exits with 10 if a command would fail.

    Without COMMANDS only flash must be able to run; name those that you want to use.
    """
    results = findings(ThisHost(), commands)
    if as_json:
        rows = [{"category": f.category, "level": f.level.value, "text": f.text, "remedy": f.remedy} for f in results]
        click.echo(json.dumps(rows, indent=2))
    else:
        for category, group in itertools.groupby(results, lambda finding: finding.category):
            click.echo(f"{category}:")
            for finding in group:
                click.echo(f"  {finding.level.value:5}  {finding.text}")
                if finding.remedy:
                    click.echo(f"         {finding.remedy}")
        if line := install_line(results):
            click.echo(f"everything that is missing: {line}")
    return ExitStatus.CHECK_FAILED if any(f.level is Level.FAULT for f in results) else ExitStatus.DONE
