"""The command ``prune``: shows what retention would delete, and deletes it on request."""

from __future__ import annotations

from collections.abc import Sequence

import click
import msgspec

from nightjar.coordinator.commands.console import say
from nightjar.coordinator.commands.options import answer_options
from nightjar.coordinator.commands.stored import noted, opened, trusted_now_s
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.disk_use import DiskForecast, DiskPoint, forecast_of
from nightjar.coordinator.storage.reserve import FILE, give_up_reserve, has_reserve, lacks_room
from nightjar.coordinator.storage.retention import Pruned, Retention
from nightjar.coordinator.views.words import si_bytes
from nightjar.wire.errors import ConfigError, UnavailableError

PRUNE = "prune"


class PruneAnswer(Pruned, frozen=True):
    """What was deleted, or would be."""

    deleted: bool = False
    disk: DiskForecast | None = None


@click.command()
@answer_options
@click.option("--yes", is_flag=True, help="Delete it; without this it is only shown.")
def prune(config: CoordinatorConfig, *, yes: bool, as_json: bool) -> None:
    """Show what is no longer needed, as [retention] says, and delete it with --yes.

    The running service does the same every five minutes. This may run beside it, or before it starts again on a disk
    that is full.
    """
    try:
        found, points, now_s = _pruned(config, yes=yes)
    except UnavailableError as error:
        if not (has_reserve(config.data_dir) and lacks_room(config.data_dir)):
            raise
        if not yes:
            path = config.data_dir / FILE
            msg = f"{error}; 'prune --yes' deletes {path} to have some room, then what is not needed"
            raise UnavailableError(msg) from error
        give_up_reserve(config.data_dir)
        found, points, now_s = _pruned(config, yes=yes)
    if yes and found.anything:
        with opened(config) as database, database.transaction() as tx:
            tx.add_audit(noted(PRUNE, "", after=_counts(found)))
    disk = forecast_of(config.data_dir, points, now_s)
    answer = PruneAnswer(**msgspec.structs.asdict(found), deleted=yes, disk=disk)
    say(answer, [*_sentences(found, deleted=yes), f"disk: {disk.in_words()}"], as_json=as_json)


def _pruned(config: CoordinatorConfig, *, yes: bool) -> tuple[Pruned, Sequence[DiskPoint], float]:
    """What was deleted, or would be without ``yes``; how full the disk was before; and the time."""
    now_s = trusted_now_s(config)  # a clock that is ahead would call every claim and token an old one
    with opened(config) as database:
        with database.transaction() as view:
            points = view.disk_points()
        if yes and points and not now_s - points[-1].at_s >= 0:
            msg = "the clock of this machine is behind what the service has measured; set it first, then prune"
            raise ConfigError(msg)
        artifacts = open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, database)
        retention = Retention(database, artifacts, config.retention)
        return retention.prune(now_s) if yes else retention.excess(now_s), points, now_s


def _sentences(found: Pruned, *, deleted: bool) -> list[str]:
    if not found.anything:
        return ["there is nothing to delete"]
    size = f", {si_bytes(found.artifact_bytes)}" if found.artifacts else ""
    if deleted:
        return [f"deleted: {_counts(found)}{size}"]
    return [
        f"would be deleted: {_counts(found)}{size}",
        "give --yes to delete it; the running service does so by itself",
    ]


def _counts(found: Pruned) -> str:
    names = {
        "versions": "versions' files",
        "artifacts": "artifacts",
        "rounds": "rounds",
        "version_rows": "rows of versions",
        "counted_cohorts": "cohorts whose versions are gone",
        "credentials": "credentials",
        "claims": "claims",
        "tokens": "tokens",
        "audit": "entries of the audit log",
    }
    counted = ((getattr(found, name), words) for name, words in names.items())
    return ", ".join(f"{many} {words}" for many, words in counted if many)
