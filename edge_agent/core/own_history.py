"""Blends a model's predictions with an n-gram model of what the user wrote lately.

It counts the user's own words, pairs and triples. Each order is smoothed with the order below it, and the lowest with
the model: ``p = (count + strength * below) / (total + strength)``. Without counts the result is the model's prediction;
the more often the user wrote something after the same words, the more the counts weigh. No weight has to be tuned per
user. The lowest order counts only the latest words, which makes it a cache of the current topic.

The counts are small, grow word by word as messages are sent, and are held in memory only: they are rebuilt from the
example store and disappear when it is wiped. They are never sent.

Source: MacKay and Peto 1995, "A hierarchical Dirichlet language model"; the cache is Kuhn and De Mori 1990.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from nightjar.edge_agent.ports import Floats, Learner, Predictor
from nightjar.models.vocabulary import BOS, OOV, Vocabulary, words

Probabilities = npt.NDArray[np.float64]

CACHE_WORDS = 400
"""Number of latest words that the lowest order counts."""
STRENGTHS = (1000.0, 50.0, 20.0)
"""Weight, in words, of the order below: in the cache, after one word, after two words."""
LATEST_MESSAGES = 2_000
"""Most messages of the store that are counted: 3 MB of counts."""


class OwnHistory:
    """Counts of the user's words after each single word and each pair of words.

    All words outside the vocabulary count as one word, OOV: how often and where this person uses them.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._latest: deque[int] = deque(maxlen=CACHE_WORDS)
        self._after: dict[tuple[int, ...], array[int]] = {}

    def learn(self, text: str) -> None:
        """Count one message."""
        before, last = BOS, BOS
        for word in self._vocabulary.encode(words(text)):
            if word >= OOV:
                self._latest.append(word)
                for context in ((last,), (before, last)):
                    self._after.setdefault(context, array("i")).append(word)
            before, last = last, word

    def blend(self, model: Probabilities, finished: Sequence[str]) -> Probabilities:
        """Probabilities of the next word, (V,), from those of the model, (V,), which sum to 1."""
        ids = [BOS, BOS, *self._vocabulary.encode(finished[-2:])]
        orders = (self._latest, self._after.get((ids[-1],), ()), self._after.get((ids[-2], ids[-1]), ()))
        blended = model
        for counted, strength in zip(orders, STRENGTHS, strict=True):
            if counted:
                blended = blended * (strength / (len(counted) + strength))
                np.add.at(blended, np.fromiter(counted, np.int64, len(counted)), 1.0 / (len(counted) + strength))
        return blended.copy() if blended is model else blended


class Blended:
    """A predictor that also uses what the user wrote. Implements :class:`nightjar.edge_agent.ports.Predictor`.

    ``texts`` are the user's messages, oldest first.
    """

    def __init__(self, model: Predictor, texts: Iterable[str] = ()) -> None:
        self.vocabulary, self.version = model.vocabulary, model.version
        self._model = model
        self._history = OwnHistory(model.vocabulary)
        for text in deque(texts, LATEST_MESSAGES):
            self._history.learn(text)

    def learn(self, text: str) -> None:
        """Learn from a message that was sent; so does the model, if it can. Must not run during :meth:`scores`."""
        if isinstance(self._model, Learner):
            self._model.learn(text)
        self._history.learn(text)

    def scores(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of the next word, (V,) float32."""
        logits = self._model.scores(finished).astype(np.float64)
        shares = np.exp(logits - logits.max())
        blended = self._history.blend(shares / shares.sum(), finished)
        return np.log(np.maximum(blended, 1e-30)).astype(np.float32)
