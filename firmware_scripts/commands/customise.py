"""``nightjar-firmware customise``: sets up an image, or a freshly written card, for one host."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from firmware_scripts.commands.asking import objection_to
from firmware_scripts.commands.host_options import host_options, read_host_options
from firmware_scripts.core.confirm import differences, identity
from firmware_scripts.core.exit_status import ExitStatus
from firmware_scripts.core.printable import printable
from firmware_scripts.core.rules import CAN_BE_ALLOWED, Reason, Rule
from firmware_scripts.customising import Customisation, Order, carry_out, order_as_json, plan
from firmware_scripts.fleet import refusals
from firmware_scripts.shell.block_file import open_block, open_file
from firmware_scripts.shell.fat import boot_partition
from firmware_scripts.shell.images import Packing, packing_of
from firmware_scripts.shell.look import look
from firmware_scripts.shell.naming import DiskTarget, Target, find_target
from firmware_scripts.shell.schema_check import cloud_init_schema
from wire.errors import ConfigError, IntegrityError, RemoteProtocolError, UnavailableError


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@host_options
@click.option("--yes", is_flag=True, help="Do not ask. A card needs --expect-serial then.")
@click.option("--expect-serial", "serial", default="", help="Serial number of the disk that the card is.")
@click.option(
    "--allow",
    multiple=True,
    type=click.Choice(sorted(rule.value for rule in CAN_BE_ALLOWED)),
    help="A rule that shall not refuse the card. Nothing allows a disk that is in use.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be written and what would happen; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.pass_context
def customise(
    context: click.Context,
    /,
    target: Path,
    serial: str,
    allow: tuple[str, ...],
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
    options = read_host_options(given)
    if options is None or options.hostname is None:
        msg = "give at least --hostname: a card without a name of its own is nobody's"
        raise ConfigError(msg)
    order = options.order(options.hostname, {}, Path())
    allowed = frozenset(Rule(rule) for rule in allow)
    resolved = _find(target, allowed, context)
    if not dry_run and isinstance(resolved, DiskTarget):
        _confirm(resolved, target, serial, context, yes=yes)
    try:
        with _claimed(resolved, allowed, context, dry_run=dry_run) as path, boot_partition(path) as fat:
            custom = plan(order, fat, cloud_init_schema)
            if not dry_run:
                carry_out(custom, fat)
    except IntegrityError as error:
        click.echo(f"nightjar-firmware: {error}", err=True)
        context.exit(ExitStatus.VERIFY_FAILED)
    except RemoteProtocolError as error:
        click.echo(f"nightjar-firmware: {error}", err=True)
        context.exit(ExitStatus.IMAGE_UNUSABLE)
    except OSError as error:
        msg = f"{target} cannot be written: {error}"
        raise UnavailableError(msg) from error
    _tell(custom, order, dry_run=dry_run, as_json=as_json)


def _find(named: Path, allowed: frozenset[Rule], context: click.Context) -> Target:
    if not named.exists():
        msg = f"there is no {named}"
        raise ConfigError(msg)
    machine = look()
    target = find_target(machine, named, Path("/dev/null"))
    reasons = (target,) if isinstance(target, Reason) else refusals(machine, target, 0, allowed)
    if reasons:
        _refuse(named, reasons, context)
    if isinstance(target, Reason):  # refused above
        raise TypeError(target)
    if named.is_file() and packing_of(named) is not Packing.PLAIN:
        msg = f"{named} is packed: unpack it first, or let flash customise each card (flash --hostname ...)"
        raise ConfigError(msg)
    return target


def _confirm(target: DiskTarget, named: Path, serial: str, context: click.Context, *, yes: bool) -> None:
    if yes and not serial:
        msg = "--yes needs the serial number that the card must have (--expect-serial)"
        raise ConfigError(msg)
    what = f"Files on the boot partition of {printable(str(target.path))} will be written."
    objection = objection_to(target, str(named), serial, look().devices.whole(), what, yes=yes)
    if objection is not None:
        click.echo(f"nightjar-firmware: not confirmed, nothing was written: {objection}", err=True)
        context.exit(ExitStatus.NOT_CONFIRMED)


@contextmanager
def _claimed(target: Target, allowed: frozenset[Rule], context: click.Context, *, dry_run: bool) -> Iterator[Path]:
    """Open the target exclusively, and judge it again while it is held."""
    if dry_run:
        yield target.path
        return
    with open_block(target.path) if isinstance(target, DiskTarget) else open_file(target.path, 0) as opened:
        if isinstance(opened, Reason):
            _refuse(target.path, (opened,), context)
        elif isinstance(target, DiskTarget):
            machine = look()
            device = machine.devices.numbered(opened.number)
            if device is None or differences(identity(target.device), identity(device)):
                changed = Reason(Rule.CHANGED, f"{target.path} is not what was confirmed: look again")
                _refuse(target.path, (changed,), context)
            elif reasons := refusals(machine, DiskTarget(target.path, device), 0, allowed):
                _refuse(target.path, reasons, context)
        yield target.path


def _refuse(named: Path, reasons: tuple[Reason, ...], context: click.Context) -> None:
    for reason in reasons:
        click.echo(f"refused  {printable(str(named))}  {reason.rule.value}: {reason.text}", err=True)
    context.exit(ExitStatus.REFUSED)


def _tell(custom: Customisation, order: Order, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        report = {"hostname": order.settings.hostname, "written": not dry_run, **order_as_json(custom)}
        click.echo(json.dumps(report, indent=2))
        return
    click.echo(f"{custom.detected.format.value}: {custom.detected.because}")
    click.echo("would be written:" if dry_run else "written, and read back:")
    for name, data in custom.files.items():
        click.echo(f"  {name}  {len(data) if isinstance(data, bytes) else data.stat().st_size} bytes")
    click.echo("at its first start:")
    for line in custom.words:
        click.echo(f"  {line}")
    for warning in custom.warnings:
        click.echo(f"note: {warning}", err=True)
