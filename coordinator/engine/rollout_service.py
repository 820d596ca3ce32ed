"""What becomes of versions: the gate, the devices that try them, and operators decide; here it is carried out.

The machine is :mod:`coordinator.versions.rollout`; this keeps the versions of a line in agreement with each other. One
is CURRENT at any time, at most one is CANARY. While there is a canary, rounds of its task only try it, on the devices
that belong to it, and nothing new is learned: whatever would be trained from a version that may be bad would have to be
thrown away with it, and what is trained from the former one would be a second line (docs/adr/0023).

Everything happens within a turn of the driver, so a kill leaves all of it or nothing.
"""

from __future__ import annotations

from importlib import metadata

import structlog
from msgspec.structs import replace

from coordinator.config import CoordinatorConfig
from coordinator.engine.effects import AnnounceModel
from coordinator.engine.jobs import AggregationDone, Metrics
from coordinator.engine.unit_of_work import Turn
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


class Releases:
    """Moves versions.

    Args:
        config: what the gate and a trial ask for.
    """

    def __init__(self, config: CoordinatorConfig) -> None:
        self._trial = config.rollout
        self._own_text = config.task.evaluation_text is not None and not config.task.measured_in_public
        self._seed = config.seed
        self._announced = config.task.name
        self._code_version = metadata.version("nightjar")

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
            code_version=self._code_version,
            optimizer=settings.server.choice(),
            codec=settings.codec.choice(),
        )

    def note_figures(self, version: int, found: Tally, turn: Turn) -> None:
        """Add what devices of a round found of its base version; a current one that they find worse is taken back."""
        if not found.devices:
            return
        found = merged(turn.tx.federated(version), found)
        turn.tx.save_federated(version, found)
        current = next((each for each in turn.board.versions.values() if each.version == version), None)
        if current is None:
            return
        former = _line(current, turn)[1:]
        worse = gate.worse_on_devices(found, [turn.tx.federated(each.version) for each in former], self._trial.devices)
        if worse is not None:
            at, reason = worse
            self.withdraw(current, former[at], reason, turn)

    def note_measured(self, version: int, metrics: Metrics, turn: Turn) -> None:
        """Note how good a version is that did not come out of a round."""
        record = turn.tx.version(version)
        if record is None:
            return
        turn.tx.save_version(replace(record, metrics=metrics))
        held = turn.board.versions.get(record.task)
        if held is not None and held.version == version:
            turn.board.versions[record.task] = replace(held, metrics=metrics)

    def take_in(self, made: VersionRecord, devices: int, turn: Turn) -> None:
        """Judge a new version, and let it out or not.

        Args:
            made: a candidate; it is not in the database yet.
            devices: how many measured the version before it in its round, and will measure this one in the next.
            turn: of the driver.
        """
        former = turn.board.versions[made.task]
        margin = gate.MARGIN if self._own_text and devices < self._trial.devices else gate.COLLAPSE
        faults = gate.faults(figures(made), map(figures, _line(former, turn, since=turn.tx.measured_since())), margin)
        parent = former.version if made.lineage is None else made.lineage.parent
        if parent != former.version:
            faults = (f"it was trained from version {parent}, and that is not what devices have any more", *faults)
        turn.tx.add_version(made)
        if faults:
            turn.tx.count("versions_refused")
            self._move(made, GateFailed("; ".join(faults)[:MOST_CHARACTERS], turn.now_s), turn)
        else:
            self._move(made, GatePassed(self._trial.share, turn.now_s), turn)

    def note_trial(self, ended: Round, turn: Turn) -> None:
        """Note who could run the base version of a round that is over, and judge the canary if there is one.

        Args:
            ended: the round; what its devices measured was noted when its reports were read.
            turn: of the driver.
        """
        tried = tried_in(ended)
        if tried.tried:
            turn.tx.save_federated(ended.base_version, merged(turn.tx.federated(ended.base_version), tried))
        canary, former = turn.tx.canary_version(ended.task), turn.board.versions.get(ended.task)
        if canary is None or former is None:
            return
        found, latest = turn.tx.federated(canary.version), [turn.tx.federated(v.version) for v in _line(former, turn)]
        event = judge(self._trial, found, latest, canary.rollout.since_s, turn.now_s)
        if event is not None:
            self._move(canary, event, turn)

    def before(self, record: VersionRecord, turn: Turn) -> VersionRecord | None:
        """What devices had before a current version: the one of its line that was superseded last."""
        newest = turn.tx.versions(MOST_LOOKED_AT, task=record.task)
        were_current = [each for each in newest if each.rollout.stage is Stage.SUPERSEDED]
        return max(were_current, key=lambda each: (each.rollout.since_s, each.version), default=None)

    def promote(self, record: VersionRecord, reason: str, turn: Turn) -> None:
        """An operator wants a version on all devices; whatever else was out or on trial is taken back or retired."""
        canary = turn.tx.canary_version(record.task)
        if canary is not None and canary.version != record.version:
            self._move(canary, Withdrawn(f"version {record.version} was promoted: {reason}", turn.now_s), turn)
        self._move(record, Promoted(reason, turn.now_s), turn)
        turn.call_off(record.task, f"version {record.version} was promoted")

    def withdraw(self, record: VersionRecord, successor: VersionRecord | None, reason: str, turn: Turn) -> None:
        """An operator wants a version on no device.

        Args:
            record: the current version or the canary.
            successor: what devices get instead; None for a canary, whose devices go back to the current version.
            reason: for whoever asks later.
            turn: of the driver.
        """
        self._move(record, Withdrawn(reason, turn.now_s), turn)
        if successor is not None:
            self._move(successor, Promoted(f"instead of version {record.version}: {reason}", turn.now_s), turn)
        turn.call_off(record.task, f"version {record.version} was rolled back")

    def _move(self, record: VersionRecord, event: Event, turn: Turn) -> None:
        """One transition of one version, and what follows for the others of its line."""
        rollout = step(record.rollout, event)
        moved = replace(record, rollout=replace(rollout, reason=rollout.reason[:MOST_CHARACTERS]))
        if moved.rollout.stage is Stage.CURRENT:
            former = turn.board.versions.get(moved.task)
            turn.board.versions[moved.task] = moved
            if former is not None and former.version != moved.version:
                kept = turn.tx.version(former.version) or former
                if kept.rollout.stage is Stage.CURRENT:
                    self._move(kept, Overtaken(moved.version, turn.now_s), turn)
        elif moved.rollout.stage is not Stage.CANARY:
            moved = self._without_state(moved, turn)
        turn.tx.save_version(moved)
        if moved.rollout.stage is Stage.ROLLED_BACK:
            turn.tx.count("versions_rolled_back")
        if moved.rollout.stage in _TOLD:
            turn.board.number = turn.tx.draw_number(turn.now_s)
            if moved.task == self._announced:
                turn.effects.append(AnnounceModel())
        self._say(moved, turn)

    def _without_state(self, record: VersionRecord, turn: Turn) -> VersionRecord:
        """A version that nothing is trained from any more needs no optimizer state; another may have the very same."""
        state = record.optimizer_state
        if state is not None and all(
            other is None or other.version == record.version or other.optimizer_state != state
            for other in (*turn.board.versions.values(), turn.tx.canary_version(record.task))
        ):
            turn.tx.drop_state(state)
        return replace(record, optimizer_state=None)

    def _say(self, record: VersionRecord, turn: Turn) -> None:
        stage, reason, number = record.rollout.stage, record.rollout.reason, record.version
        bad = stage in {Stage.REFUSED, Stage.ROLLED_BACK}
        say = _log.warning if bad else _log.info
        turn.after_commit.append(
            lambda: say(f"version_{stage.value.replace('-', '_')}", version=number, task=record.task, reason=reason)
        )


def _line(current: VersionRecord, turn: Turn, since: int = -1) -> list[VersionRecord]:
    """The current version and those it was trained from, newest first.

    Args:
        current: where the line ends.
        turn: of the driver.
        since: older ones are left out, as this one is: they were measured on another text.
    """
    line = [current]
    while len(line) < COMPARED_WITH:
        lineage = line[-1].lineage
        if lineage is None or lineage.parent is None or lineage.parent <= since:
            break
        parent = turn.tx.version(lineage.parent)
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
