"""The command ``prune``: shows what retention would delete, and deletes it on request."""

from __future__ import annotations

import click
import msgspec

from nightjar.coordinator.commands.console import say
from nightjar.coordinator.commands.options import answer_options
from nightjar.coordinator.commands.stored import noted, opened
from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.artifacts import ARTIFACTS, open_artifacts
from nightjar.coordinator.storage.disk_use import DiskForecast, forecast
from nightjar.coordinator.storage.retention import Pruned, Retention
from nightjar.coordinator.views.words import si_bytes
from nightjar.wire.errors import ConfigError

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
    now_s = WallClock().now_s()
    with opened(config) as database:
        with database.transaction() as view:
            points = view.disk_points()
        if yes and points and not now_s - points[-1].at_s >= 0:
            msg = "the clock of this machine is behind what the service has measured; set it first, then prune"
            raise ConfigError(msg)
        artifacts = open_artifacts(config.data_dir / ARTIFACTS, config.artifacts_url, database)
        retention = Retention(database, artifacts, config.retention)
        found = retention.prune(now_s) if yes else retention.excess(now_s)
        if yes and found.anything:
            with database.transaction() as tx:
                tx.add_audit(noted(PRUNE, "", after=_counts(found)))
    answer = PruneAnswer(**msgspec.structs.asdict(found), deleted=yes, disk=forecast(points))
    say(answer, list(_sentences(answer)), as_json=as_json)


def _sentences(answer: PruneAnswer) -> list[str]:
    verb = "deleted" if answer.deleted else "would be deleted"
    if not answer.anything:
        told = ["there is nothing to delete"]
    else:
        size = f", {si_bytes(answer.artifact_bytes)}" if answer.artifacts else ""
        told = [f"{verb}: {_counts(answer)}{size}"]
        if not answer.deleted:
            told.append("give --yes to delete it; the running service does so by itself")
    return told + ([f"disk: {answer.disk.in_words()}"] if answer.disk is not None else [])


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
