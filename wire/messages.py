"""Control messages: everything that agent and coordinator send each other except reports.

They are JSON through msgspec: typed, validated, and readable with ``mosquitto_sub``. The topic gives the kind, so a
message has no tag. A receiver ignores unknown fields, so that a newer sender can add some. Times are seconds relative
to the moment of receipt, because a device's clock may be wrong.

Messages that a device obeys are signed: an :class:`Announcement` or an :class:`Assignment` is sent as JSON text inside
a :class:`Sealed`, so that exactly the signed text is verified.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Annotated

import msgspec

from nightjar.wire.errors import LocalProtocolError, RemoteProtocolError
from nightjar.wire.identifiers import Sha256
from nightjar.wire.secure_sum.order import SumOrder

MAX_CONTROL_BYTES = 16 * 1024
"""A larger control message is refused without parsing it."""

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
"""Most key changes that a device can catch up on; after more, its key must be set by hand."""


class Verdict(enum.Enum):
    """The coordinator's answer to a report; every verdict settles the report for good."""

    ACCEPTED = "accepted"
    """Stored durably; it will be counted if the round commits."""
    DUPLICATE = "duplicate"
    """A report with the same (round, device, attempt) was accepted before; it counts once."""
    LATE = "late"
    """The round was over."""
    INVALID = "invalid"
    """Not counted; ``code`` says why."""

    @property
    def counted(self) -> bool:
        """Whether the coordinator counts the report, by this receipt or by one before that was lost."""
        return self in {Verdict.ACCEPTED, Verdict.DUPLICATE}


class RejectionReason(enum.Enum):
    """Why a check-in did not join the pool."""

    NO_TASK = "no-task"
    ROUND_IN_PROGRESS = "round-in-progress"
    NOT_SELECTED = "not-selected"
    TOO_FEW_DEVICES = "too-few-devices"
    TOO_FEW_EXAMPLES = "too-few-examples"
    OUTDATED_AGENT = "outdated-agent"
    NO_PLUGIN = "no-plugin"
    BAD_EXAMPLES = "bad-examples"
    TOOK_PART_LATELY = "took-part-lately"
    BLOCKED = "blocked"


class DropoutCause(enum.Enum):
    """Why a selected device dropped out. The coordinator detects the last two; the device does not report them."""

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
    BAD_EXAMPLES = "bad-examples"
    OUT_OF_TIME = "out-of-time"
    RESTARTED = "restarted"
    UNTRUSTED = "untrusted"
    OUTSIDE_LIMITS = "outside-limits"
    CONNECTION_LOST = "connection-lost"
    SILENT = "silent"


class CheckIn(msgspec.Struct, frozen=True, kw_only=True):
    """Device to coordinator: I am eligible, and this is what I have. Contains no typed text."""

    agent_version: _Text
    runtime: _Text
    """TFLite runtime and version, such as ``ai-edge-litert 2.3.0``."""
    program: _Hash | None = None
    weights: _Hash | None = None
    version: _Count | None = None
    """Version of the model that the device holds; the same weights can be several versions."""
    examples: _Count
    """Examples that could be trained on."""
    cores: _Count = 1
    memory_bytes: _Count = 0
    emulated: bool = False
    kinds: Annotated[tuple[Annotated[str, msgspec.Meta(max_length=32)], ...], msgspec.Meta(max_length=16)] = ("train",)
    """Kinds of work that the agent can be assigned; an agent that sends none can only train."""
    task_types: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[a-z0-9_-]+(:[a-z-]+)?\Z")], ...],
        msgspec.Meta(max_length=16),
    ] = ("keyboard",)
    """Task types that the agent has plug-ins for; after a colon, why the device's examples of it cannot be used."""
    codecs: Annotated[
        tuple[Annotated[str, msgspec.Meta(max_length=64, pattern=r"^[a-z0-9_-]+\Z")], ...], msgspec.Meta(max_length=16)
    ] = ()
    """Codecs that the agent has beside dense-f32, dense-f16, topk-8 and topk-4, which every agent has."""


class CodecChoice(msgspec.Struct, frozen=True, kw_only=True):
    """How the coordinator wants the update encoded."""

    name: _Text = "topk-4"
    density: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.01
    """Share of the coordinates that a top-k codec sends."""


class TrainingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a device does with its examples."""

    learning_rate: Annotated[float, msgspec.Meta(gt=0, le=1000)]
    clip_norm: Annotated[float, msgspec.Meta(gt=0, le=1e9)]
    """Largest global L2 norm of a batch's gradient."""
    local_epochs: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    max_steps: Annotated[int, msgspec.Meta(ge=1, le=10**6)] = 10**6
    momentum: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0
    """Momentum coefficient: share of the last step that is added to each step."""
    proximal: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 0.0
    """Strength of the pull back to the round's weights: mu of FedProx."""
    full_batch: bool = False
    """FedSGD: one step along the mean gradient of all examples, instead of one for each batch."""
    evaluation_share: Annotated[float, msgspec.Meta(ge=0, le=0.5)] = 0.0
    """Share of the messages that is held out; the model is evaluated on them before and after training."""
    keep_share: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """A device that must stop after at least this share of its steps reports what it has."""
    keystrokes: bool = False
    """The coordinator takes keyboard evaluations: a keyboard counts on the held-out messages what it saves."""


class Work(enum.Enum):
    """What a device is assigned to do."""

    TRAIN = "train"
    """Learn from its messages, and report the update."""
    EVALUATE = "evaluate"
    """Evaluate the model on the held-out messages, and report the figures."""


class PrivacyTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The differential privacy that a task promises a device; signed with the assignment, and kept by the device."""

    epsilon: Annotated[float, msgspec.Meta(gt=0, le=1e6)]
    """Epsilon after all rounds, however often the device takes part."""
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    rounds: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    """Noised rounds that the task ends after."""
    separation: Annotated[int, msgspec.Meta(ge=1, le=2**31)]
    """A device takes part at most once in any so many noised rounds in a row."""
    step: _Count
    """Noised rounds of the task so far."""


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: you were selected."""

    task: _Text
    round: _Count
    attempt: _Attempt
    version: _Count
    """Model version that the delta must be relative to."""
    manifest: _Hash
    codec: CodecChoice
    plan: TrainingPlan
    report_deadline_s: _Seconds
    work: Work = Work.TRAIN
    """Kind of work; only a kind that the agent's check-in listed."""
    minimum: Annotated[int, msgspec.Meta(ge=1, le=2**53)] = 1
    """Fewest reports in a published mean."""
    secure_sum: SumOrder | None = None
    """How the updates are summed, if the coordinator learns only their sum; ``codec`` then means nothing."""
    privacy: PrivacyTerms | None = None
    """The differential privacy of the task; None if it has none."""
    number: _Count = 0
    """Number of the order; a device refuses a lower number than it has already seen for the task."""
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
    """Device to coordinator: I have no receipt for my chunked report; which chunks do you have?"""

    round: _Count
    attempt: _Attempt
    chunks: Annotated[int, msgspec.Meta(ge=1, le=2**16 - 1)]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: these chunks of your report are missing (numbered from 0)."""

    round: _Count
    attempt: _Attempt
    chunks: Annotated[tuple[Annotated[int, msgspec.Meta(ge=0, le=2**16 - 1)], ...], msgspec.Meta(max_length=2**16)]


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """Coordinator to device: the outcome of your report. A PUBACK is not a receipt."""

    round: _Count
    attempt: _Attempt
    verdict: Verdict
    code: _Text = ""
    """Stable error code of an INVALID report (docs/wire-format.md)."""
    detail: _Text = ""
    retry_after_s: _Seconds = 0.0
    """When to check in again (pace steering)."""


class Canary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A version that a share of the devices tries before the others (:func:`nightjar.wire.shares.is_canary`)."""

    version: _Count
    manifest: _Hash
    share: Annotated[float, msgspec.Meta(gt=0, le=1)]


