"""The round service: what happens to a round, in order.

An event goes to the open round of its task (:meth:`RoundService.step`). Then, in the same transaction:

1. the round's next state is written, and its effects are applied or kept for after the commit
   (:mod:`~nightjar.coordinator.engine.round_results`);
2. its cohort is checked once it is known (:mod:`~nightjar.coordinator.engine.cohort_service`);
3. its secure sum follows it (:mod:`~nightjar.coordinator.engine.secure_sums`);
4. if the round has ended, its versions are judged (:mod:`~nightjar.coordinator.engine.rollout_service`), and its task
   hears of it and opens the next (:mod:`~nightjar.coordinator.engine.task_service`).

The services in this list know nothing of each other. What they want of a round they return as events, which
:meth:`RoundService.apply` gives to the rounds. The rounds, tasks and versions themselves decide.
"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from nightjar.coordinator.engine.cohort_service import CohortService
from nightjar.coordinator.engine.hand_over import keep_early_reports
from nightjar.coordinator.engine.rollout_service import RolloutService
from nightjar.coordinator.engine.round_results import apply_effects, write_changes
from nightjar.coordinator.engine.secure_sums import SecureSums
from nightjar.coordinator.engine.task_service import HOURS_OVER, TaskService
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.rounds import StoredReport
from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    CalledOff,
    ClockTicked,
    Effect,
    Event,
    KeepReport,
    ReportReceived,
    RoundEvents,
    StartAggregation,
)
from nightjar.coordinator.rounds.kinds import kind_of
from nightjar.coordinator.rounds.round import TERMINAL, Phase, Round
from nightjar.coordinator.rounds.waiting import doing, sentence
from nightjar.coordinator.tasks.schedule import within_hours
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.errors import LocalProtocolError

CheckedReport = tuple[StoredReport, bytes]
"""A report that passed its checks, and its frame."""

_log = structlog.get_logger("coordinator")


class RoundService:
    """Gives events to rounds, and carries out what follows from them."""

    def __init__(self, tasks: TaskService, rollouts: RolloutService, sums: SecureSums, cohorts: CohortService) -> None:
        self._cohorts = cohorts
        self._tasks = tasks
        self._rollouts = rollouts
        self._sums = sums

    def step(self, task: str, event: Event, unit: UnitOfWork, report: CheckedReport | None = None) -> None:
        """Apply an event to a task's open round; does nothing if the task has no open round.

        ``report`` is the report behind a ReportReceived.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.rounds.synchronous.step`.
        """
        before = unit.snapshot.rounds.get(task)
        if before is None:
            return
        kind = kind_of(before)
        after, effects = kind.step(before, event)
        if after is not before:  # an equality test would visit every seat
            write_changes(before, after, getattr(event, "device", None), unit)
        _keep_report(effects, report, unit)
        apply_effects(after, effects, unit)
        self.apply(self._cohorts.check(before, after, unit), unit)
        if kind.is_summed:
            self.apply(self._sums.follow(before, after, unit), unit)
        if after.phase in TERMINAL:
            self._end(before, after, unit)

    def apply(self, events: RoundEvents, unit: UnitOfWork) -> None:
        """Apply the events that a service wants its rounds to have."""
        for task, event in events:
            self.step(task, event, unit)

    def route_report(
        self, meant: Round, received: ReportReceived, unit: UnitOfWork, report: CheckedReport | None = None
    ) -> None:
        """Let the round of a report decide its verdict; the round may have ended long ago."""
        current = unit.snapshot.rounds.get(meant.task)
        if current is not None and meant.number == current.number:
            self.step(meant.task, received, unit, report)
        else:
            _, effects = kind_of(meant).step(meant, received)
            _keep_report(effects, report, unit)
            apply_effects(meant, effects, unit)

    def _end(self, before: Round, ended: Round, unit: UnitOfWork) -> None:
        if before.phase is Phase.COMMITTING and kind_of(ended).spends_privacy:
            # Averaged or not: weights with this step's noise may be stored, and it must not serve another mean.
            unit.spend_privacy(ended.task, ended.number)
        unit.close_round(ended)
        told = self._rollouts.end_round(ended, unit)
        if told is not None:
            self._tasks.step(ended.task, told, unit)
        self._tasks.open_next(ended.task, unit, ended)
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
                self._tasks.open_next(name, unit)
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
            self._tasks.open_next(name, unit)
        return again


def _keep_report(effects: tuple[Effect, ...], report: CheckedReport | None, unit: UnitOfWork) -> None:
    for effect in effects:
        if isinstance(effect, KeepReport):
            if report is None:
                msg = f"the round kept a report of {effect.device} that nobody checked"
                raise LocalProtocolError(msg)
            unit.tx.add_report(*report)
