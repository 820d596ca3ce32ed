"""Control messages: what agent and coordinator say to each other beside reports.

JSON through msgspec: typed, validated, and readable with ``mosquitto_sub``. The topic says the kind, so a message has
no tag of its own. Fields that a receiver does not know are ignored, so that a newer sender can add some. Times are
seconds relative to the moment of receipt, because a device's clock may be wrong.

What a device obeys is signed: an :class:`Announcement` and an :class:`Assignment` travel as the text of their JSON
within a :class:`Sealed`, so that what is verified is the very text that was signed.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Annotated

import msgspec

from wire.errors import LocalProtocolError, RemoteProtocolError
from wire.identifiers import Sha256

MAX_CONTROL_BYTES = 16 * 1024
"""A control message above this is refused unread."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_Attempt = Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]
_Seconds = Annotated[float, msgspec.Meta(ge=0, le=366 * 86400)]
_Shards = Annotated[int, msgspec.Meta(ge=1, le=99_999)]
_Text = Annotated[str, msgspec.Meta(max_length=500, pattern="^[^\\x00]*\\Z")]  # PostgreSQL stores no NUL
_Hash = Annotated[Sha256, msgspec.Meta(pattern="^[0-9a-f]{64}\\Z")]
_Key = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{64})?\\Z")]
_Signature = Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{128})?\\Z")]


_Moment = Annotated[float, msgspec.Meta(ge=0, le=2**53)]
"""Seconds since 1970 UTC."""
MOST_SUCCESSIONS = 16
"""Key changes that a device can have missed; who missed more is told by hand."""


class Verdict(enum.Enum):
    """The coordinator's answer to a report; every one of them settles the report for good."""

    ACCEPTED = "accepted"
    """Stored durably; it will be counted if the round commits."""
    DUPLICATE = "duplicate"
    """The same (round, device, attempt) was accepted before; counted once."""
    LATE = "late"
    """The round was over."""
    INVALID = "invalid"
    """Not counted; ``code`` says why."""


class RejectionReason(enum.Enum):
    """Why a check-in did not join the pool."""

    NO_TASK = "no-task"
    ROUND_IN_PROGRESS = "round-in-progress"
    NOT_SELECTED = "not-selected"
    TOO_FEW_DEVICES = "too-few-devices"
    TOO_FEW_EXAMPLES = "too-few-examples"
    OUTDATED_AGENT = "outdated-agent"
    TOOK_PART_LATELY = "took-part-lately"
    BLOCKED = "blocked"


class DropoutCause(enum.Enum):
    """Why a selected device gave up. The last two are found by the coordinator, not said by the device."""

    UNPLUGGED = "unplugged"
    IN_USE = "in-use"
    METERED = "metered"
    TOO_HOT = "too-hot"
    LOW_BATTERY = "low-battery"
    UNDER_VOLTAGE = "under-voltage"
    QUIET_HOURS = "quiet-hours"
    LOW_RESOURCES = "low-resources"
    PAUSED = "paused"
    FETCH_FAILED = "fetch-failed"
    TRAINING_FAILED = "training-failed"
    DIVERGED = "diverged"
    NO_EXAMPLES = "no-examples"
    OUT_OF_TIME = "out-of-time"
    RESTARTED = "restarted"
    UNTRUSTED = "untrusted"
    OUTSIDE_LIMITS = "outside-limits"
    CONNECTION_LOST = "connection-lost"
    SILENT = "silent"


class CheckIn(msgspec.Struct, frozen=True, kw_only=True):
    """Device to coordinator: I am eligible; this is what I hold. No text."""

    agent_version: _Text
    runtime: _Text
    """TFLite runtime and version, such as ``ai-edge-litert 2.3.0``."""
    program: _Hash | None = None
    weights: _Hash | None = None
    examples: _Count
    """Stored messages that could be trained on."""
    cores: _Count = 1
    memory_bytes: _Count = 0
    emulated: bool = False
    kinds: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=32)], ...], msgspec.Meta(max_length=16)] = ("train",)
    """What it can be assigned to do; an agent that does not say so can only train."""


