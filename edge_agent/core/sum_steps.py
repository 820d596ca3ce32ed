"""The steps of a device's secure sum as requests and answers in bytes, so that another process can make them.

The driver keeps the state without reading it. :mod:`nightjar.edge_agent.core.secure_sum` is the machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable

import msgspec
import numpy as np

from nightjar.edge_agent.core import secure_sum
from nightjar.edge_agent.core.secure_sum import Aborted, ListConfirmed, State, Tools, UpdateEncoded
from nightjar.edge_agent.core.stored import ABORTED
from nightjar.wire.cohorts import too_close
from nightjar.wire.secure_sum.messages import decode_down, encode, members_of, parts
from nightjar.wire.secure_sum.terms import Terms

MEMBER_BYTES = 8
READY = "ready"
BEFORE_REPORT = frozenset({"joined", "sharing", READY})
"""States of the machine by name: before the masked update is in the outbox, the session ends with the training."""

_STATE: msgspec.msgpack.Decoder[State] = msgspec.msgpack.Decoder(State)


class JoinSum(msgspec.Struct, frozen=True, tag=True):
    """Join a session under these terms."""

    terms: Terms


class HearQuestion(msgspec.Struct, frozen=True, tag=True):
    """Answer the coordinator's message.

    Attributes:
        confirmed: whose sums on the same weights the device agreed to open before (:func:`cohort_of`).
        least: fewest devices by which another cohort differs from one of these.
    """

    state: bytes
    question: bytes
    confirmed: tuple[bytes, ...] = ()
    least: int = 1


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
        cohort: whose sum the device has agreed to open; empty unless this step did.
    """

    phase: str
    state: bytes
    sent: tuple[bytes, ...] = ()
    reason: str = ""
    cohort: bytes = b""


def cohort_of(enrolled: Iterable[bytes]) -> bytes:
    """A set of devices, by a short hash of each one's enrolled key."""
    return b"".join(sorted(hashlib.sha256(key).digest()[:MEMBER_BYTES] for key in enrolled))


def subtractable(cohort: bytes, confirmed: Iterable[bytes], least: int) -> str:
    """Why the sum of a cohort must not be opened: another one, less this, would be a few devices' updates.

    >>> a, b, c = (cohort_of([name]) for name in (b"a", b"b", b"c"))
    >>> subtractable(a + b, [a + b, b + c], 2)
    ''
    """
    own = frozenset(parts(cohort, MEMBER_BYTES))
    close = too_close(own, (frozenset(parts(other, MEMBER_BYTES)) for other in confirmed), least)
    if close is None:
        return ""
    return (
        f"its devices differ by {len(own ^ close)} from those of an earlier sum on the same weights: expected the same "
        f"devices, or {least} others"
    )


def advance(request: SumRequest, tools: Tools, enrolled: bytes, draw_seed: Callable[[], bytes]) -> SumStep:
    """Make a step.

    ``enrolled`` is the device's enrolled key, public; ``draw_seed`` returns 32 random bytes.

    Raises:
        IllegalEvent: the machine has no such row.
        RemoteProtocolError: the question is no message.
    """
    cohort = b""
    match request:
        case JoinSum(terms):
            state: State
            state, sent = secure_sum.join(terms, draw_seed(), enrolled, tools)
        case HearQuestion(held, question, confirmed, least):
            before = _STATE.decode(held)
            state, sent = secure_sum.step(before, decode_down(question), tools)
            if isinstance(state, ListConfirmed) and not isinstance(before, ListConfirmed):
                reporting = members_of(state.survivors, state.place.cohort)
                cohort = cohort_of(state.place.enrolled[member] for member in reporting)
                why = subtractable(cohort, confirmed, least)
                if why:
                    return SumStep(ABORTED, b"", reason=why)
        case MaskWords(held, words):
            update = UpdateEncoded(np.frombuffer(words, "<u4").astype(np.uint32))
            state, sent = secure_sum.step(_STATE.decode(held), update, tools)
    if isinstance(state, Aborted):
        return SumStep(ABORTED, b"", reason=state.reason)
    phase = str(state.__struct_config__.tag)
    return SumStep(phase, msgspec.msgpack.encode(state), tuple(encode(message) for message in sent), cohort=cohort)
