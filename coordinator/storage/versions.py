"""Queries on model versions: the part of a database view that reads and writes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import structs

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.records.rounds import RoundSummary
from nightjar.coordinator.records.versions import Lineage, VersionRecord
from nightjar.coordinator.storage.tables import federated, upsert, versions
from nightjar.coordinator.versions.quality_gate import Example, VersionMetrics
from nightjar.coordinator.versions.rollout import Rollout, Stage
from nightjar.wire.errors import UnavailableError

_JSON: dict[str, Any] = {"lineage": Lineage, "examples": tuple[Example, ...]}
"""Columns that hold JSON -> type of their content."""


class VersionMeasurement(msgspec.Struct, frozen=True):
    """A version's metrics, and the round that made it."""

    version: int
    round: int | None
    metrics: VersionMetrics


class VersionQueries:
    """Version queries in an open transaction; :class:`nightjar.coordinator.ports.Transaction` describes each method."""

    _connection: sa.Connection

    def version(self, number: int) -> VersionRecord | None:
        """A version; None if there is none with this number."""
        return self._first_version(sa.select(versions).where(versions.c.version == number))

    def current_version(self, task: str | None = None) -> VersionRecord | None:
        """The current version of a task; without a task, the newest current version of any."""
        return self._newest(Stage.CURRENT, task)

    def canary_version(self, task: str | None = None) -> VersionRecord | None:
        """The canary version of a task; without a task, the newest canary version of any."""
        return self._newest(Stage.CANARY, task)

    def training_version(self, task: str) -> VersionRecord | None:
        """The version that rounds of a task train from while keyboards do not get it; None if there is none."""
        return self._newest(Stage.TRAINING, task)

    def best_version(self, task: str, since: int) -> VersionRecord | None:
        """The version above ``since`` with the best top-1 share on held-out text, of those that devices have had."""
        announced = versions.c.stage.in_([stage.value for stage in (Stage.CURRENT, Stage.SUPERSEDED)])
        which = sa.select(versions).where(versions.c.task == task, announced, versions.c.top1.is_not(None))
        which = which.where(versions.c.version > since)
        return self._first_version(which.order_by(versions.c.top1.desc(), versions.c.version.desc()).limit(1))

    def last_version_number(self) -> int:
        """Number of the newest version at any stage; 0 if there is none."""
        return self._connection.scalar(sa.select(sa.func.max(versions.c.version))) or 0

    def tasks_of_versions(self) -> list[str]:
        """Names of all tasks that have versions, also of tasks that are gone."""
        return list(self._connection.scalars(sa.select(versions.c.task).distinct()))

    def add_version(self, record: VersionRecord) -> None:
        """Insert a version."""
        self._connection.execute(sa.insert(versions).values(_row(record)))

    def save_version(self, record: VersionRecord) -> None:
        """Replace a version.

        Raises:
            UnavailableError: its files were deleted since it was read.
        """
        held = versions.c.pruned_s.is_not_distinct_from(record.pruned_s)
        which = sa.and_(versions.c.version == record.version, held)
        if not self._connection.execute(sa.update(versions).where(which).values(_row(record))).rowcount:
            msg = f"the files of version {record.version} were deleted just now; try again"
            raise UnavailableError(msg)

    def federated(self, version: int) -> Tally:
        """The tally of metrics that devices measured for a version."""
        tally = self._connection.scalar(sa.select(federated.c.tally).where(federated.c.version == version))
        return Tally() if tally is None else msgspec.json.decode(tally, type=Tally)

    def measured_on_devices(self, numbers: Iterable[int]) -> dict[int, Tally]:
        """The tallies of metrics that devices measured for these versions, by number; only those that there are."""
        rows = self._connection.execute(
            sa.select(federated.c.version, federated.c.tally).where(federated.c.version.in_(list(numbers)))
        )
        return {number: msgspec.json.decode(tally, type=Tally) for number, tally in rows}

    def newest_on_devices(self, limit: int, task: str) -> dict[int, Tally]:
        """The tallies of a task's newest versions that devices measured, by number, in ascending order."""
        rows = sa.select(federated.c.version, federated.c.tally).join(
            versions, federated.c.version == versions.c.version
        )
        newest = rows.where(versions.c.task == task).order_by(federated.c.version.desc()).limit(limit)
        found = reversed(self._connection.execute(newest).all())
        return {number: msgspec.json.decode(tally, type=Tally) for number, tally in found}

    def save_federated(self, version: int, tally: Tally) -> None:
        """Insert or replace the tally of a version."""
        row = {"version": version, "tally": msgspec.json.encode(tally)}
        self._connection.execute(upsert(self._connection.dialect.name, federated), row)

    def versions(self, limit: int, before: int | None = None, task: str | None = None) -> list[VersionRecord]:
        """The newest versions in ascending order, optionally only those below the number ``before`` or of a task."""
        query = sa.select(versions).order_by(versions.c.version.desc()).limit(limit)
        if before is not None:
            query = query.where(versions.c.version < before)
        if task is not None:
            query = query.where(versions.c.task == task)
        return self._versions(query)[::-1]

    def versions_made_in(self, rounds: Iterable[RoundSummary]) -> dict[int, VersionRecord]:
        """The versions that these rounds produced, by number."""
        numbers = [each.version for each in rounds if each.version is not None]
        records = self._versions(sa.select(versions).where(versions.c.version.in_(numbers)))
        return {record.version: record for record in records}

    def measured(self, limit: int, task: str) -> list[VersionMeasurement]:
        """Metrics of a task's newest versions, in ascending order; versions that were not measured are left out."""
        figures = (versions.c.top1, versions.c.top3, versions.c.loss)
        query = sa.select(versions.c.version, versions.c.round, *figures).where(versions.c.task == task)
        newest = self._connection.execute(query.order_by(versions.c.version.desc()).limit(limit)).all()
        return [
            VersionMeasurement(version, made_in, VersionMetrics(top1, top3, loss))
            for version, made_in, top1, top3, loss in reversed(newest)
            if top1 is not None
        ]

    def _newest(self, stage: Stage, task: str | None) -> VersionRecord | None:
        which = sa.select(versions).where(versions.c.stage == stage.value)
        if task is not None:
            which = which.where(versions.c.task == task)
        return self._first_version(which.order_by(versions.c.version.desc()).limit(1))

    def _first_version(self, query: sa.Select[Any]) -> VersionRecord | None:
        row = self._connection.execute(query).mappings().first()
        return None if row is None else _record(row)

    def _versions(self, query: sa.Select[Any]) -> list[VersionRecord]:
        return [_record(row) for row in self._connection.execute(query).mappings()]


def _row(record: VersionRecord) -> dict[str, Any]:
    row = structs.asdict(record)
    metrics, rollout = row.pop("metrics"), row.pop("rollout")
    row |= dict.fromkeys(VersionMetrics.__struct_fields__) if metrics is None else structs.asdict(metrics)
    row |= {**structs.asdict(rollout), "stage": rollout.stage.value}
    for name in _JSON:
        row[name] = None if row[name] is None else msgspec.json.encode(row[name])
    return row


def _record(row: sa.RowMapping) -> VersionRecord:
    values: dict[str, Any] = {str(name): value for name, value in row.items()}
    for name, kind in _JSON.items():
        values[name] = None if values[name] is None else msgspec.json.decode(values[name], type=kind)
    top1, top3, loss, hits, examples = (values.pop(name) for name in VersionMetrics.__struct_fields__)
    stage, reason, since_s = values.pop("stage"), values.pop("reason"), values.pop("since_s")
    return VersionRecord(
        **values,
        metrics=None if top1 is None else VersionMetrics(top1, top3, loss, hits, examples or ()),
        rollout=Rollout(stage=Stage(stage), reason=reason, since_s=since_s),
    )
