"""One turn of the driver: what a single event changes, gathered until it is committed.

A turn lets the round take steps, writes what follows into the open transaction, and collects the effects that are to be
carried out after the commit. It sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core.events import Effect, Event, KeepReport, ReportReceived, SendReceipt
from coordinator.core.round import TERMINAL, Phase, Round, RoundRules, SeatState, dropouts, open_round, step
from coordinator.effects import ForgetBlobs, PendingEffect
from coordinator.ports import StoredReport, VersionRecord, View
from wire.errors import LocalProtocolError
from wire.messages import Verdict

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
        self.after_commit: list[Callable[[], None]] = []
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
        if after != before:
            self.tx.save_round(after)
            self.round = after
            self._note_changes(before, after)
        self._take_over(effects, report)
        if after.phase in TERMINAL:
            self.forget([stored.sha256 for stored in self.tx.reports(after.number)])
            self.forget(self.tx.drop_chunks(after.number))
            self.open_next()

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
        task = self._config.task
        committed = self.tx.rounds_in(Phase.COMMITTED)
        if task.rounds and committed >= task.rounds:
            self.round = None
            self._say("task_done", task=task.name, rounds=committed)
            return
        rules = RoundRules(
            goal=task.goal,
            minimum=task.minimum,
            over_selection=task.over_selection,
            selection_window_s=task.selection_window_s,
            selection_deadline_s=task.selection_deadline_s,
            report_deadline_s=task.report_deadline_s,
            lost_grace_s=task.lost_grace_s,
        )
        number = self.tx.last_round_number() + 1
        self.round = open_round(number, self.version.version, rules, self._config.seed, self.now_s)
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
                case SendReceipt():
                    self.answer(effect)
                case _:
                    self.effects.append(effect)

    def _note_changes(self, before: Round, after: Round) -> None:
        change = dropouts(after)
        change.subtract(dropouts(before))
        for cause, amount in change.items():
            if amount:
                self.tx.count(f"dropouts:{cause.value}", amount)
            if amount > 0:
                self._say("devices_dropped_out", round=after.number, cause=cause.value, devices=amount)
        reported = len(after.devices(SeatState.REPORTED))
        if after.phase is not before.phase:
            self._say_phase(after, reported)
        elif _tenths(reported, after) != _tenths(len(before.devices(SeatState.REPORTED)), before):
            self._say("reports_accepted", round=after.number, accepted=reported, goal=after.rules.goal)

    def _say_phase(self, after: Round, reported: int) -> None:
        match after.phase:
            case Phase.REPORTING:
                self._say("round_started", round=after.number, selected=len(after.seats))
            case Phase.COMMITTING:
                self._say("averaging_reports", round=after.number, accepted=reported, selected=len(after.seats))
            case Phase.COMMITTED:
                self._say("round_committed", round=after.number, version=after.version)
            case Phase.ABANDONED:
                self._say("round_abandoned", round=after.number, reason=after.reason)
            case Phase.SELECTION:
                pass

    def _say(self, event: str, **fields: object) -> None:
        self.after_commit.append(lambda: _log.info(event, **fields))


def _tenths(reported: int, state: Round) -> int:
    """How many tenths of the goal are there: a large round must not log a line for each report."""
    return 10 * reported // state.rules.goal
