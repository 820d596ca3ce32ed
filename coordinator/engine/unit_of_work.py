"""A unit of work: collects the changes of a batch of events until they are committed.

It applies events to rounds, writes the results into the open transaction, and collects the effects to carry out after
the commit. It sends nothing itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import structlog
from msgspec.structs import replace

from nightjar.coordinator.engine.hand_over import HOURS_OVER, carry_seats, give_up_waiting, hand_on, why_closing
from nightjar.coordinator.ports import Transaction
from nightjar.coordinator.records.effects import PendingEffect
from nightjar.coordinator.records.rounds import StoredReport, StoredSum
from nightjar.coordinator.records.versions import VersionRecord
from nightjar.coordinator.rounds import buffer
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
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.lease import Lease, ReportCounted, ReportRefused
from nightjar.coordinator.rounds.machines import step_of
from nightjar.coordinator.rounds.pace_steering import round_timed
from nightjar.coordinator.rounds.round import STALE, TERMINAL, AbandonCause, Phase, Round, open_round, seat_round
from nightjar.coordinator.rounds.seats import SeatState, causes_of
from nightjar.coordinator.rounds.waiting import doing, sentence
from nightjar.coordinator.tasks import task as tasks
from nightjar.coordinator.tasks.operations import AuditEntry
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.schedule import within_hours
from nightjar.coordinator.tasks.task import OVER, TaskStatus
from nightjar.coordinator.versions.announcement import is_measured, verdict
from nightjar.wire.crash_loop import CRASHES_ALLOWED
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause, Verdict, Work

Report = tuple[StoredReport, bytes]
"""An accepted report and its frame."""

_log = structlog.get_logger("coordinator")


@dataclass(slots=True)
class Snapshot:
    """Open tasks, rounds and versions, keyed by task name; an in-memory copy of what the database holds.

    Attributes:
        tasks: every task that is not over or still has an open round, in order of creation.
        rounds: the open round of each task that has one.
        versions: the current version of each training task.
        training: the version that the rounds of a task train from, of each task where that is not the current one.
        bases: base version of each open round, by number of the round.
        sums: secure sum of each open round that has one, by number of the round.
        number: sequence number of orders to devices; a new one is drawn whenever the devices' version changes.
    """

    tasks: dict[str, TaskRecord] = field(default_factory=dict)
    rounds: dict[str, Round] = field(default_factory=dict)
    versions: dict[str, VersionRecord] = field(default_factory=dict)
    training: dict[str, VersionRecord] = field(default_factory=dict)
    bases: dict[int, VersionRecord] = field(default_factory=dict)
    sums: dict[int, StoredSum] = field(default_factory=dict)
    number: int = 0

    def copy(self) -> Snapshot:
        """A copy that can be changed without changing the original."""
        return Snapshot(
            dict(self.tasks),
            dict(self.rounds),
            dict(self.versions),
            dict(self.training),
            dict(self.bases),
            dict(self.sums),
            self.number,
        )

    def head(self, task: str) -> VersionRecord | None:
        """The version that the rounds of a training task go on from; None if there is none."""
        return self.training.get(task) or self.versions.get(task)

    def round(self, number: int) -> Round | None:
        """The open round with this number; None if there is none."""
        return next((state for state in self.rounds.values() if state.number == number), None)

    def round_of_seat(self, number: int, device: DeviceId) -> Round | None:
        """The open round with this number, or the buffered one that has the device's seat of that round."""
        for state in self.rounds.values():
            seat = state.seats.get(device)
            if state.number == number or (seat is not None and seat_round(state, seat) == number):
                return state
        return None

    def rounds_of(self, device: DeviceId) -> list[Round]:
        """The open rounds in which a device waits in the pool or has a seat."""
        return [state for state in self.rounds.values() if device in state.seats or device in state.pool]


