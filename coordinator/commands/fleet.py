"""The command ``fleet``: all devices as CSV, and the standing rules that give devices labels."""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection

import click
import msgspec

from nightjar.coordinator.commands.console import printable, say, show
from nightjar.coordinator.commands.options import answer_options, checked_as, config_option
from nightjar.coordinator.commands.service_call import ask_service
from nightjar.coordinator.commands.stored import lost_before_now, opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.rounds.labelling import conditions
from nightjar.coordinator.rounds.lease import Label, Lease, counted_rounds
from nightjar.coordinator.storage.apart import apart
from nightjar.wire.identifiers import DeviceId

_PAGE = 1_000
_BEGIN_FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""Also in their full-width form, which some spreadsheets take for the same."""


@click.group()
def fleet() -> None:
    """All devices together."""


@fleet.command("export")
@config_option
def export_devices(config: CoordinatorConfig) -> None:
    """Print everything that is known about every device, as CSV."""
    with opened(config) as database, database.transaction() as view:
        columns = ["standing", *(name for name in Lease.__struct_fields__ if name != "week")]
        revoked, before_s = Register(database).revoked(), lost_before_now(view)
        rows = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
        rows.writeheader()
        after = ""
        while leases := view.leases_after(_PAGE, after):
            rows.writerows(_row(lease, revoked, before_s) for lease in leases)
            after = leases[-1].device
        sys.stdout.flush()  # here what cannot be written is told in words


def _row(lease: Lease, revoked: Collection[DeviceId], lost_before_s: float) -> dict[str, object]:
    standing = apart(lease, lost_before_s, revoked=lease.device in revoked)
    known: dict[str, object] = msgspec.to_builtins(lease)
    # What a device says of itself may steer the terminal on which this is printed, or the spreadsheet that reads it.
    known |= {name: no_formula(printable(value)) for name, value in known.items() if isinstance(value, bool | str)}
    return known | {"standing": standing, "rounds_counted": len(counted_rounds(lease))}


def no_formula(cell: str) -> str:
    r"""A cell that spreadsheets take for text; an apostrophe stands before what they would take for a formula.

    Source: OWASP, CSV Injection.

    >>> no_formula('=HYPERLINK("http://a.example")'), no_formula("kitchen")
    ('\'=HYPERLINK("http://a.example")', 'kitchen')
    """
    return f"'{cell}" if cell.startswith(_BEGIN_FORMULAS) else cell


@fleet.command("rules")
@answer_options
def list_rules(config: CoordinatorConfig, *, as_json: bool) -> None:
    """List the rules that give devices labels."""
    with opened(config) as database, database.transaction() as view:
        rules = view.labelling().rules
    show(rules, ("label", "devices that meet"), [(rule.label, conditions(rule)) for rule in rules], as_json=as_json)


@fleet.command("rule")
@answer_options
@click.argument("label")
@click.option("--device", help="Only devices with such a name: 'pi-*'.")
@click.option("--runtime", help="Only with such a runtime: 'tflite-runtime *'.")
@click.option("--agent", "minimum_agent_version", help="Only with this version of the agent or a newer one.")
@click.option("--memory-from", "minimum_memory_mb", type=int, help="Only with that many MB (2^20 bytes) of memory.")
@click.option("--memory-to", "maximum_memory_mb", type=int, help="Only with at most that many MB of memory.")
@click.option("--emulated/--real", "emulated", default=None, help="Only emulated phones, or only real devices.")
@click.option("--with", "labels", multiple=True, help="Only with a label of a claim or an operator. Again for more.")
def set_rule(config: CoordinatorConfig, label: str, *, as_json: bool, **wanted: object) -> None:
    """Give LABEL to all devices that meet every condition, now and later, and take it from all others."""
    rule = {"label": label, **{name: value for name, value in wanted.items() if value not in {None, ()}}}
    answer = ask_service(config, "POST", "/label-rules", rule)
    say(answer, [f"{label} is given by this rule"], as_json=as_json)


@fleet.command("drop-rule")
@answer_options
@click.argument("label", callback=checked_as(Label))
def drop_rule(config: CoordinatorConfig, label: str, *, as_json: bool) -> None:
    """Drop the rule for LABEL, and take the label from all devices."""
    answer = ask_service(config, "DELETE", f"/label-rules/{label}")
    say(answer, [f"no rule gives {label}"], as_json=as_json)
