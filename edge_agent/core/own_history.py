"""What a person wrote lately, blended with what a model expects.

Counts of the person's own words, pairs and triples, each order smoothed with the one below it, and the lowest with the
model: ``p = (count + strength * below) / (total + strength)``. With nothing counted that is the model itself, and the
more often the person wrote something after the same words, the more it says; no weight has to be tuned for a person.
The lowest order counts the latest words only, which makes it a cache of what is being talked about.

The counts are small, grow word by word as messages are sent, and live in memory only: they are made anew from the
example store, and gone when that is wiped. Nothing of them is ever sent.

Source: MacKay and Peto 1995, "A hierarchical Dirichlet language model"; the cache is Kuhn and De Mori 1990.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from edge_agent.ports import Floats, Predictor
from models.vocabulary import BOS, FIRST_WORD, Vocabulary, words

Probabilities = npt.NDArray[np.float64]

CACHE_WORDS = 400
"""Latest words that the lowest order counts."""
STRENGTHS = (1000.0, 50.0, 20.0)
"""How many words' worth the order below has, in the cache, after one word, after two."""
LATEST_MESSAGES = 2_000
"""Of a store's messages, those that are counted: 3 MB of counts."""


class OwnHistory:
    """Counts of a person's words after each one and each two others.

    Args:
        vocabulary: gives the ids; words that it lacks are context, and never counted.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._latest: deque[int] = deque(maxlen=CACHE_WORDS)
        self._after: dict[tuple[int, ...], array[int]] = {}

    def learn(self, text: str) -> None:
        """Count one message."""
        before, last = BOS, BOS
        for word in self._vocabulary.encode(words(text)):
            if word >= FIRST_WORD:
                self._latest.append(word)
                for context in ((last,), (before, last)):
                    self._after.setdefault(context, array("i")).append(word)
            before, last = last, word

    def blend(self, model: Probabilities, finished: Sequence[str]) -> Probabilities:
        """Probabilities of the next word.

        Args:
            model: (V,) what the model expects; sums to 1.
            finished: the words of the sentence so far.

        Returns:
            (V,), a new array.
        """
        ids = [BOS, BOS, *self._vocabulary.encode(finished[-2:])]
        orders = (self._latest, self._after.get((ids[-1],), ()), self._after.get((ids[-2], ids[-1]), ()))
        blended = model
        for counted, strength in zip(orders, STRENGTHS, strict=True):
            if counted:
                blended = blended * (strength / (len(counted) + strength))
                np.add.at(blended, np.fromiter(counted, np.int64, len(counted)), 1.0 / (len(counted) + strength))
        return blended.copy() if blended is model else blended


class Blended:
    """A predictor that also knows what the person wrote. Implements :class:`edge_agent.ports.Predictor`.

    Args:
        model: the predictor of the model.
        texts: the person's messages, oldest first.
    """

    def __init__(self, model: Predictor, texts: Iterable[str] = ()) -> None:
        self._model = model
        self._history = OwnHistory(model.vocabulary)
        for text in deque(texts, LATEST_MESSAGES):
            self._history.learn(text)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words that the model knows."""
        return self._model.vocabulary

    @property
    def version(self) -> int | None:
        """Of the model."""
        return self._model.version

    def learn(self, text: str) -> None:
        """Count a message that was sent; not while :meth:`scores` runs."""
        self._history.learn(text)

    def scores(self, finished: Sequence[str]) -> Floats:
        """Log-probabilities of the next word, (V,) float32.

        Raises:
            NightjarError: as the model's predictor.
        """
        said = self._model.scores(finished).astype(np.float64)
        shares = np.exp(said - said.max())
        blended = self._history.blend(shares / shares.sum(), finished)
        return np.log(np.maximum(blended, 1e-30)).astype(np.float32)
