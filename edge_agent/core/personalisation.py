"""Whether a model of a person's own is worth having, by their own held-out messages.

A device that trains for the fleet has, on the way, a model that read this person's messages once more than the fleet's
did. Some people are served better by it and a quarter are served worse (docs/adr/0016-personalisation.md), so each
device decides for itself, for each version, on messages that neither model was trained on here. Which messages those
are is fixed by their text: a message that was held out once is never trained on later.

Source of the idea that the local model of federated averaging is itself the personal one: Yu et al. 2020, "Salvaging
federated learning by local adaptation".
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from edge_agent.ports import Evaluation

ENOUGH_WORDS = 50
"""Held-out words below which nothing is decided and nothing is said: one word more or less would be two points."""
SHARES = (0.5, 1.0)
"""How much of the local update a personal model may have: half of it does less harm and often more good."""


def held_out(texts: Sequence[str], share: float) -> tuple[list[str], list[str]]:
    """Divide messages into those that are trained on and those that are not.

    >>> held_out(["a", "b", "c", "d"], 0.0)
    (['a', 'b', 'c', 'd'], [])

    Args:
        texts: messages.
        share: of the messages that are held out, on average.
    """
    limit = share * 2**32
    trained: list[str] = []
    kept: list[str] = []
    for text in texts:
        (kept if zlib.crc32(text.encode()) < limit else trained).append(text)
    return trained, kept


def better(ours: Evaluation, theirs: Evaluation) -> bool:
    """Whether a personal model beats the fleet's on the same held-out messages: likelier words, and no fewer foreseen.

    Args:
        ours: of the personal model.
        theirs: of the fleet's.
    """
    foreseen = ours.top1 + ours.top3 > theirs.top1 + theirs.top3
    return theirs.counted >= ENOUGH_WORDS and foreseen and ours.loss_sum < theirs.loss_sum
