"""One turn of the driver: what a single event changes, gathered until it is committed.

A turn lets the round take steps, writes what follows into the open transaction, and collects the effects that are to be
carried out after the commit. It sends nothing itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core import lease as leases
from coordinator.core.events import (
    AggregationFailed,
    ClockTicked,
    Effect,
    Event,
    KeepReport,
    ReportReceived,
    SendReceipt,
    StartAggregation,
)
from coordinator.core.lease import ReportCounted
from coordinator.core.pace import check_in_counted, round_timed
from coordinator.core.round import TERMINAL, AbandonCause, Phase, Round, causes_of, dropouts, open_round, step
from coordinator.core.waiting import doing, sentence
from coordinator.effects import ForgetBlobs, PendingEffect
from coordinator.ports import StoredReport, VersionRecord, View
from wire.errors import LocalProtocolError
from wire.messages import DropoutCause, Verdict

MOST_BEGINNINGS = 3
"""Processes that may end with the same thing still to be done: one may be bad luck, two a coincidence."""

_log = structlog.get_logger("coordinator")


class Turn:
    """What one event changes.

    Args:
        config: the whole configuration.
        tx: the open transaction.
        now_s: wall-clock time of the turn.
        current: the round that is not over; None when the task is done.
        version: the current version of the model.

    Attributes:
        round: the round after what has been done so far.
        version: the version likewise.
        effects: to be carried out after the commit, in this order.
        after_commit: calls that need no durability, such as log lines.
    """

    def __init__(
        self, config: CoordinatorConfig, tx: View, now_s: float, current: Round | None, version: VersionRecord
    ) -> None:
        self.tx = tx
        self.now_s = now_s
        self.round = current
        self.version = version
        self.effects: list[PendingEffect] = []
        self.after_commit: list[Callable[[], object]] = []
        self._config = config

    def step(self, event: Event, report: StoredReport | None = None) -> None:
        """Let the open round take a step; without an open round nothing happens.

        Args:
            event: what happened.
            report: the checked report behind a ReportReceived; its bytes are already stored.

        Raises:
            IllegalEvent: see :func:`coordinator.core.round.step`.
        """
        before = self.round
        if before is None:
            return
        after, effects = step(before, event)
        if after is not before:  # comparing would walk over every seat
            self.tx.save_round(after)
            self.round = after
            self._note_changes(before, after, event)
        self._take_over(effects, report)
        if after.phase in TERMINAL:
            self.forget([stored.sha256 for stored in self.tx.reports(after.number)])
            self.forget(self.tx.drop_chunks(after.number))
            self.open_next()

    def tick(self) -> None:
        """Let time pass; a selection that ends without enough devices is told what the others do."""
        elsewhere, current = "", self.round
        if current is not None and current.phase is Phase.SELECTION and self.now_s >= current.deadline_s:
            elsewhere = sentence(doing(self.tx.device_states()))
        self.step(ClockTicked(self.now_s, elsewhere))

    def note_check_in(self) -> None:
        """Count a check-in for pace steering."""
        self.tx.save_rhythm(check_in_counted(self.tx.rhythm(), self.now_s))

    def take_up(self, left: Iterable[tuple[int, PendingEffect, int]]) -> list[tuple[int, PendingEffect]]:
        """What a former process left to be done, without what has ended one process after the other.

        Whatever kills us must not be begun for ever. Most of what is set aside heals by itself: devices repeat what was
        not answered. A round whose reports cannot be averaged is abandoned.

        Args:
            left: number, effect, and how many processes began with it still to be done.

        Returns:
            What is to be carried out again.
        """
        again = []
        for number, effect, begun in left:
            if begun < MOST_BEGINNINGS:
                again.append((number, effect))
                continue
            self.tx.remove_effects([number])
            self.tx.count("effects_set_aside")
            _log.error("effect_set_aside", effect=type(effect).__name__, begun=begun)
            if isinstance(effect, StartAggregation) and self.round is not None and effect.round == self.round.number:
                self.step(AggregationFailed(f"the coordinator ended {begun} times while it was at it", self.now_s))
        return again

    def settle(self, meant: Round, received: ReportReceived, report: StoredReport | None = None) -> None:
        """Let the round that a report belongs to say its verdict; it may be long over."""
        if self.round is not None and meant.number == self.round.number:
            self.step(received, report)
        else:
            _, effects = step(meant, received)
            self._take_over(effects, report)
        self.forget(self.tx.drop_chunks(meant.number, received.device))

    def answer(self, receipt: SendReceipt) -> None:
        """Send a receipt, and count it if the report was not accepted."""
        if receipt.verdict is not Verdict.ACCEPTED:
            self.tx.count(f"reports_{receipt.verdict.value}" + (f":{receipt.code}" if receipt.code else ""))
        self.effects.append(receipt)

    def forget(self, sha256s: Iterable[str]) -> None:
        """Delete blobs of the private store after the commit."""
        hashes = tuple(sha256s)
        if hashes:
            self.effects.append(ForgetBlobs(hashes))

    def find_round(self, number: int) -> Round | None:
        """The round of that number, open or over."""
        if self.round is not None and self.round.number == number:
            return self.round
        return self.tx.round(number)

    def open_next(self) -> None:
        """Begin the next round, unless the task has as many committed ones as it wants."""
        task, pause = self._config.task, self.tx.pause()
        if pause is not None:
            self.round = None
            self._say("task_paused", task=task.name, reason=pause.reason, by=pause.who)
            return
        committed = self.tx.rounds_in(Phase.COMMITTED)
        if task.rounds and committed >= task.rounds:
            self.round = None
            self._say("task_done", task=task.name, rounds=committed)
            return
        number, ended = self.tx.last_round_number() + 1, self.round
        empty_before = 0
        if ended is not None and ended.cause is AbandonCause.NOBODY_CAME:
            empty_before = ended.empty_before + 1
        self.round = open_round(number, self.version.version, task.rules(), self._config.seed, self.now_s, empty_before)
        self.tx.save_round(self.round)
        self._say("round_opened", round=number, version=self.version.version, goal=task.goal, minimum=task.minimum)

    def _take_over(self, effects: tuple[Effect, ...], report: StoredReport | None) -> None:
        for effect in effects:
            match effect:
                case KeepReport():
                    if report is None:
                        msg = f"the round kept a report of {effect.device} that nobody checked"
                        raise LocalProtocolError(msg)
                    self.tx.add_report(report)
                    heard = self.tx.lease(report.device)
                    if heard is not None:
                        self.tx.save_lease(leases.step(heard, ReportCounted(report.round)))
                case SendReceipt():
                    self.answer(effect)
                case _:
                    self.effects.append(effect)

    def _note_changes(self, before: Round, after: Round, event: Event) -> None:
        change = _dropouts_touched(after, before, event)
        change.subtract(_dropouts_touched(before, after, event))
        for cause, amount in change.items():
            if amount:
                self.tx.count(f"dropouts:{cause.value}", amount)
            if amount > 0:
                self._say("devices_dropped_out", round=after.number, cause=cause.value, devices=amount)
        if after.phase is not before.phase:
            self._say_phase(after)
        elif _tenths(after) != _tenths(before):
            self._say("reports_accepted", round=after.number, accepted=after.reported, goal=after.rules.goal)

    def _say_phase(self, after: Round) -> None:
        match after.phase:
            case Phase.REPORTING:
                self._say("round_started", round=after.number, selected=len(after.seats))
            case Phase.COMMITTING:
                self._say("averaging_reports", round=after.number, accepted=after.reported, selected=len(after.seats))
            case Phase.COMMITTED:
                if after.started_at_s is not None:
                    self.tx.save_rhythm(round_timed(self.tx.rhythm(), max(self.now_s - after.started_at_s, 0.0)))
                self._say("round_committed", round=after.number, version=after.version)
            case Phase.ABANDONED:
                cause = AbandonCause.AVERAGING_FAILED if after.cause is None else after.cause
                self.tx.count(f"rounds_abandoned:{cause.value}")
                self._say("round_abandoned", round=after.number, cause=cause.value, reason=after.reason)
            case Phase.SELECTION:
                pass

    def _say(self, event: str, **fields: object) -> None:
        self.after_commit.append(lambda: _log.info(event, **fields))


def _tenths(state: Round) -> int:
    """How many tenths of the goal are there: a large round must not log a line for each report."""
    return 10 * state.reported // state.rules.goal


def _dropouts_touched(state: Round, other: Round, event: Event) -> Counter[DropoutCause]:
    """Dropouts in the seats that the event can have changed: those of its device, or all when time decided."""
    device = getattr(event, "device", None)
    if device is None or state.phase is not other.phase:
        return dropouts(state)
    seat = state.seats.get(device)
    return causes_of([] if seat is None else [seat])
