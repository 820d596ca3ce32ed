"""The steps of a device's secure sum as requests and answers in bytes, so that another process can make them.

The driver keeps the state without reading it. :mod:`nightjar.edge_agent.core.secure_sum` is the machine.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from nightjar.edge_agent.core import secure_sum
from nightjar.edge_agent.core.secure_sum import Aborted, State, Tools, UpdateEncoded
from nightjar.edge_agent.core.stored import ABORTED
from nightjar.wire.secure_sum.messages import decode_down, encode
from nightjar.wire.secure_sum.terms import Terms

READY = "ready"
BEFORE_REPORT = frozenset({"joined", "sharing", READY})
"""States of the machine by name: before the masked update is in the outbox, the session ends with the training."""

_STATE: msgspec.msgpack.Decoder[State] = msgspec.msgpack.Decoder(State)


class JoinSum(msgspec.Struct, frozen=True, tag=True):
    """Join a session under these terms."""

    terms: Terms


class HearQuestion(msgspec.Struct, frozen=True, tag=True):
    """Answer the coordinator's message."""

    state: bytes
    question: bytes


class MaskWords(msgspec.Struct, frozen=True, tag=True):
    """Mask the device's contribution: (values,) little-endian uint32."""

    state: bytes
    words: bytes


SumRequest = JoinSum | HearQuestion | MaskWords


class SumStep(msgspec.Struct, frozen=True):
    """A step of the machine.

    Attributes:
        state: the new state; empty if nothing of it is needed any more.
        reason: why the device answers no more, in words; empty if it does.
    """

    phase: str
    state: bytes
    sent: tuple[bytes, ...] = ()
    reason: str = ""


def advance(request: SumRequest, tools: Tools, enrolled: bytes, draw_seed: Callable[[], bytes]) -> SumStep:
    """Make a step.

    ``enrolled`` is the device's enrolled key, public; ``draw_seed`` returns 32 random bytes.

    Raises:
        IllegalEvent: the machine has no such row.
        RemoteProtocolError: the question is no message.
    """
    match request:
        case JoinSum(terms):
            state: State
            state, sent = secure_sum.join(terms, draw_seed(), enrolled, tools)
        case HearQuestion(held, question):
            state, sent = secure_sum.step(_STATE.decode(held), decode_down(question), tools)
        case MaskWords(held, words):
            update = UpdateEncoded(np.frombuffer(words, "<u4").astype(np.uint32))
            state, sent = secure_sum.step(_STATE.decode(held), update, tools)
    if isinstance(state, Aborted):
        return SumStep(ABORTED, b"", reason=state.reason)
    phase = str(state.__struct_config__.tag)
    return SumStep(phase, msgspec.msgpack.encode(state), tuple(encode(message) for message in sent))
