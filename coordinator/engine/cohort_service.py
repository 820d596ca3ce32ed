"""Checks the cohort of a round before its reports are averaged, or its sum is opened, and counts it.

:mod:`nightjar.coordinator.rounds.cohorts` says which cohorts may follow each other. A cohort counts once its reports
are given to be averaged, or its sum can be opened: what was abandoned before tells nobody anything. Rounds that only
evaluate are not checked (docs/privacy.md says what their figures show).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nightjar.coordinator.engine.round_context import RoundContexts
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.rounds import CountedCohort
from nightjar.coordinator.rounds.cohorts import Cohort, averaged_in_place, too_close
from nightjar.coordinator.rounds.events import AggregationFailed, RoundEvents
from nightjar.coordinator.rounds.kinds import Averaging, kind_of
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.wire.errors import NightjarError
from nightjar.wire.messages import Work


class CohortService:
    """Refuses cohorts that could be subtracted from each other; ``least`` is the smallest that the limits allow."""

    def __init__(self, contexts: RoundContexts, least: int) -> None:
        self._contexts, self._least = contexts, least

    def check(self, before: Round, after: Round, unit: UnitOfWork) -> RoundEvents:
        """Check and count a round whose reports are about to be averaged; sums are checked before they are opened."""
        if after.phase is not Phase.COMMITTING or before.phase is Phase.COMMITTING:
            return ()
        if kind_of(after).averaging[unit.snapshot.tasks[after.task].settings.kind] is not Averaging.UPDATES:
            return ()
        cohort = frozenset(after.devices(SeatState.REPORTED))
        try:
            former = self._former(after, unit)
        except NightjarError as error:
            return ((after.task, AggregationFailed(f"its base cannot be read: {error}", unit.now_s)),)
        reason = self._too_close(cohort, former)
        if not reason:
            self.count(after, unit)
            return ()
        again = averaged_in_place(cohort, former, after.rules.minimum)
        if again is None:
            return ((after.task, AggregationFailed(reason, unit.now_s)),)
        left_out = tuple(sorted(cohort - again))
        unit.log("reports_left_out", round=after.number, devices=len(left_out))
        unit.save_round(replace(after, left_out=left_out))
        return ()

    def refusal(self, state: Round, cohort: Cohort, unit: UnitOfWork) -> str:
        """Why the reports of these devices of a round must not be read together; empty if they may.

        Raises:
            NightjarError: an artifact of the base version is missing or damaged.
        """
        return self._too_close(cohort, self._former(state, unit))

    def _too_close(self, cohort: Cohort, former: Sequence[Cohort]) -> str:
        close = too_close(cohort, former, self._least)
        if close is None:
            return ""
        return (
            f"its {len(cohort)} devices differ by {len(cohort ^ close)} from {len(close)} whose reports on the same "
            "weights were used before, and subtraction would find these: expected the same devices, or "
            f"{self._least} others"
        )

    def count(self, state: Round, unit: UnitOfWork) -> None:
        """Count the cohort of a round whose reports are about to be read together."""
        devices = tuple(state.devices(SeatState.REPORTED))
        kept = CountedCohort(state.number, state.base_version, self._weights(state, unit), _kind(state), devices)
        unit.tx.count_cohort(kept)

    def _former(self, state: Round, unit: UnitOfWork) -> list[Cohort]:
        found = unit.tx.counted_cohorts(self._weights(state, unit), _kind(state))
        return [frozenset(each.devices) for each in found if each.round != state.number]

    def _weights(self, state: Round, unit: UnitOfWork) -> str:
        record, base = unit.snapshot.tasks[state.task], unit.snapshot.bases[state.number]
        return self._contexts.of_round(record, base, state).manifest.weights.sha256


def _kind(state: Round) -> str:
    return kind_of(state).averaging[Work.TRAIN].value
