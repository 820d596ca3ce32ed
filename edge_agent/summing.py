"""A device's part in the secure sum of a round, around the machine that makes its steps."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from edge_agent.core.outbox import Parcel
from edge_agent.core.summing import ABORTED, JoinSum, SumStep
from edge_agent.ports import Model, NewReport, SumMachine, SumState
from wire import frame as frames
from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.identifiers import Population
from wire.messages import Assignment
from wire.secure_sum.order import terms_of


@dataclass(frozen=True, slots=True)
class Enlisted:
    """The device has its model and has joined the secure sum.

    Attributes:
        model: the model of the assignment.
        summing: the device's state; to be stored before anything is sent.
        sent: messages to the coordinator.
    """

    model: Model
    summing: SumState
    sent: tuple[bytes, ...]


def enlist(
    model: Model, assignment: Assignment, population: Population, last: SumState | None, machine: SumMachine
) -> Enlisted | Model:
    """Join the secure sum of an assignment that is obeyed; without one, the model as it is.

    Args:
        model: the model of the assignment.
        assignment: the assignment.
        population: the device's population.
        last: the last secure sum that the device joined.
        machine: makes the steps.

    Raises:
        RemoteProtocolError: the device may have joined this session before, so that its masks could be found out; or
            the terms contradict each other.
        UnavailableError: the step cannot be made now.
    """
    order = assignment.secure_sum
    if order is None:
        return model
    if last is not None and (order.number, assignment.round) <= (last.number, last.round):
        msg = f"expected a secure sum after that of round {last.round}, got one of round {assignment.round}"
        raise RemoteProtocolError(msg, code="rollback")
    layout = model.manifest.layout
    terms = terms_of(order, layout, assignment.minimum, population, assignment.task, assignment.round)
    step = machine(JoinSum(terms))
    joined = SumState(order.number, assignment.round, terms.session, step.phase, step.state)
    return Enlisted(model, joined, step.sent)


def after(held: SumState, step: SumStep) -> SumState:
    """The device's state after a step."""
    return replace(held, phase=step.phase, state=step.state)


def over(held: SumState) -> SumState:
    """The state of a device that answers no more, and only remembers which session it had joined."""
    return replace(held, phase=ABORTED, state=b"")


def masked_report(report: NewReport, payload: bytes) -> NewReport:
    """The report with its masked update, in place of none."""
    content = frames.decode(report.frame)
    if not isinstance(content, frames.Report):
        msg = "expected a report to put the masked update in"
        raise LocalProtocolError(msg)
    frame = frames.encode_report(replace(content, payload=payload))
    parts = len(frames.publishes(frame, content.round, content.attempt))
    return NewReport(Parcel(content.round, content.attempt, parts), frame, report.layout, None)
