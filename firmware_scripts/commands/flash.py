"""``nightjar-firmware flash``: writes an image to one or many cards, and never to anything else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from nightjar.firmware_scripts.card_contents import contents_json, contents_lines
from nightjar.firmware_scripts.commands.asking import allow_option, confirm
from nightjar.firmware_scripts.commands.ending import CommandEnded, refuse
from nightjar.firmware_scripts.commands.host_options import HostOptions, host_options, read_host_options
from nightjar.firmware_scripts.commands.targets import verdict_json
from nightjar.firmware_scripts.core.bmap import Bmap
from nightjar.firmware_scripts.core.cards import Card, parse_cards
from nightjar.firmware_scripts.core.confirm import phrase
from nightjar.firmware_scripts.core.exit_status import ExitStatus
from nightjar.firmware_scripts.core.image_format import HEAD_BYTES, has_partition_table, sector_sizes
from nightjar.firmware_scripts.core.plan import CUSTOMISE_STEP, STEPS, Survey
from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.rules import Reason, Rule
from nightjar.firmware_scripts.core.targets import MachineState, TargetVerdict
from nightjar.firmware_scripts.customising import Order, customise
from nightjar.firmware_scripts.fleet import (
    CardOutcome,
    Confirmed,
    CustomiseFailed,
    FlashJob,
    TargetRefused,
    refusals,
    write_cards,
)
from nightjar.firmware_scripts.shell.given_files import read_given_text
from nightjar.firmware_scripts.shell.images import find_bmap, open_image, packing_of, read_bmap
from nightjar.firmware_scripts.shell.look import look
from nightjar.firmware_scripts.shell.naming import DiskTarget, FileTarget, Target, find_target
from nightjar.firmware_scripts.shell.progress import display
from nightjar.firmware_scripts.shell.settings_check import cloud_init_schema
from nightjar.firmware_scripts.surveying import exactly, survey
from nightjar.firmware_scripts.verifying import VerifyFailed
from nightjar.firmware_scripts.writing import ImageFailed, Interrupted, WriteFailed, Written
from nightjar.host.signals import noticed_signals
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError, RemoteProtocolError, UnavailableError

AT_ONCE = 8  # more than a USB hub has ports; each card also reads the image separately


@dataclass(frozen=True, slots=True)
class _Named:
    """A target as it was named, and what it was resolved to."""

    name: str
    target: Target | Reason
    reasons: tuple[Reason, ...]
    serial: str
    card: Card | None


@click.command()
@click.argument("image", type=click.Path(path_type=Path))
@click.argument("targets", nargs=-1)
@click.option("--cards", "cards_path", type=click.Path(path_type=Path), help="CSV: target,hostname,serial.")
@click.option("--bmap", "bmap_path", type=click.Path(path_type=Path), help="Block map. Default: the one beside IMAGE.")
@click.option("--no-bmap", is_flag=True, help="Write every byte, also where a block map says that there is nothing.")
@click.option("--sha256", "expected_sha256", help="What the unpacked image must hash to.")
@host_options
@click.option("--yes", is_flag=True, help="Do not ask. Each disk needs an --expect-serial then.")
@click.option("--expect-serial", "serials", multiple=True, help="Serial of the disk, once per target, in their order.")
@allow_option
@click.option("--at-once", default=AT_ONCE, show_default=True, type=click.IntRange(1, 64), help="Cards at a time.")
@click.option("--force", is_flag=True, help="Write an image that has no partition table.")
@click.option("--dry-run", is_flag=True, help="Print the plan as JSON and touch nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome of each target as JSON.")
def flash(
    image: Path,
    targets: tuple[str, ...],
    cards_path: Path | None,
    bmap_path: Path | None,
    expected_sha256: str | None,
    serials: tuple[str, ...],
    allow: frozenset[Rule],
    at_once: int,
    *,
    no_bmap: bool,
    yes: bool,
    force: bool,
    dry_run: bool,
    as_json: bool,
    **given: Any,
) -> ExitStatus:
    """Write IMAGE (.img, .img.xz, .img.zst, .img.gz) to each TARGET and read it back.

    You always name the target; it is never chosen for you. A target is refused if writing to it could destroy data of
    this machine; 'targets' says why. With --hostname, or a list of --cards, each card is customised as well.
    docs/flashing.md lists the exit statuses.
    """
    try:
        bmap = _bmap(image, bmap_path, no_bmap=no_bmap)
        with open_image(image) as stream:
            head = exactly(stream, HEAD_BYTES)
    except RemoteProtocolError as error:
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, str(error)) from error
    except OSError as error:
        msg = f"the image {image} cannot be read: {error}"
        raise UnavailableError(msg) from error
    machine = look()
    named = _name_targets(machine, image, _targets_and_cards(targets, serials, cards_path))
    sectors = sector_sizes(head)
    # Judged before anything is asked or the image is read, so that a refusal comes at once.
    judged = [_judged(machine, entry, bmap.image_bytes if bmap else 0, allow, sectors) for entry in named]
    if not dry_run:
        _end_if_refused(judged)
    _check_serials([entry for entry in judged if not entry.reasons], yes=yes)
    options = read_host_options(given, asks=not dry_run)
    try:
        with display() as report_for:
            surveyed = survey(partial(open_image, image), bmap, report_for(image.name))
    except RemoteProtocolError as error:
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, str(error)) from error
    except OSError as error:
        msg = f"the image {image} cannot be read: {error}"
        raise UnavailableError(msg) from error
    if not has_partition_table(head) and not force:
        msg = f"{image} has no partition table: no device boots it; --force writes it"
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, msg)
    if expected_sha256 is not None and surveyed.sha256 != expected_sha256.strip().lower():
        msg = f"the image has sha256 {surveyed.sha256}, not {expected_sha256[:80]}"
        raise CommandEnded(ExitStatus.IMAGE_UNUSABLE, msg)
    named = [_judged(machine, entry, surveyed.image_bytes, allow, sectors) for entry in named]
    orders = _orders(named, options, cards_path)
    if dry_run:
        click.echo(json.dumps(_plan_json(machine, image, surveyed, named, orders), indent=2))
        return ExitStatus.REFUSED if any(entry.reasons for entry in named) else ExitStatus.DONE
    _end_if_refused(named)
    confirmed = [_confirm(machine, entry, surveyed, yes=yes) for entry in named]
    customised = (lambda card: _customise(orders, card)) if orders else None
    job = FlashJob(surveyed, partial(open_image, image), look, allow, customised, sector_sizes=sectors)
    with noticed_signals() as stop, display() as report_for:
        outcomes = write_cards(job, confirmed, [report_for(entry.name) for entry in named], at_once, stop)
    _tell(image, surveyed, named, orders, outcomes, as_json=as_json)
    return next((status for status in map(status_of, outcomes) if status), ExitStatus.DONE)


def status_of(outcome: CardOutcome) -> ExitStatus:
    """The exit status of one card."""
    match outcome:
        case Written():
            return ExitStatus.DONE
        case TargetRefused():
            return ExitStatus.REFUSED
        case WriteFailed():
            return ExitStatus.WRITE_FAILED
        case VerifyFailed():
            return ExitStatus.VERIFY_FAILED
        case ImageFailed():
            return ExitStatus.IMAGE_UNUSABLE
        case CustomiseFailed():
            return ExitStatus.CUSTOMISE_FAILED
        case Interrupted():
            return ExitStatus.INTERRUPTED


def _orders(named: Sequence[_Named], options: HostOptions | None, cards_path: Path | None) -> Mapping[Path, Order]:
    """The customisation of each target. All faults are found before any card is touched."""
    if options is None:
        return {}
    if options.hostname and len(named) > 1:
        msg = "one --hostname cannot be for several cards: give a list of --cards"
        raise ConfigError(msg)
    orders = {}
    for entry in named:
        hostname = entry.card.hostname if entry.card else options.hostname
        if hostname is None:
            msg = f"{entry.name} has no name: give --hostname, or a list of --cards"
            raise ConfigError(msg)
        folder = cards_path.parent if cards_path else Path()
        if not isinstance(entry.target, Reason):
            orders[entry.target.path] = options.order(hostname, entry.card.others if entry.card else {}, folder)
    return orders


def _customise(orders: Mapping[Path, Order], card: Confirmed) -> None:
    customise(card.target.path, orders[card.target.path], cloud_init_schema)


def _bmap(image: Path, given: Path | None, *, no_bmap: bool) -> Bmap | None:
    if given and no_bmap:
        msg = "give --bmap or --no-bmap, not both"
        raise ConfigError(msg)
    packing_of(image)  # checked first, to report an unreadable or invalid image before anything else
    path = None if no_bmap else given or find_bmap(image)
    return read_bmap(path) if path else None


def _targets_and_cards(
    targets: Sequence[str], serials: Sequence[str], cards_path: Path | None
) -> list[tuple[str, str, Card | None]]:
    """(target, expected serial, card) for each target."""
    if bool(targets) == bool(cards_path):
        msg = "name the targets, or a list of --cards; 'nightjar-firmware targets' shows what may be written to"
        raise ConfigError(msg)
    if cards_path:
        if serials:
            msg = "with --cards the serials are a column of the list"
            raise ConfigError(msg)
        return [(card.target, card.serial, card) for card in parse_cards(read_given_text(cards_path))]
    if serials and len(serials) != len(targets):
        msg = f"expected one --expect-serial for each of the {len(targets)} targets, got {len(serials)}"
        raise ConfigError(msg)
    return [(target, serials[i] if serials else "", None) for i, target in enumerate(targets)]


def _name_targets(machine: MachineState, image: Path, wanted: Sequence[tuple[str, str, Card | None]]) -> list[_Named]:
    named = [_Named(name, find_target(machine, Path(name), image), (), serial, card) for name, serial, card in wanted]
    paths = [entry.target.path for entry in named if not isinstance(entry.target, Reason)]
    if doubles := sorted({str(path) for path in paths if paths.count(path) > 1}):
        msg = f"named twice: {', '.join(doubles)}"
        raise ConfigError(msg)
    return named


def _check_serials(named: Sequence[_Named], *, yes: bool) -> None:
    unnamed = [entry.name for entry in named if isinstance(entry.target, DiskTarget) and not entry.serial]
    if yes and unnamed:
        msg = f"--yes needs the serial that each disk must have (--expect-serial): missing for {', '.join(unnamed)}"
        raise ConfigError(msg)


def _judged(
    machine: MachineState, one: _Named, image_bytes: int, allow: frozenset[Rule], sectors: frozenset[int]
) -> _Named:
    if isinstance(one.target, Reason):
        return replace(one, reasons=(one.target,))
    return replace(one, reasons=refusals(machine, one.target, image_bytes, allow, sectors))


def _end_if_refused(named: Sequence[_Named]) -> None:
    if any(entry.reasons for entry in named):
        refuse(*((entry.name, entry.reasons) for entry in named))


def _confirm(machine: MachineState, one: _Named, surveyed: Survey, *, yes: bool) -> Confirmed:
    """Ask for confirmation of a target; exits the command if it is not confirmed."""
    target = one.target
    if isinstance(target, Reason):  # cannot happen: already refused
        raise TypeError(target)
    size = size_text(surveyed.image_bytes)
    what = f"Everything on {printable(str(target.path))} will be lost; an image of {size} takes its place."
    confirm(target, one.name, one.serial, machine.devices.whole(), what, yes=yes)
    return Confirmed(target, one.card)


def _plan_json(
    machine: MachineState, image: Path, surveyed: Survey, named: Sequence[_Named], orders: Mapping[Path, Order]
) -> dict[str, object]:
    disks = machine.devices.whole()
    targets: list[dict[str, object]] = []
    for entry in named:
        reasons = [{"rule": reason.rule.value, "text": reason.text} for reason in entry.reasons]
        plan: dict[str, object] = {"path": entry.name, "kind": "unknown"}
        if isinstance(entry.target, DiskTarget):
            device = entry.target.device
            plan = {**verdict_json(TargetVerdict(device, ())), "kind": "disk", "confirm": phrase(device, disks)}
        elif isinstance(entry.target, FileTarget):
            plan = {"path": str(entry.target.path), "kind": "file", "size_bytes": entry.target.size_bytes}
        plan |= {"allowed": not reasons, "reasons": reasons, **_contents_json(entry, orders)}
        targets.append(plan)
    return {
        "image": {
            "path": str(image),
            "packing": packing_of(image).value,
            "size_bytes": surveyed.image_bytes,
            "sha256": surveyed.sha256,
            "write_bytes": surveyed.mapped_bytes,
        },
        "targets": targets,
        "steps": [*STEPS, CUSTOMISE_STEP] if orders else list(STEPS),
    }


def _order_of(one: _Named, orders: Mapping[Path, Order]) -> Order | None:
    return None if isinstance(one.target, Reason) else orders.get(one.target.path)


def _contents_json(one: _Named, orders: Mapping[Path, Order]) -> dict[str, object]:
    """What the settings of a card are, without its secrets; only the host name if it is not customised."""
    order = _order_of(one, orders)
    return {"hostname": one.card.hostname if one.card else None} if order is None else contents_json(order)


def _tell(
    image: Path,
    surveyed: Survey,
    named: Sequence[_Named],
    orders: Mapping[Path, Order],
    outcomes: Sequence[CardOutcome],
    *,
    as_json: bool,
) -> None:
    if as_json:
        rows = [
            {
                "target": entry.name,
                "image": {"path": str(image), "size_bytes": surveyed.image_bytes, "sha256": surveyed.sha256},
                **_contents_json(entry, orders),
                "outcome": status_of(outcome).name.lower().replace("_", "-"),
                "offset": outcome.offset if isinstance(outcome, WriteFailed | VerifyFailed) else None,
                "text": _words(outcome),
            }
            for entry, outcome in zip(named, outcomes, strict=True)
        ]
        click.echo(json.dumps(rows, indent=2))
    for entry, outcome in zip(named, outcomes, strict=True):
        order = _order_of(entry, orders)
        name = order.settings.hostname if order else entry.card.hostname if entry.card else ""
        host = f" ({name})" if name else ""
        click.echo(f"{printable(entry.name)}{host}: {_words(outcome)}", err=True)
        if isinstance(outcome, Written):
            click.echo(f"  image: {printable(image.name)}, sha256 {surveyed.sha256}", err=True)
            for line in contents_lines(order) if order else ():
                click.echo(f"  {line}", err=True)


def _words(outcome: CardOutcome) -> str:
    again = "The card does not start; write it again."
    match outcome:
        case Written(written_bytes):
            return f"written and read back: {size_text(written_bytes)}"
        case TargetRefused(reasons):
            return "refused: " + "; ".join(f"{reason.rule.value}: {reason.text}" for reason in reasons)
        case WriteFailed(offset, text):
            return f"FAILED at byte {offset}: {text}. {again} If it happens again, the card or reader is bad."
        case VerifyFailed(offset, text):
            return f"FAILED: byte {offset} {text}: the card or reader is bad. {again}"
        case ImageFailed(text):
            return f"FAILED: {text}. {again}"
        case CustomiseFailed(text):
            return f"FAILED: could not be customised: {text}. {again}"
        case Interrupted(touched):
            return f"interrupted. {again}" if touched else "interrupted before anything was written"
