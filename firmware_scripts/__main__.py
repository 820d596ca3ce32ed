"""The command ``nightjar-firmware``, also ``python -m nightjar.firmware_scripts``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

import click

from nightjar.firmware_scripts import __version__
from nightjar.firmware_scripts.commands.android import android
from nightjar.firmware_scripts.commands.bmap import bmap
from nightjar.firmware_scripts.commands.bundle import bundle, bundle_key
from nightjar.firmware_scripts.commands.customise import customise
from nightjar.firmware_scripts.commands.deb import deb
from nightjar.firmware_scripts.commands.doctor import doctor
from nightjar.firmware_scripts.commands.flash import flash
from nightjar.firmware_scripts.commands.image import image
from nightjar.firmware_scripts.commands.keys import keys
from nightjar.firmware_scripts.commands.new_fleet import new_fleet
from nightjar.firmware_scripts.commands.targets import targets
from nightjar.firmware_scripts.commands.twin import twin
from nightjar.firmware_scripts.commands.verify import verify
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.host.command_output import watch_output
from nightjar.wire.errors import NightjarError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nightjar-firmware")
def cli() -> None:
    """Turn a blank card into a device that trains: find the card, write it, read it back."""


for command in (
    new_fleet,
    targets,
    flash,
    customise,
    verify,
    bmap,
    doctor,
    bundle,
    bundle_key,
    deb,
    keys,
    image,
    twin,
    android,
):
    cli.add_command(command)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status. Faults that a user can fix print one message and no traceback."""
    try:
        status = cli.main(arguments, prog_name="nightjar-firmware", standalone_mode=False)
    except NightjarError as error:
        click.echo(f"nightjar-firmware: {error}", err=True)
        return error.exit_status
    except OSError as error:
        if error.filename is None:
            raise  # of no file that an argument names
        click.echo(f"nightjar-firmware: {error.filename}: {error.strerror}; look there, or give another path", err=True)
        return ExitStatus.USAGE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        # While cards are being written, an interrupt does not reach this point: each card reports its own state.
        click.echo("nightjar-firmware: interrupted, nothing was written", err=True)
        return ExitStatus.INTERRUPTED
    return status or ExitStatus.DONE


def main() -> None:
    """Entry point."""
    # Handle SIGTERM like ctrl-C, which a shell's background jobs ignore: child programs are stopped and clean up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    watch_output()
    sys.exit(run())


if __name__ == "__main__":
    main()
