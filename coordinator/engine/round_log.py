"""Counts and logs what an event changed in a round: its phase, its dropouts and, in tenths of the goal, its reports."""

from __future__ import annotations

from collections import Counter

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.rounds.events import Event
from nightjar.coordinator.rounds.pace_steering import round_timed
from nightjar.coordinator.rounds.round import AbandonCause, Phase, Round
from nightjar.coordinator.rounds.seats import causes_of
from nightjar.wire.messages import DropoutCause


def note_changes(before: Round, after: Round, event: Event, unit: UnitOfWork) -> None:
    """Count and log what an event changed in a round."""
    for cause, amount in _dropouts_changed(before, after, event).items():
        if amount:
            unit.tx.count(f"dropouts:{cause.value}", amount)
        if amount > 0:
            unit.log("devices_dropped_out", round=after.number, cause=cause.value, devices=amount)
    if after.phase is not before.phase:
        _say_phase(after, unit)
    elif _tenths(after) != _tenths(before):
        unit.log("reports_accepted", round=after.number, accepted=after.reported, goal=after.rules.goal)


def _say_phase(after: Round, unit: UnitOfWork) -> None:
    match after.phase:
        case Phase.REPORTING:
            unit.log("round_started", round=after.number, selected=len(after.seats))
        case Phase.COMMITTING:
            unit.log("averaging_reports", round=after.number, accepted=after.reported, selected=len(after.seats))
        case Phase.COMMITTED:
            # Rounds that only evaluate are shorter: keep them out of the average.
            if after.started_at_s is not None and after.version is not None:
                unit.tx.save_rhythm(round_timed(unit.tx.rhythm(), max(unit.now_s - after.started_at_s, 0.0)))
            unit.log("round_committed", round=after.number, version=after.version)
        case Phase.ABANDONED:
            cause = AbandonCause.AVERAGING_FAILED if after.cause is None else after.cause
            unit.tx.count(f"rounds_abandoned:{cause.value}")
            unit.log("round_abandoned", round=after.number, cause=cause.value, reason=after.reason)
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
