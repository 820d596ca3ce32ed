"""The driver: one thread with one queue that connects the pure state machines with the adapters.

Each occurrence (a message, a connection, the outcome of a job) is an item in the queue; time passes in polls. Each item
becomes an event for a state machine. The new state, the outbox and the dropouts to be sent are written in one
transaction; then the effects run. A kill at any line therefore leaves either the old state, and the sender repeats the
message, or the new state, and the next process sends what was pending. Every effect may run twice.

An event that cannot be stored (a full disk, a locked database) counts as not having happened. Events that no other
party would repeat (a restart, the outcome of our own job) are retried until they are stored
(:mod:`nightjar.edge_agent.upkeep.durable_retry`).

The driver decides nothing that a state machine could decide. It translates, and it writes the log.
"""

from __future__ import annotations

import dataclasses
import math
import queue
from collections.abc import Callable
from concurrent.futures import Future

import structlog

from nightjar.edge_agent import __version__
from nightjar.edge_agent.core import events, lifecycle, outbox
from nightjar.edge_agent.core.eligibility import (
    Answer,
    Condition,
    EligibilityRun,
    apply_hysteresis,
    examples_reading,
    judge,
)
from nightjar.edge_agent.core.events import (
    Assigned,
    ConditionsJudged,
    Moment,
    Prepare,
    SendCheckIn,
    SendDropout,
    StopWork,
    Train,
)
from nightjar.edge_agent.core.lifecycle import CheckedIn, Preparing, Reporting, Settling, Training, Working
from nightjar.edge_agent.core.privacy_ledger import charged
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.core.stored import ABORTED, Change, NewReport, SumState, crash_count_after
from nightjar.edge_agent.inbox import (
    AccessAnswered,
    Arrived,
    Item,
    Job,
    LinkDown,
    LinkUp,
    ReleaseCheckDone,
    StopAsked,
    WipeAsked,
    WorkDone,
    failure,
)
from nightjar.edge_agent.link.connection import Connection
from nightjar.edge_agent.link.delivery import Delivery
from nightjar.edge_agent.link.uplink import AgentIdentity, Uplink
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Pace, Ports
from nightjar.edge_agent.session.jobs import SessionJobs, cause_of
from nightjar.edge_agent.session.summing import Enlisted, SumPart
from nightjar.edge_agent.session.task import Produced
from nightjar.edge_agent.upkeep.durable_retry import DurableRetry
from nightjar.edge_agent.upkeep.keyboard import KeyboardUpkeep, offered
from nightjar.edge_agent.upkeep.releases import FIRST, ReleaseWatch
from nightjar.wire import messages, topics
from nightjar.wire.errors import NightjarError
from nightjar.wire.messages import (
    Announcement,
    Assignment,
    DropoutCause,
    Message,
    Missing,
    Receipt,
    Rejection,
    Verdict,
)
from nightjar.wire.secure_sum.messages import Confirmations, Deliveries, Down, Roster, Survivors, decode_down

LEAST_POLL_S = 0.05
"""Least time before an early poll for something due: a failing action must not be retried in a busy loop."""

log = structlog.get_logger()


