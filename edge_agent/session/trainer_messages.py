"""The messages between the agent and its training process, which communicate over pipes.

The agent sends the task of a session, and the process answers with an outcome. Each message is preceded by its length.
Both ends are the same program, so a message is the dataclass in MessagePack, with arrays as raw bytes in this machine's
byte order. Messages are never stored, and none comes from the network.
"""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from nightjar.edge_agent.core.faults import Fault
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.session.task import Produced, SessionTask
from nightjar.wire.errors import LocalProtocolError


class TrainerOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of ``produced``, ``stopped`` and ``fault``, and the peak memory of the process."""

    produced: Produced | None = None
    stopped: TrainingStopped | None = None
    fault: Fault | None = None
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
_TASKS = msgspec.msgpack.Decoder(SessionTask, dec_hook=_decode)
_OUTCOMES = msgspec.msgpack.Decoder(TrainerOutcome, dec_hook=_decode)


def encode(message: SessionTask | TrainerOutcome) -> bytes:
    """Encode a message."""
    return _ENCODER.encode(message)


def decode_task(data: bytes) -> SessionTask:
    """Inverse of :func:`encode`."""
    return _TASKS.decode(data)


def decode_outcome(data: bytes) -> TrainerOutcome:
    """Inverse of :func:`encode`.

    Raises:
        msgspec.MsgspecError: the message is truncated, because the process died while it was writing.
    """
    return _OUTCOMES.decode(data)
