"""The rollout service: carries out what the quality gate, canary trials, keyboards and operators decide about versions.

The state machine of a version is :mod:`nightjar.coordinator.versions.rollout`, and
:mod:`nightjar.coordinator.engine.version_moves` applies its events. While there is a canary, the rounds of its task
only evaluate it on the devices of the trial, and nothing is trained: an update trained from a bad canary would have to
be discarded with it, and one trained from the current version would start a second line (docs/adr/0021).

All changes are part of a unit of work, so a kill leaves all of them or none. What they mean for open rounds is returned
as events.
"""

from __future__ import annotations

from itertools import islice, takewhile

from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.engine.version_moves import VersionMoves, found_by_keyboards, minimum_of
from nightjar.coordinator.learning.device_metrics import Tally, merged, tried_in
from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.records.versions import VersionRecord, ancestors
from nightjar.coordinator.rounds.events import CalledOff, RoundEvents
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.versions.announcement import is_measured, verdict
from nightjar.coordinator.versions.quality_gate import COMPARED_WITH, Names, VersionMetrics, worse_on_devices
from nightjar.coordinator.versions.rollout import (
    GateFailed,
    Promoted,
    Stage,
    Withdrawn,
    decided,
    judge,
    judge_new,
)
from nightjar.models.manifest import Manifest
from nightjar.models.task_types import figure_names

MOST_LOOKED_AT = 1000
"""Maximum number of versions searched for the one that was current before."""


class RolloutService:
    """Judges versions, and moves them between stages."""

    def __init__(self, config: CoordinatorConfig, artifacts: BlobStore) -> None:
        self._artifacts = artifacts
        self._names: dict[str, Names] = {}
        self._trial = config.rollout
        self._own_text = config.task.evaluation_text is not None and not config.task.measured_in_public
        self._moves = VersionMoves(config.task.name)

    def note_figures(self, version: int, found: Tally, unit: UnitOfWork) -> RoundEvents:
        """Add a round's on-device metrics to its base version, and judge that version by them.

        Keyboards decide whether a version in training is announced or rolled back. A current version that devices
        without such a measurement find worse is rolled back.
        """
        if not found.devices and not found.saved:
            return ()
        found = merged(unit.tx.federated(version), _without_strangers(found, version, unit))
        unit.tx.save_federated(version, found)
        training = next((each for each in unit.snapshot.training.values() if each.version == version), None)
        if training is not None:
            event = decided(found_by_keyboards(training, unit.snapshot.versions[training.task], unit), unit.now_s)
            if event is not None:
                self._moves.move(training, event, unit)
            return ()
        current = next((each for each in unit.snapshot.versions.values() if each.version == version), None)
        if current is None or is_measured(found, minimum_of(current.task, unit)):
            return ()
        former = [each for each in _line(current, unit)[1:] if each.pruned_s is None]
        tallies = [unit.tx.federated(each.version) for each in former]
        worse = worse_on_devices(found, tallies, self._trial.devices, self._names_of(current))
        if worse is None:
            return ()
        at, reason = worse
        return self.withdraw(current, former[at], reason, unit)

    def note_measured(self, version: int, metrics: VersionMetrics, unit: UnitOfWork) -> None:
        """Store the metrics of a version that was not made by a round."""
        record = unit.tx.version(version)
        if record is None:
            return
        unit.tx.save_version(replace(record, metrics=metrics))
        for held_versions in (unit.snapshot.versions, unit.snapshot.training):
            held = held_versions.get(record.task)
            if held is not None and held.version == version:
                held_versions[record.task] = replace(held, metrics=metrics)

    def take_in(self, made: VersionRecord, devices: int, unit: UnitOfWork) -> None:
        """Run the quality gate on a new version, and release or refuse it.

        The version is not in the database yet. ``devices`` is how many measured its base version in this round; about
        as many will measure it.
        """
        names = self._names_of(made)
        announced, training = unit.snapshot.versions[made.task], unit.snapshot.training.get(made.task)
        head, settings = training or announced, unit.snapshot.tasks[made.task].settings
        measured = settings.measures and _keyboards_decide(head, settings, unit)
        since = unit.tx.measured_since()
        line = _line(announced, unit, since)
        best = None if measured else unit.tx.best_version(made.task, since)
        event = judge_new(
            self._trial if settings.tries else replace(self._trial, share=0.0),
            made.metrics,
            [each.metrics for each in (*line, *([] if best is None else [best]))],
            base=head.version if made.lineage is None else made.lineage.parent,
            head=head.version,
            devices=devices,
            own_text=self._own_text,
            now_s=unit.now_s,
            measured=measured,
            names=names,
        )
        unit.tx.add_version(made)
        if isinstance(event, GateFailed):
            unit.tx.count("versions_refused")
        self._moves.move(made, event, unit)

    def end_round(self, ended: Round, unit: UnitOfWork) -> tasks.Event | None:
        """Judge the canary, if there is one, after a round that has ended.

        Stores how many devices could run the round's base version; what they measured of it was stored when its reports
        were read. Returns the event that the end of the round is for its task; None if there is none.
        """
        tried = tried_in(ended)
        if tried.tried:
            unit.tx.save_federated(ended.base_version, merged(unit.tx.federated(ended.base_version), tried))
        canary, former = unit.tx.canary_version(ended.task), unit.snapshot.versions.get(ended.task)
        on_trial, undecided = canary is not None, True
        if canary is not None and former is not None:
            undecided = not self._judge(canary, former, unit)
        if ended.task not in unit.snapshot.tasks:
            return None
        decided = on_trial and not undecided
        committed = self._committed(ended, unit, made=decided or ended.version is not None)
        return tasks.event_of(ended, committed, on_trial=on_trial, decided=decided)

    def _judge(self, canary: VersionRecord, former: VersionRecord, unit: UnitOfWork) -> bool:
        """Judge a canary, and end its trial if that is decided; returns whether it is."""
        tally, latest = unit.tx.federated(canary.version), [unit.tx.federated(v.version) for v in _line(former, unit)]
        began_s, names = canary.rollout.since_s, self._names_of(canary)
        event = judge(self._trial, tally, latest, began_s, unit.now_s, names, canary.version, former.version)
        if event is not None:
            self._moves.move(canary, event, unit)
        return event is not None

    def _committed(self, ended: Round, unit: UnitOfWork, *, made: bool) -> tasks.RoundCommitted:
        """What a round that counts tells its task of the versions, if it ``made`` or decided one."""
        settings, announced = unit.snapshot.tasks[ended.task].settings, unit.snapshot.versions.get(ended.task)
        rule, head = settings.stop_rule(), unit.snapshot.head(ended.task)
        if not made or announced is None or head is None:
            return tasks.RoundCommitted(unit.now_s, rule)
        top1 = None if head.metrics is None else head.metrics.top1
        if settings.measures and _keyboards_decide(head, settings, unit):
            if ended.base_version != announced.version:
                tally = unit.tx.federated(ended.base_version)
                figures = verdict(tally, ended.base_version, announced.version, settings.minimum).reason
            else:
                figures = _what_became_of(ended.version, unit)
            return tasks.RoundCommitted(unit.now_s, rule, top1, announced.version, figures)
        best = unit.snapshot.tasks[ended.task].state.best_top1
        figures = "" if top1 is None or best is None else f"{100 * top1:.1f} %, and the best had {100 * best:.1f} %"
        return tasks.RoundCommitted(unit.now_s, rule, top1, figures=figures)

    def successor(self, current: VersionRecord, number: int | None, unit: UnitOfWork) -> VersionRecord | None:
        """The version of its task that can replace a current one: this one, or else the last one to be superseded."""
        if number is None:
            newest = unit.tx.versions(MOST_LOOKED_AT, task=current.task)
            were_current = [each for each in newest if each.rollout.stage is Stage.SUPERSEDED and each.pruned_s is None]
            return max(were_current, key=lambda each: (each.rollout.since_s, each.version), default=None)
        named = unit.tx.version(number)
        other = named is not None and named.task == current.task and named.version != current.version
        return replace(named, by_hand=True) if named is not None and other and named.pruned_s is None else None

    def promote(self, record: VersionRecord, reason: str, unit: UnitOfWork) -> RoundEvents:
        """Release a version to all devices for an operator: supersede the current version, roll back a canary.

        Returns:
            What the open round has to hear, which trains from another version or tries one.
        """
        canary = unit.tx.canary_version(record.task)
        if canary is not None and canary.version != record.version:
            self._moves.move(canary, Withdrawn(f"version {record.version} was promoted: {reason}", unit.now_s), unit)
        self._moves.move(replace(record, by_hand=True), Promoted(reason, unit.now_s), unit)
        return ((record.task, CalledOff(f"version {record.version} was promoted", unit.now_s)),)

    def withdraw(
        self, record: VersionRecord, successor: VersionRecord | None, reason: str, unit: UnitOfWork
    ) -> RoundEvents:
        """Roll back a version, so that no device uses it.

        ``successor`` replaces a current version. Instead of another one, devices and rounds use the current version.
        Returns what the open round has to hear, as :meth:`promote`.
        """
        self._moves.move(record, Withdrawn(reason, unit.now_s), unit)
        if successor is not None:
            self._moves.move(successor, Promoted(f"instead of version {record.version}: {reason}", unit.now_s), unit)
        return ((record.task, CalledOff(f"version {record.version} was rolled back", unit.now_s)),)

    def _names_of(self, record: VersionRecord) -> Names:
        """What the shares of a task's versions are called; all its versions are of one task type."""
        if record.task not in self._names:
            self._names[record.task] = figure_names(Manifest.decode(self._artifacts.get(record.manifest)).task_type)
        return self._names[record.task]


