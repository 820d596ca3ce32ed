"""What becomes of versions: the gate, the devices that try them, and operators decide; here it is carried out.

The machine is :mod:`coordinator.versions.rollout`; this keeps the versions of a line in agreement with each other. One
is CURRENT at any time, at most one is CANARY. While there is a canary, rounds of its task only try it, on the devices
that belong to it, and nothing new is learned: whatever would be trained from a version that may be bad would have to be
thrown away with it, and what is trained from the former one would be a second line (docs/adr/0021).

Everything happens within a unit of work, so a kill leaves all of it or nothing.
"""

from __future__ import annotations

import structlog
from msgspec.structs import replace

from coordinator import __version__
from coordinator.config import CoordinatorConfig
from coordinator.engine.effects import AnnounceModel
from coordinator.engine.jobs import AggregationDone, VersionMetrics
from coordinator.engine.unit_of_work import UnitOfWork
from coordinator.learning.device_metrics import Tally, merged, tried_in
from coordinator.ports import Lineage, VersionRecord
from coordinator.rounds.round import Round
from coordinator.tasks.settings import TaskSettings
from coordinator.versions import quality_gate as gate
from coordinator.versions.quality_gate import COMPARED_WITH, Figures
from coordinator.versions.rollout import (
    Event,
    GateFailed,
    GatePassed,
    Overtaken,
    Promoted,
    Stage,
    Withdrawn,
    judge,
    step,
)

MOST_CHARACTERS = 500
"""Of a reason that is kept."""
MOST_LOOKED_AT = 1000
"""Versions, to find the one that was current before."""

_TOLD = frozenset({Stage.CANARY, Stage.CURRENT, Stage.ROLLED_BACK})
"""Stages that change what devices have."""

_log = structlog.get_logger("coordinator")


