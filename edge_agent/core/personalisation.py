"""Decides by a user's own held-out messages whether a personal model is worth keeping.

A device that trains for the fleet produces, as a by-product, a model that is adapted to its user's messages. It serves
some users better, and a quarter of them worse (docs/adr/0016-personalisation.md). So each device decides for itself,
for each version, on messages that neither model was trained on here. A message's text determines whether it is held
out: a message that was held out once is never trained on later.

Source of the idea that the local model of federated averaging is itself the personal one: Yu et al. 2020, "Salvaging
federated learning by local adaptation".
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from nightjar.edge_agent.core.results import Evaluation
from nightjar.wire.parameters import Vector

ENOUGH_WORDS = 50
"""Fewest held-out words for a decision or a report: with 50 words, a single word makes two percentage points."""
HALF = np.dtype("<f2")
"""How personal weights are kept: a card wears out, and their difference from the version is small enough for it."""
SHARES = (0.5, 1.0)
"""Shares of the local update that are tried for the personal model: half does less harm and is often better."""


def better(ours: Evaluation, theirs: Evaluation) -> bool:
    """Whether a personal model (ours) beats the fleet's (theirs) by more than chance on the same held-out messages.

    It must have a lower loss, and the gain in predicted words (first and among three, added) must be at least half the
    square root of the number of words. Of 200 people, 9 % then lose more than a point of top-1 recall on their later
    messages, instead of 19 % if any gain is enough; the mean gain is 1.5 points instead of 1.6.
    """
    gain = ours.top1 + ours.top3 - theirs.top1 - theirs.top3
    by_chance = 0.5 * math.sqrt(theirs.counted)
    return theirs.counted >= ENOUGH_WORDS and gain >= by_chance and ours.loss_sum < theirs.loss_sum


def best_share(try_share: Callable[[float], Evaluation], theirs: Evaluation) -> float:
    """The share of the local update that makes the best personal model; 0.0 if none is better than the fleet's.

    ``try_share`` evaluates the model with a share of the update on the held-out messages.
    """
    best, chosen = theirs, 0.0
    for share in SHARES:
        ours = try_share(share)
        if better(ours, theirs) and ours.loss_sum < best.loss_sum:
            best, chosen = ours, share
    return chosen


def as_kept(change: Vector) -> Vector:
    """A difference of weights (n,) as a file of personal weights keeps it; infinite beyond 65504.

    >>> as_kept(np.array([0.1, 1e6], np.float32)).tolist()
    [0.0999755859375, inf]
    """
    with np.errstate(over="ignore"):
        return change.astype(HALF).astype(np.float32)


def change_to_bytes(change: Vector) -> bytes:
    """The content of a file of personal weights, whose difference from the version is one of :func:`as_kept`."""
    return change.astype(HALF).tobytes()
