"""Writes what an event did to a round: its next state, counts, log lines, and effects for after the commit."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.rounds import lease as leases
from nightjar.coordinator.rounds.events import (
    CountRefusal,
    Effect,
    KeepReport,
    RejectCheckIn,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.lease import Lease, ReportCounted, ReportRefused
from nightjar.coordinator.rounds.pace_steering import round_timed
from nightjar.coordinator.rounds.round import STALE, AbandonCause, Phase, Round
from nightjar.coordinator.rounds.seats import causes_of
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import DropoutCause, Verdict


def write_changes(before: Round, after: Round, device: DeviceId | None, unit: UnitOfWork) -> None:
    """Count, log and save what an event changed in a round.

    ``device`` is the only one that the event concerns; None if there is none.
    """
    for cause, amount in _dropouts_changed(before, after, device).items():
        if amount:
            unit.tx.count(f"dropouts:{cause.value}", amount)
        if amount > 0:
            unit.log("devices_dropped_out", round=after.number, cause=cause.value, devices=amount)
    if after.phase is not before.phase:
        _say_phase(after, unit)
    elif _tenths(after) != _tenths(before):
        unit.log("reports_accepted", round=after.number, accepted=after.reported, goal=after.rules.goal)
    unit.save_round(after)


def apply_effects(state: Round, effects: tuple[Effect, ...], unit: UnitOfWork) -> None:
    """Apply the effects that belong into the transaction, and keep the others for after the commit."""
    for effect in effects:
        match effect:
            case KeepReport(device):
                heard = unit.tx.lease(device)
                if heard is not None:
                    unit.tx.save_lease(leases.step(heard, ReportCounted(state.number)))
            case CountRefusal(device):
                count_refusal(device, unit)
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


def count_refusal(device: DeviceId, unit: UnitOfWork) -> None:
    """Count a report or a part of a sum that could not be used against its device, which is barred after some."""
    before = unit.tx.lease(device) or Lease(device=device)
    after = leases.step(before, ReportRefused(unit.now_s))
    unit.tx.save_lease(after)
    if after.barred_until_s != before.barred_until_s:
        unit.tx.count("devices_barred")
        unit.warn("device_barred", device=device, seconds=leases.BARRED_S)


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


def _dropouts_changed(before: Round, after: Round, device: DeviceId | None) -> Counter[DropoutCause]:
    """Change in the number of dropouts by cause that an event made."""
    was, now = before.seats, after.seats
    if device is not None and before.phase is after.phase:  # a device's event changes only its own seat
        was, now = ({device: seats[device]} if device in seats else {} for seats in (was, now))
    change = causes_of(now.values())
    change.subtract(causes_of(was.values()))
    return change
