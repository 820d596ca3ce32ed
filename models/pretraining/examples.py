"""What the weights may learn: words after contexts that enough people typed. Pure.

A word is a target only if at least :data:`LEAST_PEOPLE` people typed it after the same two words (or after fewer, where
a message begins); any other word is read, but its prediction is not trained. So what fewer people typed, however often,
moves no weight towards it, and the rule is the one of the n-gram model. A clip or a cap by person would only make a
secret rarer: memorisation grows with repetitions, and four people who repeat one are above any cap that leaves text to
learn from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nightjar.models.batches import Piece
from nightjar.models.pretraining.sharing import shared_lengths
from nightjar.models.vocabulary import BOS, EOS, PAD

LEAST_PEOPLE = 5
CONTEXT = 3
"""Words of a sequence that must be shared, the target included."""


def shared_examples(
    messages: Sequence[Sequence[int]],
    people: Sequence[int] | npt.NDArray[np.int64],
    sequence_length: int,
    least_people: int = LEAST_PEOPLE,
) -> list[Piece]:
    """Inputs and targets of messages (word ids), cut to the length of a row; ``PAD`` is no target.

    ``people`` has the number of each message's person. Pieces without a target are left out, and so is the end of a
    piece after its last one.

    >>> shared_examples([[5, 6], [5, 7]], [0, 1], 20, least_people=2)
    [([1], [5]), ([1], [5])]
    """
    pieces: list[Piece] = []
    for message, lengths in zip(messages, shared_lengths(messages, people, least_people, CONTEXT), strict=True):
        if not message:
            continue
        targets = [
            word if length >= min(CONTEXT, place + 2) else PAD
            for place, (word, length) in enumerate(zip([*message, EOS], lengths, strict=True))
        ]
        for start in range(0, len(targets), sequence_length):
            wanted = targets[start : start + sequence_length]
            while wanted and wanted[-1] == PAD:
                wanted.pop()
            if wanted:
                pieces.append(([BOS, *message[start : start + len(wanted) - 1]], wanted))
    return pieces