class Driver:
    """The running agent.

    Adapters put items into ``inbox`` from any thread or signal handler.
    """

    def __init__(self, identity: AgentIdentity, pace: Pace, ports: Ports, inbox: queue.SimpleQueue[Item]) -> None:
        self._identity = identity
        self._uplink = Uplink(identity, ports.transport, ports.journal, ports.notice)
        self._pace = pace
        self._ports = ports
        self._inbox = inbox
        self._state: lifecycle.State = lifecycle.STARTING
        self._eligible_since_s: float | None = None
        self._jobs = 0
        self._announced: str | None = None
        self._recall: int | None = None  # the newest recall; the first one heard may be old
        self._metered = False
        self._releases = ReleaseWatch(ports.releases, ports.clock, self._start, ports.worker.stop)
        self._keyboard = KeyboardUpkeep(ports, self._start_sparing)
        self._session = SessionJobs(ports, identity.population, self._start_sparing)
        self._sum = SumPart(ports.sums, ports.journal, self._uplink, ports.limits.least_cohort)
        self._log = log.bind(device=identity.device, **({"emulated": True} if identity.emulated else {}))
        self._connection = Connection(ports.clock.wall_s, ports.remember_connection, self._log)
        self._delivery = Delivery(self._uplink, ports.transport, self._moment, self._receipted, self._log)
        self._retry = DurableRetry(ports.clock, ports.jitter, self._log)

    @property
    def state(self) -> lifecycle.State:
        """The current state. Thread-safe."""
        return self._state

    def run(self) -> None:
        """Run until :class:`StopAsked`."""
        self.begin()
        clock, polled_s = self._ports.clock, -math.inf
        while True:
            now_s = clock.monotonic_s()
            if now_s >= self._poll_at_s(polled_s):
                self.poll()
                polled_s = now_s
            self._ports.turned()
            try:
                item = self._inbox.get(timeout=max(0.0, self._poll_at_s(polled_s) - clock.monotonic_s()))
            except queue.Empty:
                continue
            self.handle(item)
            if isinstance(item, StopAsked):
                return

    def _poll_at_s(self, polled_s: float) -> float:
        regular_s, due_s = polled_s + self._pace.poll_s, self.due_at_s()
        return regular_s if due_s is None else min(regular_s, max(due_s, polled_s + LEAST_POLL_S))

    def begin(self) -> None:
        """Resume from the state that the last process left."""
        remembered = self._ports.journal.load()
        if remembered.parcel is not None:
            # The outbox decides: its report must be sent whatever the stored state is.
            self._delivery.put(remembered.parcel)
            self._state = Reporting(remembered.parcel.round, remembered.parcel.attempt)
        elif remembered.lifecycle is not None and not isinstance(remembered.lifecycle, Reporting):
            self._state = remembered.lifecycle
        self._sum.restore(remembered.summing)
        self._log.info(
            "agent_started",
            version=__version__,
            runtime=self._identity.runtime,
            examples=self._ports.examples.count(),
            left_while=lifecycle.name(self._state),
        )
        self._connection.begin()
        with self._retry.contained():
            deaths = remembered.deaths + isinstance(self._state, Working)
            self._retry.run_until_stored(lambda: self._step(events.Restarted(self._moment(), deaths)))
        model = self._ports.artifacts.announced()
        if model is not None:
            self._keyboard.arrived(model)

    def poll(self) -> None:
        """Read the conditions, and handle everything that is due."""
        with self._retry.contained():
            self._retry.catch_up()
        with self._retry.contained():
            examples = self._ports.examples
            has_examples = examples_reading(examples.count(), examples.task_types())
            readings = {**self._ports.conditions.read(), Condition.HAS_EXAMPLES: has_examples}
            working = isinstance(self._state, Working)
            verdict = judge(readings, self._pace.policy)
            if verdict.eligible and not working and self._releases.comes_first(readings):
                verdict = FIRST
            now_s, hysteresis_s = self._ports.clock.monotonic_s(), self._pace.hysteresis_s
            self._eligible_since_s, run = apply_hysteresis(self._eligible_since_s, verdict, now_s, hysteresis_s)
            settling = run is EligibilityRun.SETTLING
            reason = f"eligible; must last {hysteresis_s:g} s" if settling else verdict.reason
            self._step(ConditionsJudged(self._moment(), run, reason, verdict.cause))
            self._delivery.send_what_is_due()
            unmetered = readings.get(Condition.UNMETERED)
            self._metered = unmetered is not None and unmetered.value is Answer.NO
            self._mask_when_ready()
            self._keyboard.fetch_if_due(readings, working=isinstance(self._state, Preparing | Training))
            self._releases.look_if_due(readings, working=isinstance(self._state, Working))
        self._uplink.late_status(self._state, self._ports.clock.monotonic_s())

    def due_at_s(self) -> float | None:
        """Time at which a poll has something to do even if the conditions do not change; None for never.

        A real agent also polls in between, because conditions change without notice. A simulation knows when they
        change, and sleeps.
        """
        due = [
            lifecycle.due_at_s(self._state),
            self._delivery.due_at_s,
            self._retry.due_at_s,
            self._uplink.status_due_at_s,
        ]
        if isinstance(self._state, Settling) and self._eligible_since_s is not None:
            due.append(self._eligible_since_s + self._pace.hysteresis_s)
        return min((moment_s for moment_s in due if moment_s is not None), default=None)

    def handle(self, item: Item) -> None:
        """Handle one item from the queue."""
        with self._retry.contained():
            match item:
                case LinkUp():
                    self._link_up()
                case LinkDown(reason):
                    self._connection.down(reason)
                case AccessAnswered(refusal):
                    self._connection.told(refusal)
                case Arrived(topic, payload):
                    self._arrived(topic, payload)
                case WorkDone(number, outcome):
                    self._retry.run_until_stored(lambda: self._work_done(number, outcome))
                case StopAsked():
                    self._ports.worker.stop(self._keyboard.job)
                    self._step(events.Stopping(self._moment()))
                    self._log.info("agent_stopped")
                case WipeAsked(wipe, done):
                    self._wipe(wipe, done)

    # --- items ---

    def _link_up(self) -> None:
        self._connection.up()
        self._uplink.status(self._state, self._ports.clock.monotonic_s(), at_once=True)
        self._uplink.dropouts()
        self._step(events.Connected(self._moment()))
        self._delivery.nudge()
        self._sum.answer_again()

    def _arrived(self, topic: str, payload: bytes) -> None:
        try:
            match topics.parse(topic):
                case topics.DownTopic(_, _, topics.SUM_QUESTION):
                    message: Message | Down = decode_down(payload)
                case topics.DownTopic(_, _, kind):
                    message = messages.decode(kind, payload)
                case topics.AnnounceTopic():
                    message = messages.decode("announce", payload)
                case _:
                    return
        except NightjarError as error:
            self._log.warning("message_refused", topic=topic[:120], code=error.code, error=str(error)[:200])
        else:
            self._take(message, payload)

    def _take(self, message: Message | Down, payload: bytes) -> None:
        at = self._moment()
        match message:
            case Assignment():
                self._session.payload = payload
                self._log.info("assigned", round=message.round, attempt=message.attempt, model_version=message.version)
                self._step(Assigned(at, message, self._pace.session_limit_s))
            case Rejection():
                self._step(events.Rejected(at, message))
            case Receipt():
                self._delivery.step(outbox.ReceiptCame(at, message))
                self._end_if_over(message)
            case Missing():
                self._delivery.step(outbox.MissingCame(at, message))
            case Roster() | Deliveries() | Survivors() | Confirmations():
                self._hear_question(message, payload)
            case Announcement():
                self._uplink.shards = message.shards
                self._ports.trust.announced(payload)
                self._keyboard.announced(offered(message, payload, self._identity.device))
                # The first announcement may be an old retained one.
                news = self._announced not in {None, message.manifest}
                self._announced = message.manifest
                recalled = self._recall is not None and message.recall > self._recall
                self._recall = max(self._recall or 0, message.recall)
                self._step(events.Announced(at, message.check_in_within_s if news else None, recalled))
                self._delivery.nudge()
            case _:
                pass

    def _work_done(self, number: int, outcome: object) -> None:
        if number == self._keyboard.job:
            self._keyboard.fetched(outcome)
        elif number == self._releases.job:
            self._looked_for_release(outcome)
        elif number == self._session.job and isinstance(self._state, Working):
            self._session_done(self._state, outcome)
        # Anything else is the outcome of a job that was stopped.

    def _session_done(self, state: Working, outcome: object) -> None:
        at = self._moment()
        match outcome:
            case Model():
                self._session.model = outcome
                self._step(events.Prepared(at))
                self._keyboard.prepared(outcome)
            case Enlisted(model, summing, sent):
                self._session.model = model
                self._step(events.Prepared(at), summing=summing)
                self._sum.answer(sent)
                self._keyboard.prepared(model)
            case Produced() if isinstance(why := self._session.too_short(state.assignment, outcome), str):
                self._ports.trust.refused(why)
                self._step(events.WorkFailed(at, DropoutCause.OUTSIDE_LIMITS, why))
            case Produced():
                self._log.info(
                    "trained",
                    round=state.assignment.round,
                    examples=outcome.num_examples,
                    steps=outcome.steps,
                    loss=round(outcome.loss, 4),
                    seconds=round(outcome.seconds, 2),
                    report_bytes=len(outcome.report.frame) if outcome.words is None else None,
                )
                if outcome.evaluation is not None and self._session.model is not None:
                    self._log.info("evaluated", **dataclasses.asdict(outcome.evaluation), own=outcome.personal_share)
                    self._keyboard.renewed(self._session.model)
                if outcome.keyboard is not None:
                    self._log.info("keystrokes_saved", **dataclasses.asdict(outcome.keyboard))
                if outcome.keyboard_fault:
                    self._log.warning("keystrokes_not_counted", why=outcome.keyboard_fault)
                if outcome.words is None:
                    self._put_out(outcome.report)
                else:
                    self._sum.unmasked = outcome
                    self._mask_when_ready()
            case TrainingStopped(cause, detail):
                self._step(events.WorkFailed(at, cause, detail))
            case _:
                self._step(events.WorkFailed(at, cause_of(state, outcome), failure(outcome)))

    def _put_out(self, report: NewReport, summing: SumState | None = None) -> None:
        self._step(events.Trained(self._moment()), report=report, summing=summing)
        self._delivery.put(report.parcel)
        self._delivery.send_what_is_due()

    def _receipted(self, at: Moment, receipt: Receipt) -> None:
        summing = None if receipt.verdict.counted else self._sum.given_up(receipt.round)
        self._step(events.ReportSettled(at, receipt), receipted=receipt.verdict, summing=summing)

    def _end_if_over(self, receipt: Receipt) -> None:
        """Stop to work for a round that is over before we report: its secure sum was abandoned."""
        state = self._state
        if isinstance(state, Working):
            mine = state.assignment
            if (mine.round, mine.attempt, Verdict.LATE) == (receipt.round, receipt.attempt, receipt.verdict):
                self._abandon("the round is over")

    def _abandon(self, why: str) -> None:
        self._session.stop()
        self._step(events.WorkFailed(self._moment(), DropoutCause.OUT_OF_TIME, why))

    # --- the lifecycle ---

    def _step(
        self,
        event: events.Event,
        report: NewReport | None = None,
        receipted: Verdict | None = None,
        summing: SumState | None = None,
    ) -> None:
        """Make one transition: store all its changes in one transaction, then run the effects.

        Whatever report is put into the outbox is charged to the ledger here, so that none leaves without.

        Raises:
            IllegalEvent: there is no such transition.
            UnavailableError: the transition could not be stored, so the state is unchanged.
        """
        before = self._state
        state, effects = lifecycle.step(before, event)
        if state == before and effects and self._ports.card_worn(working=isinstance(state, Working)):
            # Orders to a device that has told that it rests are not answered: each answer would be written.
            effects = tuple(effect for effect in effects if not isinstance(effect, SendDropout))
        dropouts = [effect for effect in effects if isinstance(effect, SendDropout)]
        if lifecycle.gave_up(before, state):
            summing = self._sum.given_up(before.assignment.round) or summing
        entry = None
        if report is not None and isinstance(before, Working):
            entry = charged(self._ports.journal.ledger(), before.assignment)
        if state != before or dropouts:
            crashes = crash_count_after(event)
            self._ports.journal.commit(Change(state, report, receipted, dropouts, crashes, entry, summing))
            self._retry.stored()
        self._state = state
        if summing is not None:
            self._sum.stored(summing)
        if _published_status(before) != _published_status(state):
            name, reason = _published_status(state)
            self._log.info(name.replace("-", "_"), reason=reason)
            self._uplink.status(self._state, self._ports.clock.monotonic_s())
        for effect in effects:
            self._run_effect(effect)

    def _run_effect(self, effect: events.Effect) -> None:
        match effect:
            case SendCheckIn():
                self._check_in()
            case SendDropout():
                self._log.info("dropped_out", round=effect.round, cause=effect.cause.value, detail=effect.detail)
                self._uplink.dropouts()
            case Prepare(assignment):
                self._releases.make_way()
                self._session.prepare(assignment, self._sum.state)
            case Train(assignment):
                self._session.train(assignment)
            case StopWork():
                self._session.stop()

    def _check_in(self) -> None:
        if isinstance(self._state, CheckedIn) and self._state.tries > 1:
            self._log.info("no_answer_yet", check_ins=self._state.tries)
        examples = self._ports.examples
        self._uplink.check_in(self._ports.artifacts.current(), examples.count(), examples.task_types())

    def _start(self, work: Callable[[Callable[[], bool]], object]) -> int:
        self._jobs += 1
        self._ports.worker.start(Job(self._jobs, work))
        return self._jobs

    def _start_sparing(self, work: Callable[[Callable[[], bool]], object]) -> int:
        """Start a job that stops when the card was written enough for a day."""
        worn = self._ports.card_worn
        return self._start(lambda should_stop: work(lambda: should_stop() or worn(working=True)))

    # --- the secure sum ---

    def _hear_question(self, question: Down, payload: bytes) -> None:
        """Answer the coordinator of a secure sum, even in use or unplugged, but after the report on no metered network.

        Raises:
            UnavailableError: the step cannot be made or stored now; the coordinator asks again.
        """
        step = self._sum.hear(question, payload, self._state, metered=self._metered)
        if step is None:
            return
        if step.phase == ABORTED and self._sum.state is not None:
            self._log.warning("secure_sum_aborted", round=self._sum.state.round, reason=step.reason)
            if isinstance(self._state, Working):
                self._abandon(step.reason)
        self._mask_when_ready()

    def _mask_when_ready(self) -> None:
        """Put the masked report into the outbox once the training is over and the shares of others have come."""
        masked = self._sum.masked()
        if masked is not None:
            self._put_out(*masked)

    # --- releases of the agent ---

    def _looked_for_release(self, outcome: object) -> None:
        self._releases.ended()
        if not isinstance(outcome, ReleaseCheckDone):
            self._log.warning("no_look_for_releases", error=failure(outcome))
            return
        self._log.info("looked_for_releases", found=outcome.text, refused=outcome.refused or None)
        if outcome.refused != self._uplink.refused_release:
            self._uplink.refused_release = outcome.refused
            self._uplink.status(self._state, self._ports.clock.monotonic_s())

    # --- the user's wish to delete everything ---

    def _wipe(self, wipe: Callable[[], None], done: Future[None]) -> None:
        """Abort the session, which works on typed text; delete everything; start again like a new device."""
        try:
            self._step(events.Stopping(self._moment()))
            wipe()
            self._ports.journal.commit(Change(lifecycle.STARTING))
        except NightjarError as error:
            done.set_exception(error)
            raise
        self._state, self._session.job = lifecycle.STARTING, 0
        self._delivery.drop()
        self._sum.stored(self._ports.journal.load().summing)
        self._log.info("everything_deleted")
        done.set_result(None)

    # --- small things ---

    def _moment(self) -> Moment:
        return Moment(self._ports.clock.monotonic_s(), self._ports.jitter())


def _published_status(state: lifecycle.State) -> tuple[str, str]:
    """The published part of a state: its name and reason."""
    return lifecycle.name(state), lifecycle.reason(state)
