"""The messages between the agent and the suggester, one JSON object a line, over a pair of sockets.

Both ends are the same program, and no other process has them. None holds typed text.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nightjar.edge_agent.core.faults import Fault
from nightjar.edge_agent.core.stored import Caps
from nightjar.edge_agent.model import Model
from nightjar.wire.errors import LocalProtocolError


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The first message: what the suggester serves."""

    device: str
    emulated: bool
    data_dir: Path
    caps: Caps


class UseModel(msgspec.Struct, frozen=True, tag=True):
    """Suggest with this model, or with its new personal weights; answered by :class:`ModelUsed`."""

    model: Model


class ModelUsed(msgspec.Struct, frozen=True, tag=True):
    """The model of a hash is in use; or why it cannot be used."""

    model: str
    fault: Fault | None = None


class Forget(msgspec.Struct, frozen=True, tag=True):
    """All typed text was deleted: forget it and what was learned from it."""


class WipeAsked(msgspec.Struct, frozen=True, tag=True):
    """The person asked on the page to delete everything; answered by :class:`WipeDone`, after :class:`Forget`."""


class WipeDone(msgspec.Struct, frozen=True, tag=True):
    """Everything is deleted; or why it is not."""

    fault: Fault | None = None


ToSuggester = Begin | UseModel | Forget | WipeDone
ToAgent = ModelUsed | WipeAsked


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    msg = f"{type(value).__name__} cannot be sent to the suggester"
    raise LocalProtocolError(msg)


_ENCODER = msgspec.json.Encoder(enc_hook=_encode)


def send(line: socket.socket, message: ToSuggester | ToAgent) -> None:
    """Send a message.

    Raises:
        OSError: the other process is gone.
    """
    line.sendall(_ENCODER.encode(message) + b"\n")


def _decode(kind: Any, value: Any) -> Any:
    return kind(value)


_TO_SUGGESTER: msgspec.json.Decoder[ToSuggester] = msgspec.json.Decoder(ToSuggester, dec_hook=_decode)
_TO_AGENT: msgspec.json.Decoder[ToAgent] = msgspec.json.Decoder(ToAgent)


def from_agent(line: socket.socket) -> Iterator[ToSuggester]:
    """The agent's messages, until it ends."""
    with line.makefile("rb") as lines:
        yield from map(_TO_SUGGESTER.decode, lines)


def from_suggester(line: socket.socket) -> Iterator[ToAgent]:
    """The suggester's messages, until it ends.

    Raises:
        OSError: it was killed.
        MsgspecError: it was killed in the middle of a message.
    """
    with line.makefile("rb") as lines:
        yield from map(_TO_AGENT.decode, lines)
