"""Mixes a model's predictions with an n-gram model of public text and with the common words of the language.

An LSTM generalises, an n-gram model remembers; the weighted mean of their probabilities predicts better than either.
The common words are a floor: whatever the other two make of the words before, the places are not filled with words that
hardly anybody writes. How much each is worth depends on what the user writes. So the weights begin with what is best
for people of whom nothing is known, and are learned from the user's messages, as the mean responsibility of each source
for the words so far: the EM algorithm for mixture weights in one pass. They are held in memory only and never sent.

Source: Jelinek and Mercer 1980, linear interpolation; Neal and Hinton 1998, incremental EM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from nightjar.edge_agent.ports import Floats, Predictor
from nightjar.models.compact_ngram import CompactNgram
from nightjar.models.vocabulary import BOS, OOV, words
from nightjar.wire.errors import NightjarError


class SourceWeights(NamedTuple):
    """Weights of the sources, which sum to 1; or a probability that each source gives."""

    model: float
    ngram: float
    floor: float


START = SourceWeights(model=0.68, ngram=0.30, floor=0.02)
"""Weights of people of whom nothing is known, chosen on chat of such people. Most likely there is no floor at all; this
much costs them nothing that can be measured, and gains weight where the text is of another kind."""
PRIOR_WORDS = 20.0
"""Typed words that the first weights count for."""
FIRST_WORDS = 200
"""Latest typed words from which the weights are learned at the start: half a second of a large model's predictions."""


class Mixture:
    """Implements :class:`nightjar.edge_agent.ports.Predictor` and :class:`nightjar.edge_agent.ports.Learner`.

    A source that is missing has no weight.

    All words outside the vocabulary together count as one word, OOV.

    Args:
        model: the fleet's model.
        ngram: an n-gram model over the vocabulary of the model.
        floor: (V,) float32, probability of each word, and of OOV, in the language at large; they sum to 1.
        texts: the user's messages, oldest first.
    """

    def __init__(
        self,
        model: Predictor,
        ngram: CompactNgram | None = None,
        floor: Floats | None = None,
        texts: Sequence[str] = (),
    ) -> None:
        self.vocabulary, self.version = model.vocabulary, model.version
        self._model, self._ngram, self._floor = model, ngram, floor
        there = START._replace(**{name: 0.0 for name in ("ngram", "floor") if getattr(self, f"_{name}") is None})
        self._credit = np.array(there) * PRIOR_WORDS / sum(there)
        for text in reversed([*_latest(texts)]):
            self.learn(text)

    @property
    def weights(self) -> SourceWeights:
        """The weights now."""
        return SourceWeights(*(self._credit / self._credit.sum()).tolist())

    def scores(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of the next word, (V,) float32."""
        mixed = sum(
            np.float32(weight) * shares for weight, shares in zip(self.weights, self._shares(finished), strict=True)
        )
        log_shares: Floats = np.log(np.maximum(mixed, np.float32(1e-30)))
        return log_shares

    def learn(self, text: str) -> None:
        """Adjust the weights to a message. Must not run during :meth:`scores`."""
        typed = words(text)
        try:
            for place, word in enumerate(self.vocabulary.encode(typed)):
                if word >= OOV:
                    credit = np.array(self.weights) * [float(shares[word]) for shares in self._shares(typed[:place])]
                    self._credit += credit / max(credit.sum(), 1e-30)
        except NightjarError:
            return  # the next prediction reports it

    def _shares(self, finished: Sequence[str]) -> tuple[Floats, Floats, Floats]:
        """Probabilities of the next word by model, n-gram model and floor, each (V,) float32."""
        logits = self._model.scores(finished)
        model = _of_words(np.exp(logits - logits[OOV:].max()))
        before, last = [BOS, BOS, *self.vocabulary.encode(finished[-2:])][-2:]
        nothing = np.zeros_like(model)
        ngram = nothing if self._ngram is None else _of_words(self._ngram.after(before, last))
        return model, ngram, nothing if self._floor is None else self._floor


def _of_words(shares: Floats) -> Floats:
    """Probabilities (V,) without those of the end and of padding, which nobody types."""
    shares[:OOV] = 0.0
    shares /= shares.sum()
    return shares


def _latest(texts: Sequence[str]) -> Iterator[str]:
    """The newest messages with enough words together, newest first."""
    counted = 0
    for text in reversed(texts):
        if counted >= FIRST_WORDS:
            return
        counted += len(words(text))
        yield text
