"""The named shapes of the keyboard model.

A configuration fixes the whole shape except V, the number of word ids, which comes from the vocabulary. Training
hyperparameters are not here: they travel with the task.
"""

from __future__ import annotations

from dataclasses import dataclass

from models.vocabulary import FIRST_WORD
from wire.errors import ConfigError, LocalProtocolError
from wire.parameters import ParameterLayout, ParameterSpec


@dataclass(frozen=True, slots=True)
class ModelConfiguration:
    """Shape of a CIFG-LSTM with tied embedding and recurrent projection.

    Attributes:
        name: the value of ``--model``.
        max_vocabulary: maximum V, specials included.
        embedding: D, size of a word vector, of the projection and so of the state h.
        hidden: H, number of LSTM cells, size of the state c.
        batch_rows: B, rows of a training batch.
        sequence_length: T, positions of a row.
    """

    name: str
    max_vocabulary: int
    embedding: int
    hidden: int
    batch_rows: int = 16
    sequence_length: int = 20

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
        return lstm_layout(vocabulary_size, self.embedding, self.hidden)


def lstm_layout(vocabulary_size: int, embedding: int, hidden: int) -> ParameterLayout:
    """The parameters of the LSTM, in the order of the flat vector.

    Kernels are stored [in, out]; the three gates are columns in the order forget, output, candidate. There is no
    softmax bias (Hard et al. 2018, 3.2: tied embedding), and the projection has the size of the embedding.

    >>> [t.shape for t in lstm_layout(10, 3, 5).tensors]
    [(10, 3), (3, 15), (3, 15), (15,), (5, 3)]
    """
    gates = 3 * hidden
    return ParameterLayout(
        (
            ParameterSpec("embedding", (vocabulary_size, embedding)),
            ParameterSpec("input_kernel", (embedding, gates)),
            ParameterSpec("recurrent_kernel", (embedding, gates)),
            ParameterSpec("gate_bias", (gates,)),
            ParameterSpec("projection", (hidden, embedding)),
        )
    )


CONFIGURATIONS = {
    c.name: c
    for c in (
        # For tests and the demo: a device trains it in seconds, even on a slow core.
        ModelConfiguration("tiny", max_vocabulary=2_000, embedding=64, hidden=128),
        # Hard et al. 2018, "Federated learning for mobile keyboard prediction", section 3: 1.4M parameters.
        ModelConfiguration("gboard", max_vocabulary=10_000, embedding=96, hidden=670),
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
