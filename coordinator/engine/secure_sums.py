"""Runs the secure sums of rounds: passes events between a round, its session and the devices.

:mod:`nightjar.coordinator.rounds.synchronous` decides which devices take part, and when enough have reported;
:mod:`nightjar.coordinator.rounds.secure_sum` runs the protocol beside it. A session is opened with REPORTING. While
devices train, it collects keys and shares; a device that sends none in time loses its seat, and nobody gets it. Masked
updates come as reports. In COMMITTING the devices confirm and disclose, and only then the worker averages. The session
is stored in the round's transaction, and deleted with the end of the round; so are the masked updates. What a session
wants of its round is returned as events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator

import structlog
from msgspec.structs import replace

from nightjar.coordinator.engine.cohort_service import CohortService
from nightjar.coordinator.engine.orders import common_order
from nightjar.coordinator.engine.round_context import RoundContexts
from nightjar.coordinator.engine.round_results import count_refusal
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.learning.summed import sum_order
from nightjar.coordinator.records.effects import SendSumQuestion
from nightjar.coordinator.records.rounds import StoredSum
from nightjar.coordinator.rounds.events import (
    AggregationFailed,
    DeviceDroppedOut,
    RoundEvents,
    SendReceipt,
    StartAggregation,
)
from nightjar.coordinator.rounds.events import Event as RoundEvent
from nightjar.coordinator.rounds.report_checks import Accepted, Invalid
from nightjar.coordinator.rounds.round import Phase, Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.rounds.secure_sum import (
    ASKING,
    Blame,
    Effect,
    Event,
    KeepValues,
    MessagesLost,
    Refuse,
    Send,
    StepContext,
    SumPhase,
    SumSession,
    TimeUp,
    Unmask,
    open_session,
    step,
)
from nightjar.wire.errors import LocalProtocolError, NightjarError, RemoteProtocolError
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import DropoutCause, Verdict
from nightjar.wire.secure_sum.messages import MaskedUpdate, decode_up, encode
from nightjar.wire.secure_sum.primitives import Primitives
from nightjar.wire.secure_sum.session import terms_of_assignment

PHASE_S = 30.0
"""Longest wait for keys, shares, confirmations or disclosures: some phones have to fetch the model first."""
PHASE_SHARE = 0.25
"""The same as a share of the report deadline: keys and shares leave half of a short round for the training."""

EnrolledKeyOf = Callable[[DeviceId], bytes | None]
"""Returns a device's enrolled key, public and compressed; None if it has none."""

_log = structlog.get_logger("coordinator")


