"""Chooses the state machine of a round: synchronous (:mod:`~nightjar.coordinator.rounds.round`) or buffered. Pure."""

from __future__ import annotations

from collections.abc import Callable

from nightjar.coordinator.rounds import buffer, round
from nightjar.coordinator.rounds.events import Event
from nightjar.coordinator.rounds.round import Round, Step
from nightjar.wire.identifiers import DeviceId


def step_of(state: Round) -> Callable[[Round, Event], Step]:
    """The function that gives the round after an event, and the effects of the event."""
    return buffer.step if state.rules.concurrency else round.step


def awaits_report(state: Round, device: DeviceId, attempt: int, given: int) -> bool:
    """Whether a valid report of this device and attempt, which names round ``given``, would be accepted now."""
    if state.rules.concurrency:
        return buffer.awaits_report(state, device, attempt, given)
    return round.awaits_report(state, device, attempt)


def has_room(state: Round, device: DeviceId, now_s: float) -> bool:
    """Whether a round whose devices are at work would give this device a seat, or its own seat again."""
    return buffer.has_room(state, device) if state.rules.concurrency else round.has_room(state, device, now_s)
