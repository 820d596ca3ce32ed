"""The jobs of a session on the worker: prepare and train. Runs on the driver's thread."""

from __future__ import annotations

from collections.abc import Callable

from nightjar.edge_agent.core.lifecycle import Preparing, Working
from nightjar.edge_agent.core.stored import SumState
from nightjar.edge_agent.inbox import StartJob
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Ports
from nightjar.edge_agent.session.session import prepare, run_session
from nightjar.edge_agent.session.summing import join_sum
from nightjar.edge_agent.session.task import Produced
from nightjar.models.signed_programs import UNSIGNED
from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.identifiers import Population
from nightjar.wire.messages import Assignment, DropoutCause, Work

DISOBEYED = {
    **dict.fromkeys(("signature", "rollback", "expired"), DropoutCause.UNTRUSTED),
    UNSIGNED: DropoutCause.UNTRUSTED,
    "limits": DropoutCause.OUTSIDE_LIMITS,
}
"""The dropout cause reported to the coordinator for each kind of refused order."""


class SessionJobs:
    """Starts and stops the jobs of the session; one at a time.

    Attributes:
        job: number of the newest job; 0 before the first one.
        payload: the newest assignment as received: the signed bytes.
        model: the model of the session, once it is prepared.
    """

    def __init__(self, ports: Ports, population: Population, start: StartJob) -> None:
        self._ports, self._population, self._start = ports, population, start
        self.job = 0
        self.payload = b""
        self.model: Model | None = None

    def prepare(self, assignment: Assignment, last: SumState | None) -> None:
        """Fetch the model of an assignment, and join its secure sum; ``last`` is the last sum that was joined."""
        ports, payload = self._ports, self.payload

        def work(should_stop: Callable[[], bool]) -> object:
            model = prepare(
                ports.artifacts,
                ports.trust,
                ports.limits,
                assignment,
                payload,
                should_stop,
                ports.journal.ledger,
                ports.desk.memory_bytes,
            )
            return join_sum(model, assignment, self._population, last, ports.sums)

        self.job = self._start(work)

    def train(self, assignment: Assignment) -> None:
        """Train on the prepared model.

        Raises:
            LocalProtocolError: there is no model yet.
        """
        model, desk = self.model, self._ports.desk
        if model is None:
            msg = "training was asked for before the model was there"
            raise LocalProtocolError(msg)
        generator = self._ports.random_for(assignment.round, assignment.attempt)
        self.job = self._start(lambda should_stop: run_session(desk, assignment, model, generator, should_stop))

    def stop(self) -> None:
        """Stop the newest job."""
        self._ports.worker.stop(self.job)

    def too_short(self, assignment: Assignment, done: Produced) -> str | None:
        """Why an update must not be sent: the gradient of one or two batches reveals more text than a full training."""
        fewest = self._ports.limits.steps
        if assignment.work is Work.EVALUATE or done.steps >= fewest:
            return None
        return (
            f"outside the limits of this device: expected at least {fewest} training steps, had text for {done.steps}"
        )


def cause_of(state: Working, outcome: object) -> DropoutCause:
    """The cause of a session's failure."""
    if not isinstance(state, Preparing):
        return DropoutCause.TRAINING_FAILED
    return DISOBEYED.get(outcome.code if isinstance(outcome, RemoteProtocolError) else "", DropoutCause.FETCH_FAILED)
