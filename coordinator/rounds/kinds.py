"""The kinds of rounds, and all that differs between them, in one table. Pure.

A column of the table is an attribute of :class:`RoundKind`; whatever treats rounds differently reads one:

============== ========================= ============== ==================== =================
column         SYNCHRONOUS               BUFFERED       SUMMED               ON_TRIAL
============== ========================= ============== ==================== =================
step           synchronous               buffer         synchronous          synchronous
awaits_report  with a seat               also of an     with a seat          with a seat
               of this round             earlier round  of this round        of this round
has_room       in the first half         if few are     never: masks are     in the first half
               of the reporting time     at work        shared at the start  of that time
opened         SELECTION                 REPORTING      SELECTION            SELECTION
checks         update, or figures        update         masked update        update or figures
averaging      of updates, or figures    of updates     of the sum           of figures
early_reports  discarded                 taken          discarded            kept waiting
spends_privacy by averaging              by averaging   by unmasking         never
============== ========================= ============== ==================== =================

A round keeps the rules that it was opened with (:mod:`nightjar.coordinator.rounds.rules`); :func:`kind_of` reads its
kind from them. A trial is synchronous, and a sum is never buffered.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nightjar.coordinator.rounds import buffer, round, synchronous
from nightjar.coordinator.rounds.events import Event
from nightjar.coordinator.rounds.report_checks import (
    Accepted,
    Asked,
    Invalid,
    check_figures,
    check_masked,
    check_report,
)
from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.rounds.synchronous import Step
from nightjar.wire.frame import Report
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import Work
from nightjar.wire.secure_sum.messages import MaskedUpdate

Check = Callable[[Report, Asked], Accepted | Invalid | MaskedUpdate]
"""Checks the content of a report; a masked update has to be checked by its session, too."""


class Averaging(enum.Enum):
    """What is computed from the reports of a round."""

    UPDATES = "updates"
    SUM = "sum"
    FIGURES = "figures"
    """No version is made: the figures of the devices are added up."""


class EarlyReports(enum.Enum):
    """What a round does with the early reports of a buffer before it."""

    TAKEN = "taken"
    WAITING = "waiting"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class RoundKind:
    """A kind of round.

    Attributes:
        step: the state machine; raises IllegalEvent.
        awaits_report: whether a valid report of a device and attempt that names this round would be accepted now.
        has_room: whether the round, its devices at work, would give a device a seat, or its own seat again.
        has_free_seat: whether a newcomer gets a seat at once, though others are at work.
        opened: a new round as its kind begins, from the time and why it is closing; empty if it is not.
        checks: of a report, by the work that its device was asked for.
        averaging: of the reports, by the work of the task.
        early_reports: what becomes of early reports that wait; TAKEN is a buffer, which takes open seats as well.
        spends_privacy: whether averaging is what counts against the task's differential privacy.
    """

    step: Callable[[Round, Event], Step]
    awaits_report: Callable[[Round, DeviceId, int, int], bool]
    has_room: Callable[[Round, DeviceId, float], bool]
    has_free_seat: Callable[[Round], bool]
    opened: Callable[[Round, float, str], Round]
    checks: Mapping[Work, Check]
    averaging: Mapping[Work, Averaging]
    early_reports: EarlyReports
    spends_privacy: bool

    @property
    def is_buffer(self) -> bool:
        """Whether its devices come and go at any time, so that their seats go on to the next round."""
        return self.early_reports is EarlyReports.TAKEN

    @property
    def is_summed(self) -> bool:
        """Whether only the sum of the reports is learned, by a session beside the round."""
        return self.averaging[Work.TRAIN] is Averaging.SUM


def _never(_state: Round) -> bool:
    return False


def _in_selection(state: Round, _now_s: float, _closing: str) -> Round:
    return state


_CHECKS: Mapping[Work, Check] = {Work.TRAIN: check_report, Work.EVALUATE: check_figures}

SYNCHRONOUS = RoundKind(
    step=synchronous.step,
    awaits_report=round.awaits_report,
    has_room=round.has_room,
    has_free_seat=_never,
    opened=_in_selection,
    checks=_CHECKS,
    averaging={Work.TRAIN: Averaging.UPDATES, Work.EVALUATE: Averaging.FIGURES},
    early_reports=EarlyReports.DISCARDED,
    spends_privacy=True,
)
BUFFERED = RoundKind(
    step=buffer.step,
    awaits_report=buffer.awaits_report,
    has_room=buffer.has_room,
    has_free_seat=buffer.has_free_seat,
    opened=buffer.opened,
    checks=_CHECKS,
    averaging={Work.TRAIN: Averaging.UPDATES},
    early_reports=EarlyReports.TAKEN,
    spends_privacy=True,
)
SUMMED = replace(
    SYNCHRONOUS,
    checks={Work.TRAIN: check_masked},
    averaging={Work.TRAIN: Averaging.SUM},
    spends_privacy=False,
)
ON_TRIAL = replace(
    SYNCHRONOUS,
    averaging={Work.TRAIN: Averaging.FIGURES},
    early_reports=EarlyReports.WAITING,
    spends_privacy=False,
)


def kind_of(state: Round) -> RoundKind:
    """The kind of a round."""
    if state.trial:
        return ON_TRIAL
    if state.rules.summed:
        return SUMMED
    return BUFFERED if state.rules.concurrency else SYNCHRONOUS
