"""The commands ``round`` and ``device``; listing and showing need only the database, not the running service."""

from __future__ import annotations

import fnmatch

import click
import msgspec

from nightjar.coordinator.commands.console import say, show, when
from nightjar.coordinator.commands.options import MOST_NUMBER, answer_options, irreversible, limit_option
from nightjar.coordinator.commands.service_call import ask_service, change, reason_option
from nightjar.coordinator.commands.stored import lost_before_now, opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.enrolment.standing import standing_word, what_to_do
from nightjar.coordinator.rounds.lease import Lease, counted_rounds
from nightjar.coordinator.storage.apart import reasons_apart
from nightjar.coordinator.views.rows import RoundRow, device_row, last_week, round_detail, round_row
from nightjar.coordinator.views.words import duration, in_words, percent, si_bytes
from nightjar.wire.errors import ConfigError, RemoteProtocolError
from nightjar.wire.identifiers import DeviceId, device_id

_FACTS = {
    "presence": "connection",
    "reason": "why",
    "last_seen_s": "last heard of",
    "agent_version": "agent",
    "program": "hash of its program",
    "weights": "hash of its weights",
    "version": "holds version",
    "examples": "messages to learn from",
    "last_round": "last round that counted a report",
    "agent_round": "last round with the previous agent",
    "rounds_counted": "rounds that counted a report",
    "task_types": "task types",
    "blocked": "blocked because",
    "refusals": "unusable reports",
    "barred_until_s": "not selected until",
    "labels": "labels",
    "last_week": "how it spent the last week",
    "memory_bytes": "memory",
    "taken_back": "release of the agent taken back",
    "notice": "what it says of itself",
    "remedy": "what to do",
}
_ROUND_COLUMNS = ("round", "task", "phase", "accepted", "selected", "took", "version", "top-1", "a report", "reason")


@click.group("round")
def rounds() -> None:
    """Rounds: list them, or show one."""


@rounds.command("list")
@answer_options
@limit_option
def list_rounds(config: CoordinatorConfig, limit: int, *, as_json: bool) -> None:
    """List the newest rounds."""
    with opened(config) as database, database.transaction() as view:
        summaries = view.recent_rounds(limit)
        made = view.versions_made_in(summaries)
    now_s = WallClock().now_s()
    rows = [round_row(each, made.get(-1 if each.version is None else each.version), now_s) for each in summaries]
    show(rows, _ROUND_COLUMNS, [_round_cells(row) for row in rows], as_json=as_json)


@rounds.command("show")
@answer_options
@click.argument("number", type=click.IntRange(1, MOST_NUMBER))
def show_round(config: CoordinatorConfig, number: int, *, as_json: bool) -> None:
    """Show one round, with the outcome of each selected device."""
    with opened(config) as database, database.transaction() as view:
        detail = round_detail(view, number, WallClock().now_s())
    if detail is None:
        msg = f"there is no round {number}; 'round list' shows the newest"
        raise ConfigError(msg)
    if not as_json:
        show(detail, _ROUND_COLUMNS, [_round_cells(detail)], as_json=False)
    cells = [
        (seat.device, seat.round, seat.version, seat.attempt, seat.state, in_words(seat.cause), in_words(seat.code))
        for seat in detail.seats
    ]
    columns = ("device", "since round", "on version", "attempt", "state", "why it dropped out", "why it was refused")
    show(detail, columns, cells, as_json=as_json)


def _round_cells(row: RoundRow) -> tuple[object, ...]:
    return (
        row.number,
        row.task,
        row.phase,
        row.accepted,
        row.selected,
        duration(row.seconds),
        row.version,
        percent(row.top1),
        si_bytes(row.report_bytes_median),
        row.reason,
    )


@click.group("device")
def devices() -> None:
    """Devices: list, show, block, unblock or forget them."""


@devices.command("list")
@answer_options
@limit_option
@click.option("--label", default="", help="Only devices that have it, by name.")
def list_devices(config: CoordinatorConfig, limit: int, label: str, *, as_json: bool) -> None:
    """List the devices that were heard from last."""
    with opened(config) as database, database.transaction() as view:
        leases = view.leases_after(limit, "", label) if label else view.leases(limit)
        gone, now_s = Register(database).revoked([lease.device for lease in leases]), WallClock().now_s()
        why = reasons_apart(leases, lost_before_now(view), gone)
    rows = [device_row(lease, now_s, why[lease.device]) for lease in leases]
    cells = [
        (
            row.device,
            row.apart or in_words(row.state),
            row.reason,
            duration(row.last_seen_s_ago),
            row.examples,
            row.runtime,
            row.emulated,
            row.labels,
        )
        for row in rows
    ]
    show(
        rows,
        ("device", "state", "reason", "heard", "messages", "runtime", "emulated", "labels"),
        cells,
        as_json=as_json,
    )


