"""Mixes a model's predictions with an n-gram model of public text.

An LSTM generalises, an n-gram model remembers; the weighted mean of their probabilities predicts better than either.
The n-gram model is worth the more, the more the user's text is like the public text. So its weight is learned from the
user's messages, as its mean responsibility for the words so far: the EM algorithm for mixture weights in one pass. The
weight starts at one half, is held in memory only, and is never sent.

Source: Jelinek and Mercer 1980, linear interpolation; Neal and Hinton 1998, incremental EM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nightjar.edge_agent.ports import Floats, Predictor
from nightjar.models.compact_ngram import CompactNgram
from nightjar.models.vocabulary import BOS, FIRST_WORD, words
from nightjar.wire.errors import NightjarError

PRIOR_WORDS = 20.0
"""Words that the first weight of one half counts for."""
FIRST_WORDS = 200
"""Latest typed words from which the weight is learned at the start: half a second of a large model's predictions."""


class Mixture:
    """Implements :class:`nightjar.edge_agent.ports.Predictor` and :class:`nightjar.edge_agent.ports.Learner`.

    ``ngram`` is over the vocabulary of the model; ``texts`` are the user's messages, oldest first.

    Attributes:
        weight: of the n-gram model, 0 to 1.
    """

    def __init__(self, model: Predictor, ngram: CompactNgram, texts: Sequence[str] = ()) -> None:
        self.vocabulary, self.version = model.vocabulary, model.version
        self._model, self._ngram = model, ngram
        self._credit, self._words = PRIOR_WORDS / 2, PRIOR_WORDS
        for text in reversed([*_latest(texts)]):
            self.learn(text)

    @property
    def weight(self) -> float:
        """Weight of the n-gram model, 0 to 1."""
        return self._credit / self._words

    def scores(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of the next word, (V,) float32."""
        model, ngram = self._probabilities(finished)
        log_shares: Floats = np.log(np.maximum(model + self.weight * (ngram - model), 1e-30))
        return log_shares

    def learn(self, text: str) -> None:
        """Adjust the weight to a message. Must not run during :meth:`scores`."""
        typed = words(text)
        try:
            for place, word in enumerate(self.vocabulary.encode(typed)):
                if word >= FIRST_WORD:
                    model, ngram = (float(shares[word]) for shares in self._probabilities(typed[:place]))
                    credit = self.weight * ngram
                    self._credit += credit / max(credit + (1.0 - self.weight) * model, 1e-30)
                    self._words += 1.0
        except NightjarError:
            return  # the next prediction reports it

    def _probabilities(self, finished: Sequence[str]) -> tuple[Floats, Floats]:
        logits = self._model.scores(finished)
        model: Floats = np.exp(logits - logits.max())
        model /= model.sum()
        before, last = [BOS, BOS, *self.vocabulary.encode(finished[-2:])][-2:]
        return model, self._ngram.after(before, last)


def _latest(texts: Sequence[str]) -> Iterator[str]:
    """The newest messages with enough words together, newest first."""
    counted = 0
    for text in reversed(texts):
        if counted >= FIRST_WORDS:
            return
        counted += len(words(text))
        yield text