class SecureSums:
    """The secure sums of all open rounds."""

    def __init__(
        self,
        population: str,
        first: str,
        contexts: RoundContexts,
        cohorts: CohortService,
        enrolled: EnrolledKeyOf,
        primitives: Primitives,
    ) -> None:
        """``first`` is the task whose versions keyboards get."""
        self._population, self._first = Population(population), first
        self._contexts, self._cohorts = contexts, cohorts
        self._enrolled = enrolled
        self._primitives = primitives

    def follow(self, before: Round, after: Round, unit: UnitOfWork) -> RoundEvents:
        """Do what follows from a step of a round that is summed."""
        if after.phase is before.phase:
            return ()
        if after.phase is Phase.REPORTING:
            return self._open(after, unit)
        if after.phase is Phase.COMMITTING and unit.snapshot.sums[after.number].session.phase is SumPhase.REPORTS:
            return self._apply(after.number, TimeUp(), unit)[1]
        return ()

    def tick(self, unit: UnitOfWork) -> RoundEvents:
        """Check the deadlines of the phases; half-way through one, ask again those that have not answered."""
        events: list[tuple[str, RoundEvent]] = []
        for number, held, phase_s in self._timed(unit):
            if unit.now_s >= held.until_s:
                events += self._apply(number, TimeUp(), unit)[1]
            elif held.until_s > unit.now_s + phase_s:  # the clock was set back
                unit.keep_sum(number, replace(held, until_s=unit.now_s + phase_s))
            elif not held.asked_again and unit.now_s >= held.until_s - phase_s / 2:
                unit.keep_sum(number, replace(held, asked_again=True))
                self.ask_again(unit, number)
        return tuple(events)

    def reconnected(self, unit: UnitOfWork) -> None:
        """Begin to wait anew: while we were away, devices could neither hear nor answer."""
        for number, held, phase_s in self._timed(unit):
            unit.keep_sum(number, replace(held, until_s=unit.now_s + phase_s))
        self.ask_again(unit)

    def _timed(self, unit: UnitOfWork) -> Iterator[tuple[int, StoredSum, float]]:
        """The sums that wait until a deadline of their own, each with the length of its phase."""
        for number, held in list(unit.snapshot.sums.items()):
            state = unit.snapshot.round(number)
            if state is not None and held.until_s != math.inf:
                yield number, held, _phase_s(state)

    def take(self, device: DeviceId, payload: bytes, unit: UnitOfWork) -> RoundEvents:
        """Handle a device's message, unless its session is over.

        Raises:
            RemoteProtocolError: it is none.
        """
        message = decode_up(payload)
        if isinstance(message, MaskedUpdate):
            msg = "a masked update comes in a report"
            raise RemoteProtocolError(msg, code="kind")
        for number, held in unit.snapshot.sums.items():
            if held.session.terms.session == message.session:
                return self._apply(number, message, unit, held.key_of(device))[1]
        return ()

    def take_report(
        self, device: DeviceId, update: MaskedUpdate, meant: Round, unit: UnitOfWork
    ) -> tuple[Accepted | Invalid, RoundEvents]:
        """Count a masked update that its round awaits in the session, which checks it."""
        held = unit.snapshot.sums.get(meant.number)
        if held is None:
            return Invalid("secure-sum", "the secure sum is over"), ()
        effects, events = self._apply(meant.number, update, unit, held.key_of(device))
        for effect in effects:
            match effect:
                case KeepValues():
                    return Accepted(0.0), events
                case Refuse(_, reason):
                    return Invalid("secure-sum", reason), events
                case _:
                    pass
        return Invalid("secure-sum", f"the secure sum awaits {held.session.phase.value}, not a masked update"), events

    def ask_again(self, unit: UnitOfWork, number: int | None = None, device: DeviceId | None = None) -> None:
        """Ask devices again that have not answered, all or those of a round or one: a connection was lost."""
        for each, held in list(unit.snapshot.sums.items()):
            if number in {None, each} and held.session.phase in ASKING and device in {None, *held.devices.values()}:
                _, effects = step(held.session, MessagesLost(), StepContext(self._primitives))
                _ask(effects, held, unit, device)

    def _open(self, state: Round, unit: UnitOfWork) -> RoundEvents:
        record, base = unit.snapshot.tasks[state.task], unit.snapshot.bases[state.number]
        devices = {key: device for device in state.seats if (key := self._enrolled(device)) is not None}
        try:
            context = self._contexts.of_round(record, base, state)
            layout = context.manifest.layout
            order = sum_order(
                unit.tx.draw_number(unit.now_s),
                state.rules.minimum,
                state.rules.cohort,
                layout,
                record.settings.plan.first_norm if base.clip_norm is None else base.clip_norm,
                record.state.noise,
            )
            told = common_order(state, base, record, context, self._first, order)
            terms = terms_of_assignment(told, layout, self._population)
            session = open_session(terms, devices)
        except NightjarError as error:
            return ((state.task, AggregationFailed(f"the secure sum cannot begin: {error}", unit.now_s)),)
        until_s = unit.now_s + _phase_s(state)
        unit.keep_sum(state.number, StoredSum(order=order, session=session, devices=devices, until_s=until_s))
        return _without(state, frozenset(devices.values()), unit.now_s)

    def _apply(
        self, number: int, event: Event, unit: UnitOfWork, sender: bytes = b""
    ) -> tuple[tuple[Effect, ...], RoundEvents]:
        """Apply an event to a session, and do what follows; returns its effects, and the events for its round."""
        before, state = unit.snapshot.sums[number], unit.snapshot.round(number)
        if state is None:
            msg = f"there is a secure sum of round {number}, which is not open"
            raise LocalProtocolError(msg)
        session, effects = step(before.session, event, StepContext(self._primitives, sender))
        if session.phase is SumPhase.CONFIRMATIONS and before.session.phase is SumPhase.REPORTS:
            reason = self._refused(before, session, state, unit)
            if reason:
                session = replace(session, phase=SumPhase.ABANDONED, reason=reason)
                effects = tuple(each for each in effects if not isinstance(each, Send))
        held = replace(before, session=session)
        if session.phase is not before.session.phase:
            waits = session.phase in _TIMED
            held = replace(held, until_s=unit.now_s + _phase_s(state) if waits else math.inf, asked_again=False)
        for effect in effects:
            match effect:
                case Unmask():
                    held = replace(held, plan=effect)
                    self._cohorts.count_sum(state, unit)
                    unit.spend_privacy(state.task, number)  # from now on we can open the sum, averaged or not
                    unit.effects.append(StartAggregation(number))
                case Blame(key, reason):
                    count_refusal(before.devices[key], unit)
                    unit.tx.count("sum_shares_wrong")
                    unit.warn("sum_shares_wrong", round=number, device=before.devices[key], why=reason)
                case Refuse(key, reason):
                    unit.tx.count("sum_messages_refused")
                    _log.info("sum_message_refused", round=number, device=before.devices.get(key), reason=reason[:200])
                case _:
                    pass
        if held != before:
            unit.keep_sum(number, held)
        _ask(effects, held, unit)
        match session.phase:
            case SumPhase.ABANDONED:
                for device in state.devices(SeatState.WORKING):  # it need not wait for the shares of others
                    unit.effects.append(SendReceipt(device, number, state.seats[device].attempt, Verdict.LATE))
                blamed = sorted(before.devices[each.sender] for each in effects if isinstance(each, Blame))
                by = f"; wrong shares are those of {', '.join(blamed)}" if blamed else ""
                failed = AggregationFailed(f"the secure sum: {session.reason}{by}", unit.now_s)
                return effects, ((state.task, failed),)
            case SumPhase.SHARES:
                return effects, _without(state, frozenset(held.devices[key] for key in session.roster), unit.now_s)
            case SumPhase.REPORTS if before.session.phase is SumPhase.SHARES:
                stay = frozenset(held.devices[session.roster[member]] for member in session.shares)
                return effects, _without(state, stay, unit.now_s)
            case _:
                return effects, ()

    def _refused(self, held: StoredSum, session: SumSession, state: Round, unit: UnitOfWork) -> str:
        """Why the sum of those that have reported must not be opened; empty if it may."""
        cohort = frozenset(held.devices[session.roster[member]] for member in session.reports)
        try:
            return self._cohorts.refusal(state, cohort, unit)
        except NightjarError as error:
            return f"its base cannot be read: {error}"


def _without(state: Round, stay: Collection[DeviceId], now_s: float) -> RoundEvents:
    """The events that take the seats of all other devices."""
    return tuple(
        (state.task, DeviceDroppedOut(device, state.seats[device].attempt, DropoutCause.SILENT, now_s))
        for device in state.devices(SeatState.WORKING)
        if device not in stay
    )


_TIMED = frozenset({SumPhase.KEYS, SumPhase.SHARES, SumPhase.CONFIRMATIONS, SumPhase.DISCLOSURES})
"""Phases that end by their own deadline; reports end with the round's."""


def _phase_s(state: Round) -> float:
    return min(PHASE_S, PHASE_SHARE * state.rules.report_deadline_s)


def _ask(effects: Iterable[Effect], held: StoredSum, unit: UnitOfWork, device: DeviceId | None = None) -> None:
    for effect in effects:
        if isinstance(effect, Send) and device in {None, held.devices[effect.receiver]}:
            unit.effects.append(SendSumQuestion(held.devices[effect.receiver], encode(effect.message)))