class Succession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of the key that signs orders (:func:`nightjar.wire.signatures.succession_bytes`)."""

    key: _Key
    signer: _Key
    """The key that signed the change: the previous key, or the recovery key."""
    signature: _Signature
    number: _Count = 0
    """Counts the changes signed by the recovery key, of which the highest is valid; 0 if the previous key signed."""


class Announcement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Retained: the current model, and the coordinator's ingest shards and keys."""

    version: _Count
    manifest: _Hash
    shards: _Shards = 1
    """Number of ingest shards. A device starts with 1, because the coordinator always listens to shard 0."""
    key: _Key = ""
    """The coordinator's public key, for devices without a configured key; empty if orders are not signed."""
    recovery: _Key = ""
    """The recovery key, a public key whose owner may sign a new ``key``; a device keeps the first one."""
    successions: Annotated[tuple[Succession, ...], msgspec.Meta(max_length=MOST_SUCCESSIONS)] = ()
    """The chain of key changes that led to ``key``, oldest first."""
    task: _Text = ""
    """Task of the model; ``number`` is compared with the numbers of this task's orders."""
    number: _Count = 0
    signed_s: _Moment = 0.0
    not_after_s: _Moment = 0.0
    canary: Canary | None = None
    check_in_within_s: _Seconds | None = None
    """Set for a new version whose round has room for every device: devices that rest after a report, or wait to be
    selected, check in within this time, each at a random moment. None leaves the check-in times as they are."""
    recall: _Count = 0
    """Grows when a task is created or resumed: devices that rest because no task wanted them check in soon."""


class Sealed(msgspec.Struct, frozen=True, kw_only=True):
    """The signed envelope of an announcement or an assignment."""

    signed: str
    """The message as JSON text."""
    signature: _Signature = ""
    """Signature of the topic and the text (:func:`nightjar.wire.signatures.signed_bytes`); empty if unsigned."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Retained status of a device; with ``online`` false, also its last will."""

    online: bool
    state: _Text = ""
    """Lifecycle state, such as ``training``."""
    reason: _Text = ""
    """Why the device is in this state, such as ``not charging``."""
    emulated: bool = False
    agent_version: _Text = ""
    """The agent that runs; empty in a last will."""
    rolled_back: _Text = ""
    """The newest agent release rolled back or refused on this device, and why: ``0.2.0: not up within 180 s``."""
    notice: _Text = ""
    """What its people should know though it goes on, such as a damaged file that it put away; empty if nothing."""


class _ArrivedStatus(Status, frozen=True, kw_only=True):
    """A status as it arrives, from older agents, too."""

    taken_back: _Text = ""
    """What older agents call ``rolled_back``."""

    def status(self) -> Status:
        fields = {name: getattr(self, name) for name in Status.__struct_fields__}
        return Status(**{**fields, "rolled_back": self.rolled_back or self.taken_back})


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
"""Kinds that are sent in a :class:`Sealed`."""

_SEALED = msgspec.json.Decoder(Sealed)
_DECODERS = {
    kind: msgspec.json.Decoder(message_type) for kind, message_type in {**TYPES, "status": _ArrivedStatus}.items()
}


def encode(message: Message, sign: Callable[[str], str] = lambda _text: "") -> bytes:
    """Encode a message as JSON.

    ``sign`` returns the signature of a text; it is called for messages that are sent in a :class:`Sealed`.

    >>> encode(Query(round=1, attempt=1, chunks=2))
    b'{"round":1,"attempt":1,"chunks":2}'

    Raises:
        LocalProtocolError: the message is larger than :data:`MAX_CONTROL_BYTES`.
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
    """Decode a message from the network, without verifying its signature.

    The kind is the last level of its topic, or ``announce`` or ``status`` for these two topics.

    Raises:
        RemoteProtocolError: the kind is unknown, the payload is too large or not JSON, a field is missing, or a value
            is out of range.
    """
    decoder = _DECODERS.get(kind)
    if decoder is None:
        msg = f"expected one of the message kinds {sorted(_DECODERS)}, got {kind[:80]!r}"
        raise RemoteProtocolError(msg, code="kind")
    if len(data) > MAX_CONTROL_BYTES:
        msg = f"a control message may have {MAX_CONTROL_BYTES} bytes, got {len(data)}"
        raise RemoteProtocolError(msg, code="too-large")
    try:
        message: Message = decoder.decode(sealed(data).signed if kind in SIGNED else data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"not a {kind} message: {error}"
        raise RemoteProtocolError(msg) from error
    return message.status() if isinstance(message, _ArrivedStatus) else message


def sealed(data: bytes) -> Sealed:
    """The text and the signature of a message that is sent in a :class:`Sealed`.

    Raises:
        RemoteProtocolError: the data is not a :class:`Sealed`.
    """
    try:
        return _SEALED.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        msg = f"expected a text and its signature: {error}"
        raise RemoteProtocolError(msg) from error
