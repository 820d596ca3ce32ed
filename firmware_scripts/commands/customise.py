"""``nightjar-firmware customise``: sets up an image, or a freshly written card, for one host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import click

from nightjar.firmware_scripts.commands.asking import allow_option, confirm
from nightjar.firmware_scripts.commands.ending import CommandEnded, refuse
from nightjar.firmware_scripts.commands.host_options import host_options, read_host_options
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.customising import Customisation, Order, carry_out, plan, size_of
from nightjar.firmware_scripts.fleet import changed_or_refused, open_target, refusals
from nightjar.firmware_scripts.shell.fat import boot_partition
from nightjar.firmware_scripts.shell.images import Packing, packing_of
from nightjar.firmware_scripts.shell.look import look
from nightjar.firmware_scripts.shell.naming import DiskTarget, Target, find_target
from nightjar.firmware_scripts.shell.settings_check import cloud_init_schema
from nightjar.wire.errors import ConfigError, IntegrityError, RemoteProtocolError, UnavailableError


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@host_options
@click.option("--yes", is_flag=True, help="Do not ask. A card needs --expect-serial then.")
@click.option("--expect-serial", "serial", default="", help="Serial number of the disk that the card is.")
@allow_option
@click.option("--dry-run", is_flag=True, help="Say what would be written and what would happen; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def customise(
    target: Path,
    serial: str,
    allow: frozenset[Rule],
    *,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Give the image or card TARGET a host name, user, keys, network and agent, and print what its first boot will do.

    Supports Raspberry Pi OS trixie (cloud-init) and bookworm (firstrun.sh), and our own images. The format is read from
    the image, never guessed. TARGET is not mounted. docs/customising.md has examples.
    """
    options = read_host_options(given, asks=not dry_run)
    if options is None or options.hostname is None:
        msg = "give at least --hostname: a card without a name of its own is nobody's"
        raise ConfigError(msg)
    order = options.order(options.hostname, {}, Path())
    resolved = _find(target, allow)
    if not dry_run and isinstance(resolved, DiskTarget):
        if yes and not serial:
            msg = "--yes needs the serial number that the card must have (--expect-serial)"
            raise ConfigError(msg)
        what = f"Files on the boot partition of {printable(str(resolved.path))} will be written."
        confirm(resolved, str(target), serial, look().devices.whole(), what, yes=yes)
    try:
        with nullcontext() if dry_run else _claimed(resolved, allow), boot_partition(resolved.path) as fat:
            custom = plan(order, fat, cloud_init_schema)
            if not dry_run:
                carry_out(custom, fat)
    except IntegrityError as error:
        raise CommandEnded(ExitStatus.VERIFY_FAILED, str(error)) from error
    except RemoteProtocolError as error:
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, str(error)) from error
    except OSError as error:
        msg = f"{target} cannot be written: {error}"
        raise UnavailableError(msg) from error
    _tell(custom, order, dry_run=dry_run, as_json=as_json)


def _find(named: Path, allowed: frozenset[Rule]) -> Target:
    if not named.exists():
        msg = f"there is no {named}"
        raise ConfigError(msg)
    machine = look()
    target = find_target(machine, named, Path("/dev/null"))
    if isinstance(target, Reason):
        refuse((str(named), [target]))
    if reasons := refusals(machine, target, 0, allowed):
        refuse((str(named), reasons))
    if named.is_file() and packing_of(named) is not Packing.PLAIN:
        msg = f"{named} is packed: unpack it first, or let flash customise each card (flash --hostname ...)"
        raise ConfigError(msg)
    return target


@contextmanager
def _claimed(target: Target, allowed: frozenset[Rule]) -> Iterator[None]:
    """Open the target exclusively, and judge it again while it is held."""
    with open_target(target, 0) as opened:
        if isinstance(opened, Reason):
            refuse((str(target.path), [opened]))
        if isinstance(target, DiskTarget) and (reasons := changed_or_refused(look(), target, opened, 0, allowed)):
            refuse((str(target.path), reasons))
        yield


def _tell(custom: Customisation, order: Order, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        # Names and sizes, but no contents: they include secrets.
        report = {
            "hostname": order.settings.hostname,
            "written": not dry_run,
            "format": custom.detected.format.value,
            "because": custom.detected.because,
            "files": [{"path": name, "size_bytes": size_of(data)} for name, data in custom.files.items()],
            "removed": custom.removed,
            "first_start": custom.words,
            "warnings": custom.warnings,
        }
        click.echo(json.dumps(report, indent=2))
        return
    click.echo(f"{custom.detected.format.value}: {custom.detected.because}")
    click.echo("would be written:" if dry_run else "written, and read back:")
    for name, data in custom.files.items():
        click.echo(f"  {name}  {size_of(data)} bytes")
    click.echo("at its first start:")
    for line in custom.words:
        click.echo(f"  {line}")
    for warning in custom.warnings:
        click.echo(f"note: {warning}", err=True)
