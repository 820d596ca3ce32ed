"""What the agent and its training process say to each other over pipes.

An errand goes in; if the process asks for the residual, with an empty message, that goes in too; an outcome comes out.
Each is preceded by its length. Both ends are this program, so a message is the dataclasses themselves in MessagePack,
arrays as their bytes in this machine's order. Nothing of it is ever stored, and nothing of it comes from the network.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from edge_agent.core.training import TrainingStopped
from edge_agent.ports import Model
from edge_agent.session import Produced
from wire import errors
from wire.errors import LocalProtocolError, NightjarError, RemoteProtocolError
from wire.messages import Assignment


@dataclass(frozen=True, slots=True)
class Errand:
    """A session's task without its residual.

    Attributes:
        assignment: what was asked for.
        model: the base, already on the device.
        texts: the messages.
        seed: of the session.
        personal: where a personal model is kept.
    """

    assignment: Assignment
    model: Model
    texts: Sequence[str]
    seed: int
    personal: Path | None = None


class TrainerFault(msgspec.Struct, frozen=True):
    """An error of :mod:`wire.errors`, or of any other kind without its text: that may quote what was typed."""

    kind: str
    text: str
    code: str


class TrainerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of the three, and the most memory that the process ever had."""

    produced: Produced | None = None
    stopped: TrainingStopped | None = None
    fault: TrainerFault | None = None
    peak_bytes: int


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tobytes()
    if isinstance(value, Path):
        return str(value)
    msg = f"{type(value).__name__} cannot be sent to the training process"
    raise LocalProtocolError(msg)


def _decode(kind: Any, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    _, dtype = typing.get_args(kind)  # npt.NDArray[x] is ndarray[shape, dtype[x]]
    return np.frombuffer(value, typing.get_args(dtype)[0])


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_encode)
_ERRANDS = msgspec.msgpack.Decoder(Errand, dec_hook=_decode)
_OUTCOMES = msgspec.msgpack.Decoder(TrainerOutcome, dec_hook=_decode)


def encode(message: Errand | TrainerOutcome) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def decode_errand(data: bytes) -> Errand:
    """Inverse of :func:`encode`."""
    return _ERRANDS.decode(data)


def decode_outcome(data: bytes) -> TrainerOutcome:
    """Inverse of :func:`encode`.

    Raises:
        msgspec.MsgspecError: cut short, because the process died while it was writing.
    """
    return _OUTCOMES.decode(data)


def fault_of(error: Exception) -> TrainerFault:
    """What to say of an error.

    >>> fault_of(KeyError("what was typed")).text
    'unforeseen KeyError'
    """
    if isinstance(error, NightjarError):
        return TrainerFault(type(error).__name__, str(error), error.code)
    return TrainerFault(LocalProtocolError.__name__, f"unforeseen {type(error).__name__}", LocalProtocolError.code)


def error_of(fault: TrainerFault) -> NightjarError:
    """Inverse of :func:`fault_of`.

    >>> error_of(TrainerFault("RemoteProtocolError", "no program", "program")).code
    'program'
    """
    kind: type[NightjarError] = getattr(errors, fault.kind)
    if issubclass(kind, RemoteProtocolError):
        return kind(fault.text, code=fault.code)
    return kind(fault.text)
