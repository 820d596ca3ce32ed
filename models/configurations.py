"""The named shapes of the keyboard model.

A configuration fixes the whole shape except V, the number of word ids, which comes from the vocabulary. Training
hyperparameters are not here: they travel with the task.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from nightjar.models.vocabulary import FIRST_WORD
from nightjar.wire.errors import ConfigError, LocalProtocolError
from nightjar.wire.parameters import ParameterLayout, ParameterSpec

CellName = Literal["cifg", "lstm", "gru"]
"""LSTM with coupled input and forget gates; LSTM; GRU."""

_GATES: dict[CellName, tuple[int, int]] = {"cifg": (3, 3), "lstm": (4, 4), "gru": (3, 4)}
"""Columns of the kernels, and values of the bias, for each unit of a cell. No two cells have the same, so that the
layout tells which cell it is: neither the manifest nor the wire format names it."""
CELL_NAMES = tuple(_GATES)


@dataclass(frozen=True, slots=True)
class ModelConfiguration:
    """Shape of a recurrent model with tied embedding and recurrent projection."""

    name: str  # the value of ``--model``
    max_vocabulary: int  # maximum V, specials included
    embedding: int  # D, size of a word vector, of the projection and so of the state h
    hidden: int  # H, number of units, size of the state c
    batch_rows: int = 16  # B, rows of a training batch
    sequence_length: int = 20  # T, positions of a row
    cell: CellName = "cifg"  # the recurrent cell (:mod:`nightjar.models.cells`)

    @property
    def family(self) -> str:
        """The name of the configuration of this size with the default cell.

        >>> configuration("tiny-gru").family
        'tiny'
        """
        return self.name.partition("-")[0]

    def layout(self, vocabulary_size: int) -> ParameterLayout:
        """The parameter layout for a vocabulary of V ids.

        >>> configuration("gboard").layout(10_000).size
        1412250

        Raises:
            LocalProtocolError: V is above the maximum, or leaves no room for a word.
        """
        if not FIRST_WORD < vocabulary_size <= self.max_vocabulary:
            msg = f"model {self.name!r} takes {FIRST_WORD + 1} to {self.max_vocabulary} word ids, got {vocabulary_size}"
            raise LocalProtocolError(msg)
        return lstm_layout(vocabulary_size, self.embedding, self.hidden, self.cell)


def lstm_layout(vocabulary_size: int, embedding: int, hidden: int, cell: CellName = "cifg") -> ParameterLayout:
    """The parameters of the model, in the order of the flat vector.

    Kernels are stored [in, out]; the gates are columns in the order of :mod:`nightjar.models.cells`: forget, output (of
    a GRU: reset), input (of a plain LSTM), candidate. There is no softmax bias (Hard et al. 2018, 3.2: tied embedding),
    and the projection has the size of the embedding.

    >>> [t.shape for t in lstm_layout(10, 3, 5).tensors]
    [(10, 3), (3, 15), (3, 15), (15,), (5, 3)]
    """
    gates, biases = (hidden * each for each in _GATES[cell])
    return ParameterLayout(
        (
            ParameterSpec("embedding", (vocabulary_size, embedding)),
            ParameterSpec("input_kernel", (embedding, gates)),
            ParameterSpec("recurrent_kernel", (embedding, gates)),
            ParameterSpec("gate_bias", (biases,)),
            ParameterSpec("projection", (hidden, embedding)),
        )
    )


@functools.lru_cache(maxsize=64)  # prediction asks for each word
def cell_of(hidden: int, gates: int, biases: int) -> CellName:
    """The cell with so many columns of a kernel and so many biases.

    >>> cell_of(5, gates=15, biases=20)
    'gru'

    Raises:
        LocalProtocolError: there is none.
    """
    for cell, sizes in _GATES.items():
        if (gates, biases) == (hidden * sizes[0], hidden * sizes[1]):
            return cell
    msg = f"no cell with {hidden} units has kernels of {gates} columns and {biases} biases"
    raise LocalProtocolError(msg)


CONFIGURATIONS = {
    c.name: c
    for c in (
        # For tests and the demo: a device trains it in seconds, even on a slow core.
        ModelConfiguration("tiny", max_vocabulary=2_000, embedding=64, hidden=128),
        # Hard et al. 2018, "Federated learning for mobile keyboard prediction", section 3: 1.4M parameters.
        ModelConfiguration("gboard", max_vocabulary=10_000, embedding=96, hidden=670),
        # The same with other cells; a plain LSTM has fewer units, so that it has as many parameters.
        ModelConfiguration("tiny-lstm", max_vocabulary=2_000, embedding=64, hidden=100, cell="lstm"),
        ModelConfiguration("tiny-gru", max_vocabulary=2_000, embedding=64, hidden=128, cell="gru"),
        ModelConfiguration("gboard-lstm", max_vocabulary=10_000, embedding=96, hidden=521, cell="lstm"),
        ModelConfiguration("gboard-gru", max_vocabulary=10_000, embedding=96, hidden=670, cell="gru"),
    )
}


def configuration(name: str) -> ModelConfiguration:
    """The configuration with this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in CONFIGURATIONS:
        msg = f"expected a model named {' or '.join(map(repr, CONFIGURATIONS))}, got {name!r}"
        raise ConfigError(msg)
    return CONFIGURATIONS[name]