class RolloutService:
    """Moves versions.

    Args:
        config: what the gate and a trial ask for.
    """

    def __init__(self, config: CoordinatorConfig) -> None:
        self._trial = config.rollout
        self._own_text = config.task.evaluation_text is not None and not config.task.measured_in_public
        self._seed = config.seed
        self._announced = config.task.name

    def lineage(self, state: Round, settings: TaskSettings, done: AggregationDone) -> Lineage:
        """What the version of a round is made of.

        Args:
            state: the round that makes it.
            settings: of its task.
            done: its mean.
        """
        return Lineage(
            parent=state.base_version,
            reports=state.reported - len(done.unreadable),
            reports_sha256=done.reports_sha256,
            seed=self._seed,
            code_version=__version__,
            optimizer=settings.server.choice(),
            codec=settings.codec.choice(),
        )

    def note_figures(self, version: int, found: Tally, unit: UnitOfWork) -> None:
        """Add a round's on-device metrics of its base version; a current version that is worse is rolled back."""
        if not found.devices:
            return
        found = merged(unit.tx.federated(version), found)
        unit.tx.save_federated(version, found)
        current = next((each for each in unit.snapshot.versions.values() if each.version == version), None)
        if current is None:
            return
        former = _line(current, unit)[1:]
        worse = gate.worse_on_devices(found, [unit.tx.federated(each.version) for each in former], self._trial.devices)
        if worse is not None:
            at, reason = worse
            self.withdraw(current, former[at], reason, unit)

    def note_measured(self, version: int, metrics: VersionMetrics, unit: UnitOfWork) -> None:
        """Note how good a version is that did not come out of a round."""
        record = unit.tx.version(version)
        if record is None:
            return
        unit.tx.save_version(replace(record, metrics=metrics))
        held = unit.snapshot.versions.get(record.task)
        if held is not None and held.version == version:
            unit.snapshot.versions[record.task] = replace(held, metrics=metrics)

    def take_in(self, made: VersionRecord, devices: int, unit: UnitOfWork) -> None:
        """Judge a new version, and let it out or not.

        Args:
            made: a candidate; it is not in the database yet.
            devices: how many measured the version before it in its round, and will measure this one in the next.
            unit: of work.
        """
        former = unit.snapshot.versions[made.task]
        margin = gate.MARGIN if self._own_text and devices < self._trial.devices else gate.COLLAPSE
        faults = gate.faults(figures(made), map(figures, _line(former, unit, since=unit.tx.measured_since())), margin)
        parent = former.version if made.lineage is None else made.lineage.parent
        if parent != former.version:
            faults = (f"it was trained from version {parent}, and that is not what devices have any more", *faults)
        unit.tx.add_version(made)
        if faults:
            unit.tx.count("versions_refused")
            self._move(made, GateFailed("; ".join(faults)[:MOST_CHARACTERS], unit.now_s), unit)
        else:
            self._move(made, GatePassed(self._trial.share, unit.now_s), unit)

    def note_trial(self, ended: Round, unit: UnitOfWork) -> None:
        """Note who could run the base version of a round that is over, and judge the canary if there is one.

        Args:
            ended: the round; what its devices measured was noted when its reports were read.
            unit: of work.
        """
        tried = tried_in(ended)
        if tried.tried:
            unit.tx.save_federated(ended.base_version, merged(unit.tx.federated(ended.base_version), tried))
        canary, former = unit.tx.canary_version(ended.task), unit.snapshot.versions.get(ended.task)
        if canary is None or former is None:
            return
        found, latest = unit.tx.federated(canary.version), [unit.tx.federated(v.version) for v in _line(former, unit)]
        event = judge(self._trial, found, latest, canary.rollout.since_s, unit.now_s)
        if event is not None:
            self._move(canary, event, unit)

    def before(self, record: VersionRecord, unit: UnitOfWork) -> VersionRecord | None:
        """What devices had before a current version: the one of its line that was superseded last."""
        newest = unit.tx.versions(MOST_LOOKED_AT, task=record.task)
        were_current = [each for each in newest if each.rollout.stage is Stage.SUPERSEDED]
        return max(were_current, key=lambda each: (each.rollout.since_s, each.version), default=None)

    def promote(self, record: VersionRecord, reason: str, unit: UnitOfWork) -> None:
        """An operator wants a version on all devices; the current version is superseded, a canary rolled back."""
        canary = unit.tx.canary_version(record.task)
        if canary is not None and canary.version != record.version:
            self._move(canary, Withdrawn(f"version {record.version} was promoted: {reason}", unit.now_s), unit)
        self._move(record, Promoted(reason, unit.now_s), unit)
        unit.call_off(record.task, f"version {record.version} was promoted")

    def withdraw(self, record: VersionRecord, successor: VersionRecord | None, reason: str, unit: UnitOfWork) -> None:
        """An operator wants a version on no device.

        Args:
            record: the current version or the canary.
            successor: what devices get instead; None for a canary, whose devices go back to the current version.
            reason: kept with the version.
            unit: of work.
        """
        self._move(record, Withdrawn(reason, unit.now_s), unit)
        if successor is not None:
            self._move(successor, Promoted(f"instead of version {record.version}: {reason}", unit.now_s), unit)
        unit.call_off(record.task, f"version {record.version} was rolled back")

    def _move(self, record: VersionRecord, event: Event, unit: UnitOfWork) -> None:
        """One transition of one version, and what follows for the others of its line."""
        rollout = step(record.rollout, event)
        moved = replace(record, rollout=replace(rollout, reason=rollout.reason[:MOST_CHARACTERS]))
        if moved.rollout.stage is Stage.CURRENT:
            former = unit.snapshot.versions.get(moved.task)
            unit.snapshot.versions[moved.task] = moved
            if former is not None and former.version != moved.version:
                kept = unit.tx.version(former.version) or former
                if kept.rollout.stage is Stage.CURRENT:
                    self._move(kept, Overtaken(moved.version, unit.now_s), unit)
        elif moved.rollout.stage is not Stage.CANARY:
            moved = self._without_state(moved, unit)
        unit.tx.save_version(moved)
        if moved.rollout.stage is Stage.ROLLED_BACK:
            unit.tx.count("versions_rolled_back")
        if moved.rollout.stage in _TOLD:
            unit.snapshot.number = unit.tx.draw_number(unit.now_s)
            if moved.task == self._announced:
                unit.effects.append(AnnounceModel())
        self._say(moved, unit)

    def _without_state(self, record: VersionRecord, unit: UnitOfWork) -> VersionRecord:
        """A version that nothing is trained from any more needs no optimizer state; another may have the very same."""
        state = record.optimizer_state
        if state is not None and all(
            other is None or other.version == record.version or other.optimizer_state != state
            for other in (*unit.snapshot.versions.values(), unit.tx.canary_version(record.task))
        ):
            unit.tx.drop_state(state)
        return replace(record, optimizer_state=None)

    def _say(self, record: VersionRecord, unit: UnitOfWork) -> None:
        stage, reason, number = record.rollout.stage, record.rollout.reason, record.version
        bad = stage in {Stage.REFUSED, Stage.ROLLED_BACK}
        say = _log.warning if bad else _log.info
        unit.after_commit.append(
            lambda: say(f"version_{stage.value.replace('-', '_')}", version=number, task=record.task, reason=reason)
        )


def _line(current: VersionRecord, unit: UnitOfWork, since: int = -1) -> list[VersionRecord]:
    """The current version and those it was trained from, newest first.

    Args:
        current: where the line ends.
        unit: of work.
        since: older ones are left out, as this one is: they were measured on another text.
    """
    line = [current]
    while len(line) < COMPARED_WITH:
        lineage = line[-1].lineage
        if lineage is None or lineage.parent is None or lineage.parent <= since:
            break
        parent = unit.tx.version(lineage.parent)
        if parent is None:
            break
        line.append(parent)
    return line


def figures(record: VersionRecord) -> Figures:
    """What was measured of a version, as the gate compares it."""
    metrics = record.metrics
    if metrics is None:
        return Figures()
    return Figures(top1=metrics.top1, top3=metrics.top3, loss=metrics.loss, hits=metrics.hits)
