"""Turns a model that reads one word at a time into a predictor.

States are cached by the words that led to them. So a key press costs no model step inside a word and one step at its
end, and deleting a word costs none. The caller chooses the model and its runtime.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from nightjar.edge_agent.ports import Floats
from nightjar.models.vocabulary import BOS, Vocabulary
from nightjar.wire.errors import LocalProtocolError

State = TypeVar("State")

# Far more words than a sentence has, so that deleting a sentence finds a cached state at every word. 64 score vectors
# of the 10,000-word model take 2.6 MB.
KEPT_STATES = 64


class StepModel(Protocol[State]):
    """A model that reads one word at a time.

    ``State`` is opaque here. A step must not modify the state it was given, nor arrays it returned before.
    """

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""

    @property
    def version(self) -> int:
        """Version of the model."""

    def start(self) -> State:
        """The state before anything was read."""

    def step(self, token: int, state: State) -> tuple[Floats, State]:
        """Read one token.

        Returns:
            scores: (V,) float32, log-probabilities up to a common additive constant.
            state: the state to pass with the next token.
        """


class Reader(Generic[State]):
    """Implements :class:`nightjar.edge_agent.ports.Predictor`.

    Attributes:
        vocabulary: the words that the model knows.
        version: version of the model.
    """

    def __init__(self, model: StepModel[State]) -> None:
        self.vocabulary, self.version = model.vocabulary, model.version
        self._model = model
        self._states: OrderedDict[tuple[int, ...], tuple[Floats, State]] = OrderedDict()

    def scores(self, finished: Sequence[str]) -> Floats:
        """Scores of the next word, (V,) float32; costs one model step for each word that is not cached.

        Raises:
            LocalProtocolError: the model's scores do not fit its vocabulary.
        """
        states, tokens = self._states, (BOS, *self.vocabulary.encode(finished))
        known = next((n for n in range(len(tokens), 0, -1) if tokens[:n] in states), 0)
        if known:
            states.move_to_end(tokens[:known])
            scores, state = states[tokens[:known]]
        else:
            state = self._model.start()
        for read in range(known, len(tokens)):
            scores, state = self._model.step(tokens[read], state)
            if scores.shape != (self.vocabulary.size,):
                msg = f"expected one score for each of {self.vocabulary.size} word ids, got shape {scores.shape}"
                raise LocalProtocolError(msg)
            states[tokens[: read + 1]] = scores, state
            if len(states) > KEPT_STATES:
                states.popitem(last=False)
        return scores
