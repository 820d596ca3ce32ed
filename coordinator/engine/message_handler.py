"""Handles messages from devices: check-ins, statuses, and reports in one piece or in chunks.

Everything in a message is hostile until checked. A malformed message is counted and changes nothing else. The exception
is a broken report from a selected device: it settles the device's seat, because sending it again would not repair it.

The handler also checks for what a broker should refuse, because the broker may not be ours: packets that are too large,
unknown topics, and retained messages to the coordinator. A retained check-in arrives with each of our subscriptions,
long after its device may be gone for good; so every retained message except a status is rejected.
"""

from __future__ import annotations

import hashlib

import structlog
from msgspec.structs import replace

from nightjar.coordinator.engine.label_service import relabelled
from nightjar.coordinator.engine.round_context import RoundContext, RoundContexts
from nightjar.coordinator.engine.round_results import send_receipt
from nightjar.coordinator.engine.round_service import RoundService
from nightjar.coordinator.engine.secure_sums import SecureSums
from nightjar.coordinator.engine.unit_of_work import UnitOfWork
from nightjar.coordinator.records.effects import ClearRetained, SendMissing
from nightjar.coordinator.records.inbox import MessageArrived
from nightjar.coordinator.records.rounds import StoredChunk, StoredReport
from nightjar.coordinator.rounds import lease as leases
from nightjar.coordinator.rounds.admission import Candidate, Declined, choose, moves_to_fill_a_pool
from nightjar.coordinator.rounds.events import (
    DeviceCheckedIn,
    DeviceDroppedOut,
    DeviceLost,
    DeviceReturned,
    RejectCheckIn,
    ReportReceived,
    SendReceipt,
)
from nightjar.coordinator.rounds.kinds import kind_of
from nightjar.coordinator.rounds.lease import CheckInCame, Heard, Lease, StatusCame, WentAway
from nightjar.coordinator.rounds.pace_steering import HOUR_S, check_in_counted
from nightjar.coordinator.rounds.report_checks import Accepted, Asked, Invalid
from nightjar.coordinator.rounds.round import Round, seat_round, seat_version
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.tasks.task import TaskStatus
from nightjar.wire import frame, messages, topics
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.identifiers import DeviceId, Population
from nightjar.wire.messages import CheckIn, Dropout, DropoutCause, Query, RejectionReason, Verdict
from nightjar.wire.secure_sum.messages import MaskedUpdate

LIMITS = {"packet-size": "packet size", "retained": "retained messages", "topic": "topics"}
"""Limits that a broker should enforce: error code -> readable name."""
_WILDCARDS = frozenset("+#")
NOT_WAITING = frozenset({"ineligible", "settling"})
"""Lifecycle states of a device that checked in and then stopped meeting the conditions for training."""

_log = structlog.get_logger("coordinator")


