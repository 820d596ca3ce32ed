"""Checks the cohort of a round before its reports are read together, or its sum is opened, and counts it.

:mod:`nightjar.wire.cohorts` says which cohorts may follow each other. Updates, figures and sums are read apart, so each
is compared with its own kind; a round that trains and measures counts as both. A cohort counts once its reports are
given to be read, or its sum can be opened: what was abandoned before tells nobody anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nightjar.coordinator.engine.round_context import RoundContexts
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.rounds import CountedCohort, CountedKind
from nightjar.coordinator.rounds.cohorts import Cohort, read_in_place
from nightjar.coordinator.rounds.events import AggregationFailed, RoundEvents
from nightjar.coordinator.rounds.kinds import Averaging, kind_of
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.wire.cohorts import too_close
from nightjar.wire.errors import NightjarError

_READ = {
    Averaging.UPDATES: (CountedKind.BOTH, CountedKind.UPDATES),
    Averaging.FIGURES: (CountedKind.BOTH, CountedKind.FIGURES),
    Averaging.SUM: (CountedKind.SUM,),
}
"""Cohorts that could be subtracted from one whose reports are read so."""


class CohortService:
    """Refuses cohorts that could be subtracted from each other; ``least`` is the smallest that the limits allow."""

    def __init__(self, contexts: RoundContexts, least: int) -> None:
        self._contexts, self._least = contexts, least

    def check(self, before: Round, after: Round, unit: UnitOfWork) -> RoundEvents:
        """Check and count a round whose reports are about to be read; sums are checked before they are opened."""
        if after.phase is not Phase.COMMITTING or before.phase is Phase.COMMITTING:
            return ()
        record = unit.snapshot.tasks[after.task]
        averaging = kind_of(after).averaging[record.settings.kind]
        if averaging is Averaging.SUM:
            return ()
        cohort = frozenset(after.devices(SeatState.REPORTED))
        try:
            former = self._former(after, averaging, unit)
            measured = self._former(after, Averaging.FIGURES, unit)
        except NightjarError as error:
            return ((after.task, AggregationFailed(f"its base cannot be read: {error}", unit.now_s)),)
        reason = self._too_close(cohort, former)
        if reason:
            again = read_in_place(cohort, former, after.rules.minimum)
            if again is None:
                return ((after.task, AggregationFailed(reason, unit.now_s)),)
            left_out = tuple(sorted(cohort - again))
            unit.log("reports_left_out", round=after.number, devices=len(left_out))
            cohort, after = again, replace(after, left_out=left_out)
        if averaging is Averaging.FIGURES:
            self._count(after, CountedKind.FIGURES, cohort, unit)
        elif not record.settings.measures or record.state.noise is not None:
            self._count(after, CountedKind.UPDATES, cohort, unit)
        elif self._too_close(cohort, measured):
            unit.log("figures_left_out", round=after.number, devices=len(cohort))
            after = replace(after, without_figures=True)
            self._count(after, CountedKind.UPDATES, cohort, unit)
        else:
            self._count(after, CountedKind.BOTH, cohort, unit)
        unit.save_round(after)
        return ()

    def refusal(self, state: Round, cohort: Cohort, unit: UnitOfWork) -> str:
        """Why the sum of these devices of a round must not be opened; empty if it may.

        Raises:
            NightjarError: an artifact of the base version is missing or damaged.
        """
        return self._too_close(cohort, self._former(state, Averaging.SUM, unit))

    def count_sum(self, state: Round, unit: UnitOfWork) -> None:
        """Count the cohort of a round whose sum is about to be opened."""
        self._count(state, CountedKind.SUM, frozenset(state.devices(SeatState.REPORTED)), unit)

    def _too_close(self, cohort: Cohort, former: Sequence[Cohort]) -> str:
        close = too_close(cohort, former, self._least)
        if close is None:
            return ""
        return (
            f"its {len(cohort)} devices differ by {len(cohort ^ close)} from {len(close)} whose reports on the same "
            "weights were used before, and subtraction would find these: expected the same devices, or "
            f"{self._least} others"
        )

    def _count(self, state: Round, kind: CountedKind, cohort: Cohort, unit: UnitOfWork) -> None:
        weights, devices = self._weights(state, unit), tuple(sorted(cohort))
        unit.tx.count_cohort(CountedCohort(state.number, state.base_version, weights, kind, devices))

    def _former(self, state: Round, read: Averaging, unit: UnitOfWork) -> list[Cohort]:
        found = unit.tx.counted_cohorts(self._weights(state, unit), _READ[read])
        return [frozenset(each.devices) for each in found if each.round != state.number]

    def _weights(self, state: Round, unit: UnitOfWork) -> str:
        record, base = unit.snapshot.tasks[state.task], unit.snapshot.bases[state.number]
        return self._contexts.of_round(record, base, state).manifest.weights.sha256
