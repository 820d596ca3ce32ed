"""The round service: what happens to a round, in order.

An event goes to the open round of its task (:meth:`RoundService.step`). Then, in the same transaction:

1. the round's next state is written, and its effects are applied or kept for after the commit;
2. its secure sum follows it (:mod:`~nightjar.coordinator.engine.secure_sums`);
3. if the round has ended, its versions are judged (:mod:`~nightjar.coordinator.engine.rollout_service`), the task
   hears of it, and the next round opens (:mod:`~nightjar.coordinator.engine.hand_over`).

The services in this list know nothing of each other. What they want of a round they return as events, which
:meth:`RoundService.apply` gives to the rounds. The rounds, tasks and versions themselves decide.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog
from msgspec.structs import replace

from nightjar.coordinator.engine.hand_over import (
    HOURS_OVER,
    carry_seats,
    give_up_waiting,
    keep_early_reports,
    save_task,
    why_closing,
)
from nightjar.coordinator.engine.rollout_service import RolloutService
from nightjar.coordinator.engine.round_log import note_changes
from nightjar.coordinator.engine.secure_sums import SecureSums
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds import lease as leases
from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    CalledOff,
    ClockTicked,
    CountRefusal,
    Effect,
    Event,
    KeepReport,
    RejectCheckIn,
    ReportReceived,
    RoundEvents,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.kinds import EarlyReports, kind_of
from nightjar.coordinator.rounds.lease import Lease, ReportCounted, ReportRefused
from nightjar.coordinator.rounds.round import STALE, TERMINAL, Phase, Round, open_round
from nightjar.coordinator.rounds.waiting import doing, sentence
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.schedule import within_hours
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Verdict, Work

CheckedReport = tuple[StoredReport, bytes]
"""A report that passed its checks, and its frame."""

_log = structlog.get_logger("coordinator")


class RoundService:
    """Gives events to rounds, and carries out what follows from them.

    Args:
        first: name of the configuration's task.
        seed: of the coordinator; rounds draw their devices with it.
    """

    def __init__(self, first: str, seed: int, rollouts: RolloutService, sums: SecureSums) -> None:
        self.first = first
        self._seed = seed
        self._rollouts = rollouts
        self._sums = sums

    # A round

    def step(self, task: str, event: Event, unit: UnitOfWork, report: CheckedReport | None = None) -> None:
        """Apply an event to a task's open round; does nothing if the task has no open round.

        ``report`` is the report behind a ReportReceived.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.rounds.round.step`.
        """
        before = unit.snapshot.rounds.get(task)
        if before is None:
            return
        kind = kind_of(before)
        after, effects = kind.step(before, event)
        if after is not before:  # an equality test would visit every seat
            unit.save_round(after)
            note_changes(before, after, event, unit)
        self._take_effects(after, effects, unit, report)
        if kind.is_summed:
            self.apply(self._sums.follow(before, after, unit), unit)
        if after.phase in TERMINAL:
            self._end(before, after, unit)

    def apply(self, events: RoundEvents, unit: UnitOfWork) -> None:
        """Apply the events that a service wants its rounds to have."""
        for task, event in events:
            self.step(task, event, unit)

    def settle(
        self, meant: Round, received: ReportReceived, unit: UnitOfWork, report: CheckedReport | None = None
    ) -> None:
        """Let the round of a report decide its verdict; the round may have ended long ago."""
        current = unit.snapshot.rounds.get(meant.task)
        if current is not None and meant.number == current.number:
            self.step(meant.task, received, unit, report)
        else:
            _, effects = kind_of(meant).step(meant, received)
            self._take_effects(meant, effects, unit, report)

    def _end(self, before: Round, ended: Round, unit: UnitOfWork) -> None:
        if before.phase is Phase.COMMITTING and kind_of(ended).spends_privacy:
            # Averaged or not: weights with this step's noise may be stored, and it must not serve another mean.
            unit.spend_privacy(ended.task, ended.number)
        unit.close_round(ended)
        told = self._rollouts.end_round(ended, unit)
        if told is not None:
            self.step_task(ended.task, told, unit)
        self.open_next(ended.task, unit, ended)
        unit.tx.drop_chunks(ended.number)
        keep_early_reports(ended, unit)

    def call_off(self, task: str, reason: str, unit: UnitOfWork) -> None:
        """Abandon a task's round, unless its devices are already training: then it runs to its end."""
        self.step(task, CalledOff(reason, unit.now_s), unit)

    def tick(self, unit: UnitOfWork) -> None:
        """Check every deadline; a selection that times out is told what the missing devices are doing."""
        for name, record in list(unit.snapshot.tasks.items()):
            state = unit.snapshot.rounds.get(name)
            if state is None:
                self.open_next(name, unit)
                continue
            elsewhere, busy = "", 0
            endless = kind_of(state).is_buffer
            if (endless or state.phase is Phase.SELECTION) and not within_hours(record.settings.schedule, unit.now_s):
                self.call_off(name, HOURS_OVER, unit)
                if not endless:
                    continue
            if state.phase is Phase.SELECTION and unit.now_s >= state.deadline_s:
                elsewhere = sentence(doing(unit.tx.device_states()))
                others = (each for each in unit.snapshot.rounds.values() if each.task != name)
                busy = sum(len(each.pool) + each.working + each.reported for each in others)
            self.step(name, ClockTicked(unit.now_s, elsewhere, busy), unit)
        self.apply(self._sums.tick(unit), unit)

    # The next round

    def open_next(self, name: str, unit: UnitOfWork, ended: Round | None = None) -> None:
        """Open the next round of a task if it is active and its schedule allows.

        If both are buffered, it takes over the open seats of the round that has just ended. It then opens even if it
        may not give seats, until the devices at work have ended.
        """
        record = unit.snapshot.tasks.get(name)
        closing = None if record is None else why_closing(record, ended, unit.now_s)
        if record is None or closing is None:
            return
        state, settings = record.state, record.settings
        canary = unit.tx.canary_version(name) if settings.tries else None
        if canary is None and tasks.privacy_spent(state, settings.stop_rule()):
            self.step_task(name, tasks.PrivacySpent(unit.now_s, settings.stop_rule()), unit)
            return
        base = canary or self._base_of(record, unit)
        if base is None:
            return  # the version to evaluate does not exist yet
        number, trial = unit.tx.last_round_number() + 1, canary is not None
        rules = settings.rules(trial=trial)
        fresh = open_round(number, base.version, rules, self._seed, unit.now_s, state.empty, name, trial=trial)
        kind = kind_of(fresh)
        if closing and not kind.is_buffer:
            return
        opened = kind.opened(fresh, unit.now_s, closing)
        unit.save_round(opened, base)
        unit.log(
            "round_opened",
            task=name,
            round=number,
            version=base.version,
            trial=trial,
            goal=settings.goal,
            minimum=settings.minimum,
        )
        match kind.early_reports:
            case EarlyReports.TAKEN:
                carry_seats(record, ended, opened, unit)
            case EarlyReports.DISCARDED if state.waiting:
                unit.save_task(give_up_waiting(record, unit))
            case _:
                pass

    def _base_of(self, record: TaskRecord, unit: UnitOfWork) -> VersionRecord | None:
        """The base version of a task's next round; None if it does not exist, or no longer exists."""
        if record.settings.kind is Work.TRAIN:
            return unit.snapshot.head(record.name)
        source = record.settings.source
        if source.version is not None:
            return unit.tx.version(source.version)
        name = source.task or self.first
        return unit.snapshot.versions.get(name) or unit.tx.current_version(name)

    def step_task(self, name: str, event: tasks.Event, unit: UnitOfWork) -> TaskRecord:
        """Apply an event to a task.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.tasks.task.step`.
        """
        before = unit.snapshot.tasks[name]
        record = replace(before, state=tasks.step(before.state, event))
        if record.state != before.state:
            save_task(record, unit)
            if record.state.status is TaskStatus.FINISHED and before.state.status is not TaskStatus.FINISHED:
                unit.log("task_finished", task=name, reason=record.state.reason)
            _warn_if_nothing_is_gained(before, record, unit)
        return record

    # After a start

    def resume(
        self, left: Iterable[tuple[int, PendingEffect, int]], unit: UnitOfWork
    ) -> list[tuple[int, PendingEffect]]:
        """Open missing rounds, and find the effects to carry out again.

        ``left`` has the effects that a former process left pending: the row number, the effect, and the number of
        processes that started while it was pending. An effect that crashes the coordinator must not be retried forever.
        Most effects that are set aside do no harm, because devices repeat unanswered messages. A round whose reports
        cannot be averaged is abandoned.
        """
        again = []
        for number, effect, begun in left:
            if begun < CRASHES_ALLOWED:
                again.append((number, effect))
                continue
            unit.tx.remove_effects([number])
            unit.tx.count("effects_set_aside")
            _log.error("effect_set_aside", effect=type(effect).__name__, begun=begun)
            state = unit.snapshot.round(effect.round) if isinstance(effect, StartAggregation) else None
            if state is not None:
                failed = AggregationFailed(f"the coordinator ended {begun} times while it was at it", unit.now_s)
                self.step(state.task, failed, unit)
        for name in [name for name in unit.snapshot.tasks if name not in unit.snapshot.rounds]:
            self.open_next(name, unit)
        return again

    # The effects of a step

    def _take_effects(
        self, state: Round, effects: tuple[Effect, ...], unit: UnitOfWork, report: CheckedReport | None
    ) -> None:
        for effect in effects:
            match effect:
                case KeepReport():
                    if report is None:
                        msg = f"the round kept a report of {effect.device} that nobody checked"
                        raise LocalProtocolError(msg)
                    unit.tx.add_report(*report)
                    heard = unit.tx.lease(effect.device)
                    if heard is not None:
                        unit.tx.save_lease(leases.step(heard, ReportCounted(state.number)))
                case CountRefusal(device):
                    _count_refusal(device, unit)
                case SendReceipt():
                    send_receipt(effect, unit)
                case RejectCheckIn():
                    unit.effects.append(replace(effect, task=state.task))
                case StartAggregation(number) if number in unit.snapshot.sums:
                    pass  # once the sum can be unmasked
                case _:
                    unit.effects.append(effect)


def send_receipt(receipt: SendReceipt, unit: UnitOfWork) -> None:
    """Send a receipt, and count it if the report was not accepted."""
    match receipt.verdict:
        case Verdict.INVALID:
            unit.tx.count(f"reports_invalid:{receipt.code}")
        case Verdict.LATE | Verdict.DUPLICATE:
            unit.tx.count(f"reports_{receipt.verdict.value}")
            if receipt.code == STALE:
                unit.tx.count("reports_stale")
        case Verdict.ACCEPTED:
            pass
    unit.effects.append(receipt)


def _count_refusal(device: DeviceId, unit: UnitOfWork) -> None:
    before = unit.tx.lease(device) or Lease(device=device)
    after = leases.step(before, ReportRefused(unit.now_s))
    unit.tx.save_lease(after)
    if after.barred_until_s != before.barred_until_s:
        unit.tx.count("devices_barred")
        unit.warn("device_barred", device=device, seconds=leases.BARRED_S)


def _warn_if_nothing_is_gained(before: TaskRecord, after: TaskRecord, unit: UnitOfWork) -> None:
    """Log that a task paused itself, and before that once that it is half way there."""
    rounds, patience = after.state.without_gain, after.settings.patience
    if after.state.who == tasks.GATE and before.state.who != tasks.GATE:
        unit.warn("task_paused", task=after.name, reason=after.state.reason)
    elif rounds > before.state.without_gain and patience and rounds == -(-patience // 2):
        unit.warn("task_gains_nothing", task=after.name, rounds=rounds, pauses_after=patience)
