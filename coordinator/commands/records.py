"""``round``, ``model`` and ``device``: what the database knows, whether the service runs or not."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from coordinator.commands.actions import change, reason_option
from coordinator.commands.options import config_option, json_option, limit_option
from coordinator.commands.setting import configuration, opened, show, when
from coordinator.shell.blobs import FileBlobs
from coordinator.shell.clock import WallClock
from coordinator.shell.model_folder import export_version
from coordinator.shell.web.app import duration, percent, si_bytes
from coordinator.shell.web.state import RoundRow, device_row, find_round, round_detail, round_row, version_row
from wire.errors import ConfigError
from wire.identifiers import device_id

_ROUND_COLUMNS = ("round", "phase", "accepted", "selected", "took", "version", "top-1", "bytes a report", "reason")


@click.group("round")
def rounds() -> None:
    """Rounds: list them, or look at one."""


@rounds.command("list")
@config_option
@json_option
@limit_option
def list_rounds(config_path: Path, limit: int, *, as_json: bool) -> None:
    """The newest rounds."""
    with opened(configuration(config_path)) as database, database.transaction() as view:
        summaries = view.recent_rounds(limit)
        made = {record.version: record for record in view.versions(limit)}
    now_s = WallClock().now_s()
    found = [
        round_row(each, made.get(-1 if each.state.version is None else each.state.version), now_s) for each in summaries
    ]
    show(found, _ROUND_COLUMNS, [_round_cells(row) for row in found], as_json=as_json)


@rounds.command("show")
@config_option
@json_option
@click.argument("number", type=click.IntRange(1))
def show_round(config_path: Path, number: int, *, as_json: bool) -> None:
    """One round, with what became of each selected device."""
    with opened(configuration(config_path)) as database, database.transaction() as view:
        summary = find_round(view, number)
    if summary is None:
        msg = f"there is no round {number}; 'round list' shows the newest"
        raise ConfigError(msg)
    detail = round_detail(summary, WallClock().now_s())
    if not as_json:
        show(detail, _ROUND_COLUMNS, [_round_cells(detail)], as_json=False)
    cells = [(seat.device, seat.attempt, seat.state, seat.cause, seat.code) for seat in detail.seats]
    show(detail, ("device", "attempt", "state", "why it dropped out", "why it was refused"), cells, as_json=as_json)


def _round_cells(row: RoundRow) -> tuple[object, ...]:
    return (
        row.number,
        row.phase,
        row.accepted,
        row.selected,
        duration(row.seconds),
        row.version,
        percent(row.top1),
        si_bytes(row.report_bytes_median),
        row.reason,
    )


@click.group("model")
def models() -> None:
    """Versions of the model: list them, or export one."""


@models.command("list")
@config_option
@json_option
@limit_option
def list_versions(config_path: Path, limit: int, *, as_json: bool) -> None:
    """The newest versions with their recall on held-out text."""
    with opened(configuration(config_path)) as database, database.transaction() as view:
        found = [version_row(record) for record in view.versions(limit)]
    cells = [
        (row.version, percent(row.top1), percent(row.top3), row.loss, when(row.created), row.manifest) for row in found
    ]
    show(found, ("version", "top-1", "top-3", "loss (nats)", "made", "manifest"), cells, as_json=as_json)


@models.command("export")
@config_option
@json_option
@click.argument("version", type=click.IntRange(0))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder that is made or filled.")
def export(config_path: Path, version: int, out: Path, *, as_json: bool) -> None:
    """Write a version as a model folder: program, weights, vocabulary, manifest.

    Such a folder can be the first version of another coordinator (task.model).
    """
    config = configuration(config_path)
    with opened(config) as database, database.transaction() as view:
        record = view.version(version)
    if record is None:
        msg = f"there is no version {version}; 'model list' shows the newest"
        raise ConfigError(msg)
    manifest = export_version(record.manifest, FileBlobs(config.data_dir / "artifacts"), out)
    answer = {"version": version, "folder": str(out), "manifest": manifest.sha256}
    show(answer, ("version", "folder"), [(version, out)], as_json=as_json)


@click.group("device")
def devices() -> None:
    """Devices: list them, or look at one."""


@devices.command("list")
@config_option
@json_option
@limit_option
def list_devices(config_path: Path, limit: int, *, as_json: bool) -> None:
    """The devices that were heard of last."""
    with opened(configuration(config_path)) as database, database.transaction() as view:
        found = [device_row(lease, WallClock().now_s()) for lease in view.leases(limit)]
    cells = [
        (row.device, row.state, row.reason, duration(row.last_seen_s_ago), row.examples, row.runtime, row.emulated)
        for row in found
    ]
    show(found, ("device", "state", "reason", "heard", "messages", "runtime", "emulated"), cells, as_json=as_json)


@devices.command("show")
@config_option
@json_option
@click.argument("device")
def show_device(config_path: Path, device: str, *, as_json: bool) -> None:
    """Everything that is known of one device."""
    with opened(configuration(config_path)) as database, database.transaction() as view:
        lease = view.lease(device_id(device))
    if lease is None:
        msg = f"no device {device} was ever heard of; 'device list' shows the last ones"
        raise ConfigError(msg)
    known = msgspec.to_builtins(lease)
    show(known, ("what", "value"), list(known.items()), as_json=as_json)


@devices.command()
@config_option
@json_option
@click.argument("device")
@reason_option
def block(config_path: Path, device: str, reason: str, *, as_json: bool) -> None:
    """Keep a device out: it is not selected, and its reports are refused."""
    change(config_path, f"/devices/{device_id(device)}/block", {"reason": reason}, as_json=as_json)


@devices.command()
@config_option
@json_option
@click.argument("device")
def unblock(config_path: Path, device: str, *, as_json: bool) -> None:
    """Let a device in again."""
    change(config_path, f"/devices/{device_id(device)}/unblock", {}, as_json=as_json)