def _device(name: str) -> DeviceId:
    """A device that a person names.

    Raises:
        ConfigError: it is no name of a device.
    """
    try:
        return device_id(name)
    except RemoteProtocolError as error:
        raise ConfigError(str(error)) from error


@devices.command("show")
@answer_options
@click.argument("device")
def show_device(config: CoordinatorConfig, device: str, *, as_json: bool) -> None:
    """Show everything that is known about one device."""
    with opened(config) as database, database.transaction() as view:
        lease = view.lease(_device(device))
        standing = Register(database).standing_of(_device(device))
    if lease is None and standing.keys:
        lease = Lease(device=_device(device))  # enrolled or waiting, and never heard of
    if lease is None:
        msg = f"no device {device} was ever heard of; 'device list' shows the last ones"
        raise ConfigError(msg)
    now_s = WallClock().now_s()
    known = {name: value for name, value in msgspec.to_builtins(lease).items() if name != "week"}
    known["rounds_counted"] = counted_rounds(lease)
    known |= {"standing": standing_word(standing) or "not enrolled", "remedy": what_to_do(standing)}
    known["last_week"] = [f"{in_words(each.doing)} {duration(each.seconds)}" for each in last_week(lease, now_s)]
    cells = [(_FACTS.get(name, name), _fact(name, value)) for name, value in known.items()]
    show(known, ("what", "value"), cells, as_json=as_json)


def _fact(name: str, value: object) -> object:
    """A field of a lease for people."""
    match value:
        case list():
            return ", ".join(map(str, value)) or "none"
        case float() if name.endswith("_s"):
            return when(value)
        case int() if name.endswith("_bytes"):
            return si_bytes(value) if value else "-"
        case str() if name in {"state", "presence"}:
            return in_words(value)
        case _:
            return "none" if name in {"last_round", "agent_round"} and value == 0 else "-" if value == "" else value


@devices.command()
@answer_options
@click.argument("device")
@reason_option
def block(config: CoordinatorConfig, device: str, reason: str, *, as_json: bool) -> None:
    """Block a device: it is not selected, and its reports are refused."""
    path = f"/devices/{_device(device)}/block"
    change(config, path, {"reason": reason}, f"{device} is blocked: {reason}", as_json=as_json)


@devices.command()
@answer_options
@click.argument("device")
def unblock(config: CoordinatorConfig, device: str, *, as_json: bool) -> None:
    """Unblock a device."""
    change(config, f"/devices/{_device(device)}/unblock", {}, f"{device} is not blocked", as_json=as_json)


@devices.command("label")
@answer_options
@click.argument("names", metavar="DEVICE...", nargs=-1, required=True)
@click.option("--add", multiple=True, help="A label to give. Again for more.")
@click.option("--remove", multiple=True, help="A label to take away. Again for more.")
def label_devices(
    config: CoordinatorConfig, names: tuple[str, ...], add: tuple[str, ...], remove: tuple[str, ...], *, as_json: bool
) -> None:
    """Give labels to devices, and take others away; a pattern such as 'pi-*' stands for all known devices like it."""
    if not add and not remove:
        msg = "give --add LABEL or --remove LABEL, each as often as there are labels"
        raise ConfigError(msg)
    known: list[DeviceId] = []
    if any("*" in name for name in names):
        with opened(config) as database, database.transaction() as view:
            known = view.devices_with(())
    chosen = [d for name in names for d in (fnmatch.filter(known, name) if "*" in name else [_device(name)])]
    if not chosen:
        msg = f"no known device is like {', '.join(names)}; 'device list' shows the last ones"
        raise ConfigError(msg)
    wanted = {"add": add, "remove": remove}
    changed = [name for name in chosen if ask_service(config, "POST", f"/devices/{name}/labels", wanted)["changed"]]
    told = f"labels changed: {', '.join(changed)}" if changed else "nothing to change: their labels are so already"
    say({"changed": changed}, [told], as_json=as_json)


@devices.command()
@answer_options
@click.argument("device")
@irreversible("Revoke every certificate of {device}? It comes back only with a new claim, at the device.")
def forget(config: CoordinatorConfig, device: str, *, as_json: bool) -> None:
    """Revoke every certificate of a device for good; it can return only with a new claim."""
    change(config, f"/devices/{_device(device)}/forget", {}, f"{device} has no valid certificate", as_json=as_json)