class CodecChoice(msgspec.Struct, frozen=True, kw_only=True):
    """How the coordinator wants the update encoded."""

    name: _Text = "topk-4"
    density: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.01
    """Share of the coordinates that a top-k codec sends."""
    error_feedback: bool = False
    mask: _Hash | None = None
    """The artifact with the coordinates of a masked codec."""


class TrainingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a device does with its examples."""

    learning_rate: Annotated[float, msgspec.Meta(gt=0, le=1000)]
    clip_norm: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    """Largest global L2 norm of a batch's gradient."""
    local_epochs: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    max_steps: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 10**6
    momentum: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Share of the last step that each step goes again."""
    proximal: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0
    """Pull back to the weights of the round: mu of FedProx."""
    """Learn from a sample of the vocabulary at each step: faster, and a little less exact."""
    evaluation_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0
    """Share of the messages that are not trained on; the model is tried on them before and after."""
    keep_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """A device that must stop after at least this share of its steps reports what it has."""


class Work(enum.Enum):
    """What a device is assigned to do."""

    TRAIN = "train"
    """Learn from its messages, and report the update."""
    EVALUATE = "evaluate"
    """Try the model on its held-out messages, and report the figures."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: you were selected."""

    task: _Text
    round: _Count
    attempt: _Attempt
    version: _Count
    """Model version that the delta must be taken against."""
    manifest: _Hash
    codec: CodecChoice
    plan: TrainingPlan
    report_deadline_s: _Seconds
    work: Work = Work.TRAIN
    """Only asked of agents whose check-in said that they can."""
    minimum: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 1
    """No mean of fewer reports is published."""
    number: _Count = 0
    """Of what the coordinator wanted when it said this; a device refuses a lower one than it has seen of the task."""
    signed_s: _Moment = 0.0
    not_after_s: _Moment = 0.0


