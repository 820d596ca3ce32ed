"""A device's part in the secure sum of a round, around the machine that makes its steps."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from nightjar.edge_agent.core.lifecycle import State
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.core.stored import Change, NewReport, SumState, agreed, over
from nightjar.edge_agent.core.sum_steps import BEFORE_REPORT, READY, HearQuestion, JoinSum, MaskWords, SumStep
from nightjar.edge_agent.link.uplink import Uplink
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Journal, SumMachine
from nightjar.edge_agent.session.task import Produced
from nightjar.wire import frame as frames
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.identifiers import Population
from nightjar.wire.messages import Assignment
from nightjar.wire.secure_sum.messages import Down
from nightjar.wire.secure_sum.session import terms_of_assignment


@dataclass(frozen=True, slots=True)
class Enlisted:
    """The device has its model and has joined the secure sum.

    Attributes:
        summing: the device's state; to be stored before anything is sent.
    """

    model: Model
    summing: SumState
    sent: tuple[bytes, ...]


def join_sum(
    model: Model, assignment: Assignment, population: Population, last: SumState | None, machine: SumMachine
) -> Enlisted | Model:
    """Join the secure sum of an assignment that is obeyed; without one, the model as it is.

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
    terms = terms_of_assignment(assignment, model.manifest.layout, population)
    step = machine(JoinSum(terms))
    weights, confirmed = model.manifest.weights.sha256, () if last is None else last.confirmed
    joined = SumState(order.number, assignment.round, terms.session, step.phase, step.state, weights, confirmed)
    return Enlisted(model, joined, step.sent)


class SumPart:
    """The last secure sum that the device joined, as the driver holds it.

    Attributes:
        state: the stored state; None before the first sum.
        unmasked: what was trained, while the shares of other devices are awaited.
    """

    def __init__(self, machine: SumMachine, journal: Journal, uplink: Uplink, least: int) -> None:
        """``least`` is the smallest cohort that the limits allow."""
        self._machine, self._journal, self._uplink, self._least = machine, journal, uplink, least
        self._answers: tuple[bytes, ...] = ()
        self.state: SumState | None = None
        self.unmasked: Produced | None = None

    def restore(self, state: SumState | None) -> None:
        """Take over the state that the last process stored; a sum without a report ended with it."""
        self.stored(over(state) if state is not None and state.phase in BEFORE_REPORT else state)

    def stored(self, state: SumState | None) -> None:
        """Note that a state was stored with a step of the lifecycle."""
        self.state, self._answers, self.unmasked = state, (), None

    def hear(self, question: Down, payload: bytes, state: State, *, metered: bool) -> SumStep | None:
        """Answer the coordinator; the step that was made, stored and sent, or None if there is nothing to answer.

        ``payload`` is the question as received. On a metered network nothing is answered after the report.

        Raises:
            UnavailableError: the step cannot be made or stored now; the coordinator asks again.
        """
        held = self.state
        if held is None or not held.state or question.session != held.session:
            return None
        if metered and held.phase not in BEFORE_REPORT:
            return None
        confirmed = tuple(each.members for each in held.confirmed if each.weights == held.weights)
        step = self._machine(HearQuestion(held.state, payload, confirmed, self._least))
        following = self.after(step)
        if step.cohort:
            following = agreed(following, step.cohort)
        if following != held:
            self._journal.commit(Change(state, summing=following))
            self.state = following
        self.answer(step.sent)
        return step

    def answer(self, sent: tuple[bytes, ...]) -> None:
        """Send messages to the coordinator, now and at each connection until there are newer ones."""
        if sent:
            self._answers = sent
            self.answer_again()

    def answer_again(self) -> None:
        """Send the newest messages again."""
        for answer in self._answers:
            self._uplink.sum_answer(answer)

    def masked(self) -> tuple[NewReport, SumState] | None:
        """The masked report and the state after it; None until training is over and the shares of others have come.

        Raises:
            UnavailableError: the step cannot be made now.
        """
        done = self.unmasked
        if self.state is None or self.state.phase != READY or done is None or done.words is None:
            return None
        step = self._machine(MaskWords(self.state.state, done.words.astype("<u4").tobytes()))
        return _masked_report(done.report, step.sent[0]), self.after(step)

    def after(self, step: SumStep) -> SumState:
        """The state after a step.

        Raises:
            LocalProtocolError: the device has joined no sum.
        """
        if self.state is None:
            msg = "a step of a secure sum was made before one was joined"
            raise LocalProtocolError(msg)
        return replace(self.state, phase=step.phase, state=step.state)

    def given_up(self, round_number: int) -> SumState | None:
        """The state to store when the device ends its work for a round; None if it has joined no sum of that round."""
        held = self.state
        return over(held) if held is not None and held.round == round_number else None


def _masked_report(report: NewReport, payload: bytes) -> NewReport:
    """The report with its masked update, in place of none."""
    content = frames.decode(report.frame)
    if not isinstance(content, frames.Report):
        msg = "expected a report to put the masked update in"
        raise LocalProtocolError(msg)
    frame = frames.encode_report(replace(content, payload=payload))
    parts = len(frames.publishes(frame, content.round, content.attempt))
    return NewReport(Parcel(content.round, content.attempt, parts), frame)