class MessageHandler:
    """Turns messages into events of rounds and devices."""

    def __init__(self, population: str, contexts: RoundContexts, rounds: RoundService, sums: SecureSums) -> None:
        self._population = Population(population)
        self._contexts = contexts
        self._rounds = rounds
        self._sums = sums
        self._hour, self._counted = -1, set[DeviceId]()  # who checked in, in which hour since 1970

        self.not_enforced: set[str] = set()
        """Names from :data:`LIMITS` that the broker failed to enforce: a violating message arrived."""

    def take(self, arrived: MessageArrived, unit: UnitOfWork) -> None:
        """Handle a message, even a malformed one.

        Raises:
            UnavailableError: the database cannot be read at the moment.
        """
        if not arrived.payload:
            return  # only clears a retained message
        try:
            self._take(arrived, unit)
        except RemoteProtocolError as error:
            if error.code in LIMITS:
                self.not_enforced.add(LIMITS[error.code])
            unit.tx.count("malformed_messages")
            _log.debug("malformed_message", topic=arrived.topic[:200], code=error.code, detail=str(error)[:200])
            status = arrived.topic.startswith(topics.status_filter(self._population)[:-1])
            if (arrived.retained or status) and not _WILDCARDS & set(arrived.topic):
                unit.effects.append(ClearRetained(arrived.topic))

    def _take(self, arrived: MessageArrived, unit: UnitOfWork) -> None:
        if len(arrived.payload) > frame.MAX_PACKET_BYTES:
            msg = f"a packet has at most {frame.MAX_PACKET_BYTES} bytes, this one has more"
            raise RemoteProtocolError(msg, code="packet-size")
        match topics.parse(arrived.topic):
            case topics.UpTopic(population=where, device=device, kind=kind) if where == self._population:
                unit.tx.count("bytes_up", len(arrived.payload))
                if arrived.retained:
                    msg = f"a broker retains nothing on {arrived.topic[:200]}"
                    raise RemoteProtocolError(msg, code="retained")
                if kind == "report":
                    self._take_frame(device, arrived, unit)
                elif kind == topics.SUM_ANSWER:
                    _hear(device, unit)
                    self._rounds.apply(self._sums.take(device, arrived.payload, unit), unit)
                else:
                    self._take_control(device, messages.decode(kind, arrived.payload), unit)
            case topics.StatusTopic(population=where, device=device) if where == self._population:
                message = messages.decode("status", arrived.payload)
                if isinstance(message, messages.Status):
                    lease = unit.tx.lease(device)
                    self._take_status(device, message, unit, retained=arrived.retained)
                    if message.online and (lease is None or not lease.online):
                        self._sums.ask_again(unit, device=device)
            case _:
                msg = f"the coordinator of {self._population} does not listen to {arrived.topic[:200]}"
                raise RemoteProtocolError(msg, code="topic")

    def _take_control(self, device: DeviceId, message: messages.Message, unit: UnitOfWork) -> None:
        match message:
            case CheckIn():
                self._take_check_in(device, message, unit)
            case Dropout():
                _hear(device, unit)
                meant = unit.snapshot.round_of_seat(message.round, device)
                if meant is not None:
                    if message.cause is DropoutCause.UNTRUSTED:
                        _log.warning(
                            "device_refused_order", device=device, round=message.round, why=message.detail[:300]
                        )
                    dropped = DeviceDroppedOut(device, message.attempt, message.cause, unit.now_s, message.round)
                    self._rounds.step(meant.task, dropped, unit)
            case Query():
                _hear(device, unit)
                self._take_query(device, message, unit)
            case _:
                msg = f"a device does not send a {type(message).__name__}"
                raise RemoteProtocolError(msg, code="kind")

    def _take_status(self, device: DeviceId, message: messages.Status, unit: UnitOfWork, *, retained: bool) -> None:
        came = StatusCame(message, unit.now_s, retained) if message.online else WentAway(message, unit.now_s)
        _note(device, came, unit)
        for state in unit.snapshot.rounds_of(device):
            stopped_waiting = device in state.pool and message.state in NOT_WAITING
            if not message.online or stopped_waiting:
                self._rounds.step(state.task, DeviceLost(device, unit.now_s), unit)
            else:
                self._rounds.step(state.task, DeviceReturned(device, unit.now_s), unit)

    def _take_check_in(self, device: DeviceId, message: CheckIn, unit: UnitOfWork) -> None:
        lease = _note(device, CheckInCame(message, unit.now_s), unit)
        self._count_check_in(device, unit)
        candidates = [Candidate(state, self._context(state, unit).gate) for state in unit.snapshot.rounds.values()]
        if not candidates:
            unit.effects.append(RejectCheckIn(device, RejectionReason.NO_TASK, _why_idle(unit)))
            return
        match choose(lease, message, candidates, unit.now_s):
            case Declined(refused, task):
                unit.effects.append(RejectCheckIn(device, refused.reason, refused.detail, refused.rounds, task))
            case Round(task=task):
                self._rounds.step(task, DeviceCheckedIn(device, unit.now_s), unit)
        if len(candidates) > 1:
            self._gather(unit)

    def _count_check_in(self, device: DeviceId, unit: UnitOfWork) -> None:
        """Count a device once an hour, so that one alone cannot make an hour look busy to all others."""
        hour = int(unit.now_s // HOUR_S)
        if hour != self._hour:
            self._hour, self._counted = hour, set()
        if device not in self._counted:
            self._counted.add(device)
            unit.tx.save_rhythm(check_in_counted(unit.tx.rhythm(), unit.now_s))

    def _gather(self, unit: UnitOfWork) -> None:
        candidates = [Candidate(state, self._context(state, unit).gate) for state in unit.snapshot.rounds.values()]
        for move in moves_to_fill_a_pool(candidates, unit.tx.lease, unit.now_s):
            self._rounds.step(move.source, DeviceLost(move.device, unit.now_s), unit)
            self._rounds.step(move.target, DeviceCheckedIn(move.device, unit.now_s), unit)

    # Reports

    def _take_frame(self, device: DeviceId, arrived: MessageArrived, unit: UnitOfWork) -> None:
        _hear(device, unit)
        payload = arrived.payload
        try:
            content = frame.decode(payload)
        except RemoteProtocolError as error:
            if not self._refuse_broken(device, error, unit):
                raise
            return
        match content:
            case frame.Report():
                self._take_report(device, content, payload, unit)
            case frame.Chunk():
                self._take_chunk(device, content, payload, unit)

    def _take_report(self, device: DeviceId, report: frame.Report, payload: bytes, unit: UnitOfWork) -> None:
        meant = _find(report.round, device, unit)
        if meant is None:
            send_receipt(_stranger(device, report.round, report.attempt, unit), unit)
            return
        received = ReportReceived(device, report.attempt, unit.now_s, given=report.round)
        if not kind_of(meant).awaits_report(meant, device, report.attempt, report.round):
            self._rounds.route_report(meant, received, unit)
            return
        match self._check(device, report, payload, meant, unit):
            case Invalid(code, detail):
                _log.info("report_refused", round=meant.number, device=device, code=code, detail=detail[:200])
                self._rounds.route_report(meant, replace(received, code=code, detail=detail), unit)
            case Accepted(norm):
                stored = StoredReport(
                    round=meant.number,
                    device=device,
                    attempt=report.attempt,
                    sha256=hashlib.sha256(payload).hexdigest(),
                    size_bytes=len(payload),
                    num_examples=report.num_examples,
                    steps=report.steps,
                    loss=report.loss,
                    seconds=report.seconds,
                    norm=norm,
                    received_s=unit.now_s,
                )
                self._rounds.route_report(meant, received, unit, (stored, payload))

    def _check(
        self, device: DeviceId, report: frame.Report, payload: bytes, meant: Round, unit: UnitOfWork
    ) -> Accepted | Invalid:
        lease = unit.tx.lease(device)
        if lease is not None and lease.blocked:
            return Invalid("blocked", lease.blocked)
        context = self._context(meant, unit)
        if len(payload) > context.largest_report_bytes:
            return _too_large(len(payload), context)
        version = seat_version(meant, meant.seats[device])
        asked = Asked(context.codec, context.manifest.layout, version)
        checked = kind_of(meant).checks[context.gate.kind](report, asked)
        if isinstance(checked, MaskedUpdate):
            checked, events = self._sums.take_report(device, checked, meant, unit)
            self._rounds.apply(events, unit)
        return checked

    def _context(self, state: Round, unit: UnitOfWork) -> RoundContext:
        return self._contexts.of_round(unit.snapshot.tasks[state.task], unit.snapshot.bases[state.number], state)

    def _take_chunk(self, device: DeviceId, chunk: frame.Chunk, payload: bytes, unit: UnitOfWork) -> None:
        meant = _find(chunk.round, device, unit)
        if meant is None or not kind_of(meant).awaits_report(meant, device, chunk.attempt, chunk.round):
            if chunk.index:
                return  # one answer is enough for all chunks of an unwanted report
            if meant is None:
                send_receipt(_stranger(device, chunk.round, chunk.attempt, unit), unit)
            else:
                self._rounds.route_report(
                    meant, ReportReceived(device, chunk.attempt, unit.now_s, given=chunk.round), unit
                )
            return
        context = self._context(meant, unit)
        if chunk.total_bytes > context.largest_report_bytes:
            fault = _too_large(chunk.total_bytes, context)
            refused = ReportReceived(device, chunk.attempt, unit.now_s, fault.code, fault.detail, chunk.round)
            self._rounds.route_report(meant, refused, unit)
            return
        stored = unit.tx.chunks(meant.number, device, chunk.attempt)
        if any((other.count, other.total_bytes) != (chunk.count, chunk.total_bytes) for other in stored):
            msg = f"chunks of report {chunk.round}/{chunk.attempt} of {device} disagree about its length"
            raise RemoteProtocolError(msg, code="chunks")
        if all(other.number != chunk.index for other in stored):
            fresh = StoredChunk(
                round=meant.number,
                device=device,
                attempt=chunk.attempt,
                number=chunk.index,
                count=chunk.count,
                total_bytes=chunk.total_bytes,
            )
            unit.tx.add_chunk(fresh, payload)
            stored = [*stored, fresh]
        if len(stored) == chunk.count:
            self._join(device, chunk, meant, unit)

    def _take_query(self, device: DeviceId, query: Query, unit: UnitOfWork) -> None:
        meant = _find(query.round, device, unit)
        if meant is None:
            send_receipt(_stranger(device, query.round, query.attempt, unit), unit)
        elif kind_of(meant).awaits_report(meant, device, query.attempt, query.round):
            context = self._context(meant, unit)
            if query.chunks > frame.chunks_of(context.largest_report_bytes):  # listing missing chunks takes time
                fault = _too_large((query.chunks - 1) * frame.CHUNK_PART_BYTES + 1, context)
                refused = ReportReceived(device, query.attempt, unit.now_s, fault.code, fault.detail, query.round)
                self._rounds.route_report(meant, refused, unit)
                return
            held = {chunk.number for chunk in unit.tx.chunks(meant.number, device, query.attempt)}
            lacking = [number for number in range(query.chunks) if number not in held]
            unit.effects.append(SendMissing(device, query.round, query.attempt, tuple(lacking[:_MISSING_AT_ONCE])))
        else:
            # The round's answer to the report; a query is not a report, so nothing is counted.
            asked = ReportReceived(device, query.attempt, unit.now_s, given=query.round)
            _, receipts = kind_of(meant).step(meant, asked)
            unit.effects.extend(receipt for receipt in receipts if isinstance(receipt, SendReceipt))

    def _join(self, device: DeviceId, last: frame.Chunk, meant: Round, unit: UnitOfWork) -> None:
        parts = [frame.decode(data) for data in unit.tx.chunk_frames(meant.number, device, last.attempt)]
        unit.tx.drop_chunks(meant.number, device)
        try:
            whole = frame.join({part.index: part for part in parts if isinstance(part, frame.Chunk)})
            report = _report_inside(whole, last)
        except RemoteProtocolError as error:
            if not self._refuse_broken(device, error, unit):
                raise
            return
        self._take_report(device, report, whole, unit)

    def _refuse_broken(self, device: DeviceId, error: RemoteProtocolError, unit: UnitOfWork) -> bool:
        """Settle a device's seat after a broken report; False if it has no seat that awaits a report."""
        for state in unit.snapshot.rounds_of(device):
            seat = state.seats.get(device)
            if seat is not None and seat.state is SeatState.WORKING:
                given = seat_round(state, seat)
                received = ReportReceived(device, seat.attempt, unit.now_s, error.code, str(error), given)
                self._rounds.route_report(state, received, unit)
                return True
        return False


def _why_idle(unit: UnitOfWork) -> str:
    """Why no task has an open round, worded for the owner of a device."""
    states = [record.state for record in unit.snapshot.tasks.values()]
    if any(state.status is TaskStatus.ACTIVE for state in states):
        return "no task wants a round just now"
    paused = [state.reason for state in states if state.status is TaskStatus.PAUSED]
    return f"the task is paused: {paused[0]}" if paused else "the task is done"


def _too_large(size_bytes: int, context: RoundContext) -> Invalid:
    detail = f"a report of this model has at most {context.largest_report_bytes} bytes, got {size_bytes}"
    return Invalid("too-large", detail)


_MISSING_AT_ONCE = 2000
"""Maximum chunk numbers in one answer, to keep it a small control message. The device asks again for the rest."""


def _hear(device: DeviceId, unit: UnitOfWork) -> None:
    _note(device, Heard(unit.now_s), unit)


def _note(device: DeviceId, event: leases.Event, unit: UnitOfWork) -> Lease:
    before = unit.tx.lease(device)
    after = leases.step(before or Lease(device=device), event)
    if before is None or not isinstance(event, Heard):  # which changes nothing that rules for labels look at
        after = relabelled(before, after, unit)
    if after != before:
        unit.tx.save_lease(after)
    return after


def _find(number: int, device: DeviceId, unit: UnitOfWork) -> Round | None:
    """The round, open or ended, that answers for a device's seat of round ``number``; None if there is none."""
    found = unit.snapshot.round_of_seat(number, device) or unit.tx.round(number)
    while found is not None and found.following is not None:
        seat = found.seats.get(device)
        if seat is None or seat.state is not SeatState.CARRIED:
            break
        found = unit.snapshot.round(found.following) or unit.tx.round(found.following)
    return found


def _report_inside(whole: bytes, last: frame.Chunk) -> frame.Report:
    report = frame.decode(whole)
    if not isinstance(report, frame.Report) or (report.round, report.attempt) != (last.round, last.attempt):
        msg = f"the chunks of report {last.round}/{last.attempt} hold something else"
        raise RemoteProtocolError(msg, code="chunks")
    return report


def _stranger(device: DeviceId, round_number: int, attempt: int, unit: UnitOfWork) -> SendReceipt:
    """The answer to a report of a round that is not in the database: of one that retention deleted, it is late."""
    if 0 < round_number < unit.tx.last_round_number():
        return SendReceipt(device, round_number, attempt, Verdict.LATE)
    detail = f"there is no round {round_number}"
    return SendReceipt(device, round_number, attempt, Verdict.INVALID, "not-selected", detail)
