"""A secure sum in one process: the real machines of both sides, without a network between them.

``benchmarks.secure_sum`` measures it, experiments and tests use it. Devices drop out where the caller says; everything
that is sent is kept.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from nightjar.coordinator.learning.summed import unmasked_sum
from nightjar.coordinator.rounds import secure_sum as coordinator_side
from nightjar.coordinator.rounds.secure_sum import (
    Blame,
    KeepValues,
    Refuse,
    Send,
    StepContext,
    SumPhase,
    SumSession,
    TimeUp,
    Unmask,
)
from nightjar.edge_agent.core import secure_sum as device_side
from nightjar.edge_agent.core.secure_sum import Tools, UpdateEncoded
from nightjar.wire.secure_sum import masks
from nightjar.wire.secure_sum.messages import (
    Confirmations,
    Deliveries,
    Down,
    MaskedUpdate,
    Roster,
    Survivors,
    Up,
    encode,
)
from nightjar.wire.secure_sum.primitives import Primitives
from nightjar.wire.secure_sum.terms import Terms

MessageT = TypeVar("MessageT", bound=Up | Down)


class Silent(enum.IntEnum):
    """The first message that a device does not send, because it drops out."""

    KEYS = 0
    SHARES = 1
    REPORT = 2
    CONFIRMATION = 3
    DISCLOSURE = 4
    NEVER = 5


_ANSWERS: Mapping[type[Down], Silent] = {
    Roster: Silent.SHARES,
    Deliveries: Silent.REPORT,
    Survivors: Silent.CONFIRMATION,
    Confirmations: Silent.DISCLOSURE,
}


@dataclass(frozen=True, slots=True)
class Member:
    """A simulated device."""

    enrolled: bytes  # its public key
    sign: Callable[[bytes], bytes]  # with that key
    seed: bytes  # 32 random bytes
    values: masks.Words  # (values,) uint32, its update
    silent: Silent = Silent.NEVER  # where it drops out


@dataclass(slots=True)
class Result:
    """What came of a session."""

    session: SumSession  # the coordinator's last state
    total: masks.Words | None = None  # (values,) uint32, the sum; None if the session was abandoned
    included: tuple[int, ...] = ()  # the devices in the sum
    states: dict[int, device_side.State] = field(default_factory=dict)  # last state of each device
    up: dict[int, list[Up]] = field(default_factory=dict)  # what each device sent
    down: dict[int, list[Down]] = field(default_factory=dict)  # what each device was sent
    refused: list[str] = field(default_factory=list)  # why the coordinator refused messages
    blamed: dict[int, str] = field(default_factory=dict)  # whom the coordinator blames for wrong shares, and why
    device_s: dict[int, float] = field(default_factory=dict)  # processor time of each device
    coordinator_s: float = 0.0  # processor time of the coordinator

    def up_bytes(self, number: int) -> int:
        """What a device sent beside the values of its update."""
        sent = self.up.get(number, [])
        return sum(len(encode(message)) - _value_bytes(message) for message in sent)

    def down_bytes(self, number: int) -> int:
        """What a device was sent."""
        return sum(len(encode(message)) for message in self.down.get(number, []))


def _value_bytes(message: Up) -> int:
    return len(message.values) if isinstance(message, MaskedUpdate) else 0


class _Run:
    """A session in progress."""

    def __init__(self, terms: Terms, members: Sequence[Member], primitives: Primitives, changed: MessageChange) -> None:
        self._members = members
        self._numbers = {member.enrolled: number for number, member in enumerate(members)}
        self._primitives = primitives
        self._changed = changed
        self._values: dict[int, bytes] = {}
        self._waiting: list[tuple[int, Up]] = []
        self.result = Result(coordinator_side.open_session(terms, [member.enrolled for member in members]))

    def join(self, number: int, terms: Terms) -> None:
        """A device joins."""
        member = self._members[number]
        begin_s = time.process_time()
        state, sent = device_side.join(terms, member.seed, member.enrolled, self._tools(number))
        self._sent(number, state, sent, begin_s)

    def hear(self, number: int, event: device_side.Event) -> None:
        """A device hears something, and masks its update as soon as it can."""
        begin_s = time.process_time()
        state, sent = device_side.step(self.result.states[number], event, self._tools(number))
        if isinstance(event, Deliveries) and isinstance(state, device_side.Ready):
            update = UpdateEncoded(self._members[number].values)
            state, sent = device_side.step(state, update, self._tools(number))
        self._sent(number, state, sent, begin_s)

    def tell(self, event: coordinator_side.Event, sender: bytes = b"") -> None:
        """The coordinator hears something."""
        begin_s = time.process_time()
        given = StepContext(self._primitives, sender)
        self.result.session, effects = coordinator_side.step(self.result.session, event, given)
        self.result.coordinator_s += time.process_time() - begin_s
        for effect in effects:
            match effect:
                case Send(receiver, message):
                    number = self._numbers[receiver]
                    message = self._changed(number, message)
                    self.result.down.setdefault(number, []).append(message)
                    if self._members[number].silent > _ANSWERS[type(message)]:
                        self.hear(number, message)
                case KeepValues(number, values):
                    self._values[number] = values
                case Refuse(_, reason):
                    self.result.refused.append(reason)
                case Blame(key, reason):
                    self.result.blamed[self._numbers[key]] = reason
                case Unmask():
                    self._unmask(effect)

    def finish(self) -> None:
        """Deliver what devices sent, and let the time of each phase run out when nothing more comes."""
        while self.result.session.phase not in {SumPhase.DONE, SumPhase.ABANDONED}:
            if not self._waiting:
                self.tell(TimeUp())
            while self._waiting:
                number, message = self._waiting.pop(0)
                self.tell(message, self._members[number].enrolled)

    def _tools(self, number: int) -> Tools:
        return Tools(self._primitives, self._members[number].sign)

    def _sent(self, number: int, state: device_side.State, sent: Iterable[Up], begin_s: float) -> None:
        self.result.device_s[number] = self.result.device_s.get(number, 0.0) + time.process_time() - begin_s
        self.result.states[number] = state
        for message in sent:
            message = self._changed(number, message)
            self.result.up.setdefault(number, []).append(message)
            self._waiting.append((number, message))

    def _unmask(self, plan: Unmask) -> None:
        begin_s = time.process_time()
        updates = (self._values[member] for member in plan.members)
        self.result.total = unmasked_sum(plan, updates, self._primitives)
        self.result.coordinator_s += time.process_time() - begin_s
        roster = self.result.session.roster
        self.result.included = tuple(sorted(self._numbers[roster[member]] for member in plan.members))


class MessageChange(Protocol):
    """What is sent to or by a device in place of the true message: a lie."""

    def __call__(self, number: int, message: MessageT, /) -> MessageT:
        """Return the message that is sent by or to this device instead of the true one."""


def _unchanged(_number: int, message: MessageT, /) -> MessageT:
    return message


def run(
    terms: Terms,
    members: Sequence[Member],
    primitives: Primitives,
    changed: MessageChange = _unchanged,
    told: Sequence[Terms] | None = None,
) -> Result:
    """Run a session to its end.

    ``changed`` may put lies in place of true messages, and ``told`` has the terms that follow from each device's
    orders, where these differ.
    """
    session = _Run(terms, members, primitives, changed)
    for number, member in enumerate(members):
        if member.silent > Silent.KEYS:
            session.join(number, terms if told is None else told[number])
    session.finish()
    return session.result