class UnitOfWork:
    """The changes of a batch of events.

    Args:
        first: name of the configuration's task.
        judge: called with each round that has ended, before the next one is opened.
        follow: called after each step of a round, with the round before and after it.

    Attributes:
        snapshot: open tasks, rounds and versions after the changes so far.
        effects: effects to carry out after the commit, in order.
        after_commit: calls to make after the commit that need no durability, such as log lines.
    """

    def __init__(
        self,
        tx: Transaction,
        now_s: float,
        snapshot: Snapshot,
        first: str,
        seed: int,
        judge: Callable[[Round, UnitOfWork], None],
        follow: Callable[[Round, Round, UnitOfWork], None],
    ) -> None:
        self.tx = tx
        self.now_s = now_s
        self.snapshot = snapshot.copy()
        self.effects: list[PendingEffect] = []
        self.after_commit: list[Callable[[], object]] = []
        self.first = first
        self._seed = seed
        self._judge = judge
        self._follow = follow

    def step(self, task: str, event: Event, report: Report | None = None) -> None:
        """Apply an event to a task's open round; does nothing if the task has no open round.

        ``report`` is the checked report behind a ReportReceived, with its frame.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.rounds.round.step`.
        """
        before = self.snapshot.rounds.get(task)
        if before is None:
            return
        after, effects = step_of(before)(before, event)
        if after is not before:  # an equality test would visit every seat
            self.tx.save_round(after)
            self.snapshot.rounds[task] = after
            self._note_changes(before, after, event)
        self._take_over(after, effects, report)
        self._follow(before, after, self)
        if after.phase in TERMINAL:
            if before.phase is Phase.COMMITTING and not after.trial and not after.rules.summed:
                # Averaged or not: weights with this step's noise may be stored, and it must not serve another mean.
                self.spend_privacy(task, after.number)
            if self.snapshot.sums.pop(after.number, None) is not None:
                self.tx.drop_sum(after.number)
            del self.snapshot.rounds[task]
            del self.snapshot.bases[after.number]
            on_trial = self.tx.canary_version(task) is not None
            self._judge(after, self)
            undecided = on_trial and self.tx.canary_version(task) is not None
            self._end_round(after, on_trial=on_trial, decided=on_trial and not undecided)
            hand_on(after, self)

    def tick(self) -> None:
        """Check the deadlines of every task; a selection that times out is told what the missing devices are doing."""
        for name, record in list(self.snapshot.tasks.items()):
            state = self.snapshot.rounds.get(name)
            if state is None:
                self.open_next(name)
                continue
            elsewhere, busy = "", 0
            endless = state.rules.concurrency > 0
            if (endless or state.phase is Phase.SELECTION) and not within_hours(record.settings.schedule, self.now_s):
                self.call_off(name, HOURS_OVER)
                if not endless:
                    continue
            if state.phase is Phase.SELECTION and self.now_s >= state.deadline_s:
                elsewhere = sentence(doing(self.tx.device_states()))
                others = (each for each in self.snapshot.rounds.values() if each.task != name)
                busy = sum(len(each.pool) + each.working + each.reported for each in others)
            self.step(name, ClockTicked(self.now_s, elsewhere, busy))

    def call_off(self, task: str, reason: str) -> None:
        """Abandon a task's round, unless its devices are already training: then it runs to its end."""
        self.step(task, CalledOff(reason, self.now_s))

    def keep_sum(self, number: int, held: StoredSum) -> None:
        """Store the secure sum of a round."""
        self.tx.save_sum(number, held)
        self.snapshot.sums[number] = held

    def spend_privacy(self, task: str, number: int) -> None:
        """Count a round against its task's differential privacy, once, whatever becomes of the round."""
        record = self.snapshot.tasks[task]
        state = record.state
        if state.noise is not None and number not in state.noised:
            self.enlist(replace(record, state=replace(state, noised=(*state.noised, number))))

    def take_up(self, left: Iterable[tuple[int, PendingEffect, int]]) -> list[tuple[int, PendingEffect]]:
        """The effects that a former process left pending, without those that keep crashing the process.

        ``left`` has the row number, the effect, and the number of processes that started while it was pending. An
        effect that crashes the coordinator must not be retried forever. Most effects that are set aside do no harm,
        because devices repeat unanswered messages. A round whose reports cannot be averaged is abandoned.
        """
        again = []
        for number, effect, begun in left:
            if begun < CRASHES_ALLOWED:
                again.append((number, effect))
                continue
            self.tx.remove_effects([number])
            self.tx.count("effects_set_aside")
            _log.error("effect_set_aside", effect=type(effect).__name__, begun=begun)
            state = self.snapshot.round(effect.round) if isinstance(effect, StartAggregation) else None
            if state is not None:
                failed = AggregationFailed(f"the coordinator ended {begun} times while it was at it", self.now_s)
                self.step(state.task, failed)
        return again

    def settle(self, meant: Round, received: ReportReceived, report: Report | None = None) -> None:
        """Let the round of a report decide its verdict; the round may have ended long ago."""
        current = self.snapshot.rounds.get(meant.task)
        if current is not None and meant.number == current.number:
            self.step(meant.task, received, report)
        else:
            _, effects = step_of(meant)(meant, received)
            self._take_over(meant, effects, report)

    def answer(self, receipt: SendReceipt) -> None:
        """Send a receipt, and count it if the report was not accepted."""
        match receipt.verdict:
            case Verdict.INVALID:
                self.tx.count(f"reports_invalid:{receipt.code}")
            case Verdict.LATE | Verdict.DUPLICATE:
                self.tx.count(f"reports_{receipt.verdict.value}")
                if receipt.code == STALE:
                    self.tx.count("reports_stale")
            case Verdict.ACCEPTED:
                pass
        self.effects.append(receipt)

    def find_round(self, number: int, device: DeviceId) -> Round | None:
        """The round, open or ended, that answers for a device's seat of round ``number``; None if there is none."""
        found = self.snapshot.round_of_seat(number, device) or self.tx.round(number)
        while found is not None and found.following is not None:
            seat = found.seats.get(device)
            if seat is None or seat.state is not SeatState.CARRIED:
                break
            found = self.snapshot.round(found.following) or self.tx.round(found.following)
        return found

    # The logs

    def log(self, event: str, **fields: object) -> None:
        """Log a line after the commit."""
        self.after_commit.append(lambda: _log.info(event, **fields))

    def warn(self, event: str, **fields: object) -> None:
        """Log a warning after the commit."""
        self.after_commit.append(lambda: _log.warning(event, **fields))

    def audit(self, who: str, action: str, target: str, before: str, after: str) -> None:
        """Note an operator's change in the audit log."""
        self.tx.add_audit(
            AuditEntry(at_s=self.now_s, who=who, action=action, target=target, before=before[:200], after=after[:200])
        )

    # Tasks

    def step_task(self, name: str, event: tasks.Event) -> TaskRecord:
        """Apply an event to a task.

        Raises:
            IllegalEvent: see :func:`nightjar.coordinator.tasks.task.step`.
        """
        before = self.snapshot.tasks[name]
        record = replace(before, state=tasks.step(before.state, event))
        if record.state != before.state:
            self.enlist(record)
            if record.state.status is TaskStatus.FINISHED and before.state.status is not TaskStatus.FINISHED:
                self.log("task_finished", task=name, reason=record.state.reason)
            self._warn_if_nothing_is_gained(before, record)
        return record

    def _warn_if_nothing_is_gained(self, before: TaskRecord, after: TaskRecord) -> None:
        """Log that a task paused itself, and before that once that it is half way there."""
        rounds, patience = after.state.without_gain, after.settings.patience
        if after.state.who == tasks.GATE and before.state.who != tasks.GATE:
            self.warn("task_paused", task=after.name, reason=after.state.reason)
        elif rounds > before.state.without_gain and patience and rounds == -(-patience // 2):
            self.warn("task_gains_nothing", task=after.name, rounds=rounds, pauses_after=patience)

    def enlist(self, record: TaskRecord) -> None:
        """Save a task, and drop it from the snapshot if it is over and has no open round."""
        if record.state.status in OVER and record.name not in self.snapshot.rounds:
            self.snapshot.tasks.pop(record.name, None)
            if record.state.waiting:
                record = give_up_waiting(record, self)
        else:
            self.snapshot.tasks[record.name] = record
        self.tx.save_task(record)

    def open_next(self, name: str, ended: Round | None = None) -> None:
        """Open the next round of a task if it is active and its schedule allows.

        If both are buffered, it takes over the open seats of the round that has just ended. It then opens even if it
        may not give seats, until the devices at work have ended.
        """
        record = self.snapshot.tasks.get(name)
        closing = None if record is None else why_closing(record, ended, self.now_s)
        if record is None or closing is None:
            return
        state, settings = record.state, record.settings
        readable = not settings.privacy.summed  # a trial reads each device's report
        canary = self.tx.canary_version(name) if settings.kind is Work.TRAIN and readable else None
        if canary is None and tasks.privacy_spent(state, settings.stop_rule()):
            self.step_task(name, tasks.PrivacySpent(self.now_s, settings.stop_rule()))
            return
        base = canary or self.base_of(record)
        if base is None:
            return  # the version to evaluate does not exist yet
        number, trial = self.tx.last_round_number() + 1, canary is not None
        rules = settings.rules(trial=trial)
        if closing and not rules.concurrency:
            return
        opened = open_round(number, base.version, rules, self._seed, self.now_s, state.empty, name, trial=trial)
        if rules.concurrency:
            opened = buffer.opened(opened, self.now_s, closing)
        self.snapshot.rounds[name], self.snapshot.bases[number] = opened, base
        self.tx.save_round(opened)
        self.log(
            "round_opened",
            task=name,
            round=number,
            version=base.version,
            trial=trial,
            goal=settings.goal,
            minimum=settings.minimum,
        )
        if rules.concurrency:
            carry_seats(record, ended, opened, self)
        elif state.waiting and not trial:
            self.enlist(give_up_waiting(record, self))

    def base_of(self, record: TaskRecord) -> VersionRecord | None:
        """The base version of a task's next round; None if it does not exist, or no longer exists."""
        if record.settings.kind is Work.TRAIN:
            return self.snapshot.head(record.name)
        source = record.settings.source
        if source.version is not None:
            return self.tx.version(source.version)
        name = source.task or self.first
        return self.snapshot.versions.get(name) or self.tx.current_version(name)

    def _end_round(self, ended: Round, *, on_trial: bool, decided: bool) -> None:
        """Apply the end of a round to its task."""
        if ended.task not in self.snapshot.tasks:
            return
        committed = self._committed(ended, made=decided or ended.version is not None)
        event = tasks.event_of(ended, committed, on_trial=on_trial, decided=decided)
        if event is not None:
            self.step_task(ended.task, event)

    def _committed(self, ended: Round, *, made: bool) -> tasks.RoundCommitted:
        """What a round that counts tells its task of the versions, if it ``made`` or decided one."""
        settings, announced = self.snapshot.tasks[ended.task].settings, self.snapshot.versions.get(ended.task)
        rule, head = settings.stop_rule(), self.snapshot.head(ended.task)
        if not made or announced is None or head is None:
            return tasks.RoundCommitted(self.now_s, rule)
        top1 = None if head.metrics is None else head.metrics.top1
        tally = self.tx.federated(ended.base_version)
        if settings.measures and (head is not announced or is_measured(tally, settings.minimum)):
            if ended.base_version != announced.version:
                figures = verdict(tally, ended.base_version, announced.version, settings.minimum).reason
            else:
                figures = self._what_became_of(ended.version)
            return tasks.RoundCommitted(self.now_s, rule, top1, announced.version, figures)
        best = self.snapshot.tasks[ended.task].state.best_top1
        figures = "" if top1 is None or best is None else f"{100 * top1:.1f} %, and the best had {100 * best:.1f} %"
        return tasks.RoundCommitted(self.now_s, rule, top1, figures=figures)

    def _what_became_of(self, version: int | None) -> str:
        """A version's stage and the reason for it, in words; empty if there is no such version."""
        record = None if version is None else self.tx.version(version)
        return "" if record is None else f"version {version} is {record.rollout.stage.value}: {record.rollout.reason}"

    # Effects and log lines of a step

    def _take_over(self, state: Round, effects: tuple[Effect, ...], report: Report | None) -> None:
        for effect in effects:
            match effect:
                case KeepReport():
                    if report is None:
                        msg = f"the round kept a report of {effect.device} that nobody checked"
                        raise LocalProtocolError(msg)
                    self.tx.add_report(*report)
                    heard = self.tx.lease(effect.device)
                    if heard is not None:
                        self.tx.save_lease(leases.step(heard, ReportCounted(state.number)))
                case CountRefusal(device):
                    self._count_refusal(device)
                case SendReceipt():
                    self.answer(effect)
                case RejectCheckIn():
                    self.effects.append(replace(effect, task=state.task))
                case StartAggregation(number) if number in self.snapshot.sums:
                    pass  # once the sum can be unmasked
                case _:
                    self.effects.append(effect)

    def _count_refusal(self, device: DeviceId) -> None:
        before = self.tx.lease(device) or Lease(device=device)
        after = leases.step(before, ReportRefused(self.now_s))
        self.tx.save_lease(after)
        if after.barred_until_s != before.barred_until_s:
            self.tx.count("devices_barred")
            self.warn("device_barred", device=device, seconds=leases.BARRED_S)

    def _note_changes(self, before: Round, after: Round, event: Event) -> None:
        for cause, amount in _dropouts_changed(before, after, event).items():
            if amount:
                self.tx.count(f"dropouts:{cause.value}", amount)
            if amount > 0:
                self.log("devices_dropped_out", round=after.number, cause=cause.value, devices=amount)
        if after.phase is not before.phase:
            self._say_phase(after)
        elif _tenths(after) != _tenths(before):
            self.log("reports_accepted", round=after.number, accepted=after.reported, goal=after.rules.goal)

    def _say_phase(self, after: Round) -> None:
        match after.phase:
            case Phase.REPORTING:
                self.log("round_started", round=after.number, selected=len(after.seats))
            case Phase.COMMITTING:
                self.log("averaging_reports", round=after.number, accepted=after.reported, selected=len(after.seats))
            case Phase.COMMITTED:
                # Rounds that only evaluate are shorter: keep them out of the average.
                if after.started_at_s is not None and after.version is not None:
                    self.tx.save_rhythm(round_timed(self.tx.rhythm(), max(self.now_s - after.started_at_s, 0.0)))
                self.log("round_committed", round=after.number, version=after.version)
            case Phase.ABANDONED:
                cause = AbandonCause.AVERAGING_FAILED if after.cause is None else after.cause
                self.tx.count(f"rounds_abandoned:{cause.value}")
                self.log("round_abandoned", round=after.number, cause=cause.value, reason=after.reason)
            case Phase.SELECTION:
                pass


def _tenths(state: Round) -> int:
    """Accepted reports in tenths of the goal: a large round must not log a line per report."""
    return 10 * state.reported // state.rules.goal


def _dropouts_changed(before: Round, after: Round, event: Event) -> Counter[DropoutCause]:
    """Change in the number of dropouts by cause that an event made."""
    was, now = before.seats, after.seats
    device = getattr(event, "device", None)
    if device is not None and before.phase is after.phase:  # a device's event changes only its own seat
        was, now = ({device: seats[device]} if device in seats else {} for seats in (was, now))
    change = causes_of(now.values())
    change.subtract(causes_of(was.values()))
    return change
