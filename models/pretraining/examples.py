"""What the weights may learn: words after contexts that enough people typed. Pure.

A word is a target

- if at least :data:`LEAST_PEOPLE` people typed it after the same two words (or after fewer, where a message begins);
- once for each person who typed it after these two words, if at least :data:`LEAST_PEOPLE_OF_PAIR` people typed it
  after the last of them.

Any other word is read, but its prediction is not trained. So an unusual pair of words that fewer people typed, however
often, moves no weight towards it. A clip or a cap by person alone would only make a secret rarer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nightjar.models.batches import Piece
from nightjar.models.pretraining.sharing import shared_lengths
from nightjar.models.vocabulary import BOS, EOS, PAD

LEAST_PEOPLE = 5
LEAST_PEOPLE_OF_PAIR = 20
"""As many as must type a word: who pairs two words so usual says little. Without these targets the model does not learn
what follows a word in a context that is new, and a trigram knows more."""
CONTEXT = 3
"""Words of a sequence that must be shared, the target included."""


def shared_examples(
    messages: Sequence[Sequence[int]],
    people: Sequence[int] | npt.NDArray[np.int64],
    sequence_length: int,
    least_people: int = LEAST_PEOPLE,
    least_people_of_pair: int = LEAST_PEOPLE_OF_PAIR,
) -> list[Piece]:
    """Inputs and targets of messages (word ids), cut to the length of a row; ``PAD`` is no target.

    ``people`` has the number of each message's person. Pieces without a target are left out, and so is the end of a
    piece after its last one.

    >>> shared_examples([[5, 6], [5, 7]], [0, 1], 20, least_people=2)
    [([1], [5]), ([1], [5])]
    """
    of_five = shared_lengths(messages, people, least_people, CONTEXT)
    of_pair = shared_lengths(messages, people, least_people_of_pair, CONTEXT - 1)
    once: set[tuple[int, int, int, int]] = set()
    pieces: list[Piece] = []
    for message, person, lengths, pairs in zip(messages, list(people), of_five, of_pair, strict=True):
        if not message:
            continue
        read = [BOS, BOS, *message]
        targets = [*message, EOS]
        for place, (word, length, pair) in enumerate(zip(targets, lengths, pairs, strict=True)):
            if length >= min(CONTEXT, place + 2):
                continue
            trigram = (int(person), read[place], read[place + 1], word)
            if pair < CONTEXT - 1 or trigram in once:
                targets[place] = PAD
            once.add(trigram)
        for start in range(0, len(targets), sequence_length):
            wanted = targets[start : start + sequence_length]
            while wanted and wanted[-1] == PAD:
                wanted.pop()
            if wanted:
                pieces.append(([BOS, *message[start : start + len(wanted) - 1]], wanted))
    return pieces
