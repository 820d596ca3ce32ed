"""The agent's uplink: builds and publishes every message to the coordinator.

Each method may be called again at any time: check-ins and statuses replace the earlier ones, and reports and dropouts
have a key by which the coordinator recognises duplicates. The state machines decide what is sent and when.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from nightjar.edge_agent import __version__
from nightjar.edge_agent.core import lifecycle
from nightjar.edge_agent.core.outbox import Parcel
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.ports import Outgoing, Transport
from nightjar.wire import frame as frames
from nightjar.wire import messages, topics
from nightjar.wire.codec.codecs import to_name
from nightjar.wire.identifiers import DeviceId, Population, Sha256
from nightjar.wire.messages import CheckIn, Dropout, Query, Status, Work

MOST_CHARACTERS = 400
"""Longest reason or detail that is sent; the protocol allows 500."""

STATUS_REST_S = 1.0
"""Least time between two statuses: nobody can read a status that lasts less than a second."""

KINDS = tuple(work.value for work in Work)
"""Kinds of work that this agent can be assigned: all of them."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """What this agent tells others about itself.

    Attributes:
        runtime: TFLite runtime and version.
        rolled_back: a release of the agent that was rolled back here, with the reason; empty if there is none.
        version: of the agent.
    """

    population: Population
    device: DeviceId
    runtime: str
    cores: int
    memory_bytes: int
    emulated: bool
    rolled_back: str = ""
    version: str = __version__


class Uplink:
    """Publishes the agent's messages."""

    def __init__(
        self,
        identity: AgentIdentity,
        transport: Transport,
        outgoing: Outgoing,
        notice: Callable[[], str] = lambda: "",
    ) -> None:
        self.shards = 1
        """Number of the coordinator's ingest shards, as last announced."""
        self.refused_release = ""
        """A release that was refused before it was tried, with the reason."""
        self.status_due_at_s: float | None = None
        """When a delayed status is due; None if none is pending."""
        self._status_from_s = -math.inf
        self._notice, self._told = notice, ""
        self._identity = identity
        self._transport = transport
        self._outgoing = outgoing

    def check_in(self, held: Model | None, examples: int, task_types: tuple[str, ...]) -> None:
        """Report that the device is eligible."""
        who = self._identity
        self._publish(
            CheckIn(
                agent_version=who.version,
                runtime=who.runtime,
                program=None if held is None else Sha256(held.manifest.program.sha256),
                weights=None if held is None else Sha256(held.manifest.weights.sha256),
                version=None if held is None else held.manifest.version,
                examples=examples,
                cores=who.cores,
                memory_bytes=who.memory_bytes,
                emulated=who.emulated,
                kinds=KINDS,
                task_types=task_types,
                codecs=to_name(),
            )
        )

    def dropouts(self) -> None:
        """Send all pending dropouts; those that cannot be sent now stay in the journal."""
        for pending in self._outgoing.pending_dropouts():
            given_up = pending.dropout
            message = Dropout(
                round=given_up.round,
                attempt=given_up.attempt,
                cause=given_up.cause,
                detail=given_up.detail[:MOST_CHARACTERS],
            )
            if self._publish(message):
                self._outgoing.dropout_sent(pending.number)

    def status(self, state: lifecycle.State, now_s: float, *, at_once: bool = False) -> None:
        """Publish the retained status: the device's state and reason. Delay it if the last one is too recent.

        ``at_once`` skips the delay: the broker may have published our last will since.
        """
        if now_s < self._status_from_s and not at_once:
            self.status_due_at_s = self._status_from_s
            return
        self._status_from_s, self.status_due_at_s = now_s + STATUS_REST_S, None
        who = self._identity
        self._told = self._notice()
        status = Status(
            online=True,
            state=lifecycle.name(state),
            reason=lifecycle.reason(state)[:MOST_CHARACTERS],
            emulated=who.emulated,
            agent_version=who.version,
            rolled_back=self.refused_release[:MOST_CHARACTERS] or who.rolled_back,
            notice=self._told[:MOST_CHARACTERS],
        )
        self._transport.publish(topics.status(who.population, who.device), messages.encode(status), retain=True)

    def late_status(self, state: lifecycle.State, now_s: float) -> None:
        """Publish a delayed status, if it is due, and a new notice."""
        if self._notice() != self._told:
            self.status(state, now_s)
        if self.status_due_at_s is not None and self.status_due_at_s <= now_s:
            self.status(state, now_s)

    def report(self, parcel: Parcel, parts: tuple[int, ...]) -> None:
        """Send parts of the report in the outbox."""
        payloads = frames.publishes(self._outgoing.frame(), parcel.round, parcel.attempt)
        sent = [part for part in parts if self._transport.publish(self._topic("report"), payloads[part])]
        log.info(
            "report_sent",
            device=self._identity.device,
            round=parcel.round,
            sent_bytes=sum(len(payloads[part]) for part in sent),
            parts=f"{len(sent)} of {parcel.parts}",
        )

    def query(self, parcel: Parcel) -> None:
        """Ask which parts of a chunked report the coordinator has."""
        self._publish(Query(round=parcel.round, attempt=parcel.attempt, chunks=parcel.parts))

    def sum_answer(self, answer: bytes) -> None:
        """Send a message of a secure sum."""
        self._transport.publish(self._topic(topics.SUM_ANSWER), answer)

    def _publish(self, message: CheckIn | Dropout | Query) -> bool:
        return self._transport.publish(self._topic(messages.KINDS[type(message)]), messages.encode(message))

    def _topic(self, kind: str) -> str:
        who = self._identity
        return topics.up(who.population, who.device, kind, self.shards)