class Rejection(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: not now; come back after the retry window (pace steering)."""

    reason: RejectionReason
    retry_after_s: _Seconds
    detail: _Text = ""


class Dropout(msgspec.Struct, frozen=True, kw_only=True):
    """Device to coordinator: I was selected and must stop."""

    round: _Count
    attempt: _Attempt
    cause: DropoutCause
    detail: _Text = ""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Device to coordinator: no receipt came for my chunked report; what do you have of it?"""

    round: _Count
    attempt: _Attempt
    chunks: Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: these chunks of your report are missing (numbered from 0)."""

    round: _Count
    attempt: _Attempt
    chunks: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)], ...], msgspec.Meta(max_length=2**16)]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: what became of your report. A PUBACK is not a receipt."""

    round: _Count
    attempt: _Attempt
    verdict: Verdict
    code: _Text = ""
    """Stable error code of an INVALID report (docs/wire-format.md)."""
    detail: _Text = ""
    retry_after_s: _Seconds = 0.0
    """When to check in again (pace steering)."""


class Canary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version that a share of the devices tries before all others (:func:`wire.canary.is_canary`)."""

    version: _Count
    manifest: _Hash
    share: Annotated[float, msgspec.Meta(gt=0, le=1)]


class Succession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Orders are signed by another key from now on (:func:`wire.signatures.succession_bytes`)."""

    key: _Key
    signer: _Key
    """The key before, or the recovery key."""
    signature: _Signature
    number: _Count = 0
    """Of a recovery key's statements the highest counts; 0 if the key before signed."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Retained: the current model, and how the coordinator listens."""

    version: _Count
    manifest: _Hash
    shards: _Shards = 1
    """Ingest shards. A device begins with 1, because shard 0 is always listened to."""
    key: _Key = ""
    """The coordinator's public key, for devices that were given none; empty if it signs nothing."""
    recovery: _Key = ""
    """A public key whose owner may name another ``key``; a device keeps the first one."""
    successions: Annotated[tuple[Succession, ...], msgspec.Meta(max_length=MOST_SUCCESSIONS)] = ()
    """How ``key`` came to be, oldest first."""
    task: _Text = ""
    """Whose model it is: ``number`` is compared with those of its assignments."""
    number: _Count = 0
    signed_s: _Moment = 0.0
    not_after_s: _Moment = 0.0
    canary: Canary | None = None
    check_in_within_s: _Seconds | None = None
    """Said of a new version whose round has room for everybody: devices that rest after a report, or wait to be
    selected, check in within this time, each at a random moment. Else everybody comes when told to."""


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """How an announcement or an assignment travels."""

    signed: str
    """The message, as JSON."""
    signature: _Signature = ""
    """Of the topic and that text (:func:`wire.signatures.signed_bytes`); empty if the coordinator signs nothing."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Retained per device, and its last will (``online`` false)."""

    online: bool
    state: _Text = ""
    """Lifecycle state, such as ``training``."""
    reason: _Text = ""
    """Why it is in this state, such as ``not charging``."""
    emulated: bool = False
    taken_back: _Text = ""
    """The newest release of the agent that did not work here, and why, such as ``0.2.0: not up within 180 s``."""


Message = CheckIn | Assignment | Rejection | Dropout | Query | Missing | Receipt | Announcement | Status

TYPES: dict[str, type[Message]] = {
    "check-in": CheckIn,
    "assignment": Assignment,
    "rejection": Rejection,
    "dropout": Dropout,
    "query": Query,
    "missing": Missing,
    "receipt": Receipt,
    "announce": Announcement,
    "status": Status,
}
"""Topic kind -> message type."""

KINDS: dict[type[Message], str] = {message_type: kind for kind, message_type in TYPES.items()}

SIGNED = frozenset({"announce", "assignment"})
"""Kinds that travel sealed."""

_SEALED = msgspec.json.Decoder(Sealed)
_DECODERS = {kind: msgspec.json.Decoder(message_type) for kind, message_type in TYPES.items()}


def encode(message: Message, sign: Callable[[str], str] = lambda _text: "") -> bytes:
    """A message as JSON.

    >>> encode(Query(round=1, attempt=1, chunks=2))
    b'{"round":1,"attempt":1,"chunks":2}'

    Args:
        message: what is said.
        sign: gives the signature of a text; asked if the message is of a kind that travels sealed.

    Raises:
        LocalProtocolError: larger than :data:`MAX_CONTROL_BYTES`.
    """
    data = msgspec.json.encode(message)
    if KINDS[type(message)] in SIGNED:
        text = data.decode()
        data = msgspec.json.encode(Sealed(signed=text, signature=sign(text)))
    if len(data) > MAX_CONTROL_BYTES:
        msg = f"a control message may have {MAX_CONTROL_BYTES} bytes, this {type(message).__name__} has {len(data)}"
        raise LocalProtocolError(msg)
    return data


def decode(kind: str, data: bytes) -> Message:
    """Read a message that came from the network; who signed it, if it travels sealed, is not looked at.

    Args:
        kind: last level of its topic (``announce`` and ``status`` for those topics).
        data: the payload.

    Raises:
        RemoteProtocolError: unknown kind, too large, not JSON, a missing field or a value out of range.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        msg = f"expected one of the message kinds {sorted(_DECODERS)}, got {kind[:80]!r}"
        raise RemoteProtocolError(msg, code="kind")
    if len(data) > MAX_CONTROL_BYTES:
        msg = f"a control message may have {MAX_CONTROL_BYTES} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="too-large")
    try:
        return decoder.decode(sealed(data).signed if kind in SIGNED else data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not a {kind} message: {error}"
        raise RemoteProtocolError(msg) from error


def sealed(data: bytes) -> Sealed:
    """The text and the signature of a message that travels sealed.

    Raises:
        RemoteProtocolError: it does not.
    """
    try:
        return _SEALED.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"expected a text and its signature: {error}"
        raise RemoteProtocolError(msg) from error