def _keyboards_decide(head: VersionRecord, settings: TaskSettings, unit: UnitOfWork) -> bool:
    """Whether keyboards decide about the versions of a task whose devices measure: enough of them measured one.

    ``head`` is the version that its rounds go on from; only its line counts.
    """
    return any(is_measured(unit.tx.federated(each.version), settings.minimum) for each in _line(head, unit))


def _what_became_of(version: int | None, unit: UnitOfWork) -> str:
    """A version's stage and the reason for it, in words; empty if there is no such version."""
    record = None if version is None else unit.tx.version(version)
    return "" if record is None else f"version {version} is {record.rollout.stage.value}: {record.rollout.reason}"


def _without_strangers(found: Tally, version: int, unit: UnitOfWork) -> Tally:
    """Metrics without comparisons with versions that its task does not have: devices can name any number."""
    judged = unit.tx.version(version)
    others = {number: unit.tx.version(number) for number in found.gain_over}
    known = {number for number, other in others.items() if other and judged and other.task == judged.task}
    return replace(found, gain_over={number: gain for number, gain in found.gain_over.items() if number in known})


def _line(current: VersionRecord, unit: UnitOfWork, since: int = -1) -> list[VersionRecord]:
    """A version and those it was trained from, newest first, without ``since`` and older: measured on another text."""
    older = takewhile(lambda each: each.version > since, ancestors(current, unit.tx.version))
    return [current, *islice(older, COMPARED_WITH - 1)]
