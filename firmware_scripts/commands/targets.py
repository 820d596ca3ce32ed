"""``nightjar-firmware targets``: lists every disk, and whether an image may be written to it, or why not."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nightjar.firmware_scripts.core.printable import printable
from nightjar.firmware_scripts.core.targets import TargetVerdict, judge_all
from nightjar.firmware_scripts.shell.look import look, record, recorded
from nightjar.host.sizes import size_text
from nightjar.wire.errors import ConfigError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list of {path, allowed, reasons, ...}.")
@click.option("--record", "record_to", type=click.Path(path_type=Path), help="Write down what was looked at, here.")
@click.option(
    "--recorded",
    "recorded_in",
    type=click.Path(path_type=Path),
    help="Decide from such a recording, not from this machine.",
)
def targets(record_to: Path | None, recorded_in: Path | None, *, as_json: bool) -> None:
    """List every disk, and whether an image may be written to it. Writes to none of them."""
    if record_to and recorded_in:
        msg = "give --record or --recorded, not both"
        raise ConfigError(msg)
    machine = recorded(recorded_in) if recorded_in else record(record_to) if record_to else look()
    verdicts = judge_all(machine)
    if as_json:
        click.echo(json.dumps([verdict_json(verdict) for verdict in verdicts], indent=2))
        return
    for verdict in verdicts:
        for line in _lines(verdict):
            click.echo(line)
    if not any(verdict.allowed for verdict in verdicts):
        click.echo("no disk may be written to: plug the card in, then look again")


def verdict_json(verdict: TargetVerdict) -> dict[str, object]:
    """A verdict for JSON output, also used by the plan of a flash. Non-ASCII and control characters are escaped."""
    device = verdict.device
    return {
        "path": device.path,
        "allowed": verdict.allowed,
        "reasons": [{"rule": reason.rule.value, "text": reason.text} for reason in verdict.reasons],
        "model": device.model,
        "serial": device.serial,
        "size_bytes": device.size_bytes,
        "transport": device.transport,
    }


def _lines(verdict: TargetVerdict) -> list[str]:
    device = verdict.device
    size = "size unknown" if device.size_bytes is None else size_text(device.size_bytes)
    model = printable(device.model or device.vendor) or "no model"
    serial = f", serial {printable(device.serial)}" if device.serial else ""
    allowed = "allowed" if verdict.allowed else "refused"
    head = f"{allowed}  {printable(device.path)}  {size}  {model}{serial}"
    return [head, *(f"           {reason.rule.value}: {reason.text}" for reason in verdict.reasons)]
