"""The state of a server optimizer as bytes, between two rounds."""

from __future__ import annotations

import numpy as np

from coordinator.learning.strategies.server_optimizer import State


def state_to_bytes(name: str, state: State) -> bytes:
    """A state as stored: the strategy's name, a line feed, the vectors as little-endian float64."""
    return _head(name) + state.astype("<f8").tobytes()


def state_from_bytes(data: bytes, name: str, first: State) -> State:
    """Inverse of :func:`state_to_bytes`.

    >>> kept = state_to_bytes("fedavgm", np.array([[3.0]]))
    >>> state_from_bytes(kept, "fedavgm", np.zeros((1, 1))).tolist()
    [[3.0]]
    >>> state_from_bytes(kept, "fedadagrad", np.zeros((1, 1))).tolist()
    [[0.0]]

    Args:
        data: the stored bytes.
        name: the strategy that will use the state.
        first: the initial state of that strategy.

    Returns:
        The stored state. If it belongs to another strategy or model, because the task was changed, ``first``: numbers
        with another meaning would do harm.
    """
    whose, _, body = data.partition(b"\n")
    if whose != name.encode() or len(body) != 8 * first.size:
        return first
    return np.frombuffer(body, "<f8").astype(np.float64).reshape(first.shape)


def _head(name: str) -> bytes:
    return name.encode() + b"\n"
