"""``python -m nightjar.experiments.silos``: runs the study; an expected error is one line, without a traceback."""

from __future__ import annotations

import sys

import click

from nightjar.experiments.silos.command import silos
from nightjar.wire.errors import NightjarError

if __name__ == "__main__":
    try:
        silos(prog_name="python -m nightjar.experiments.silos")
    except NightjarError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_status)
