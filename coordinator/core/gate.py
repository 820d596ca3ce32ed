"""What a new version must be before any device gets it.

A pure comparison of figures; who measures them, and what follows, is decided elsewhere. A figure that nobody measured
(no held-out text, no TensorFlow) is not asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

RECALL_DROP = 0.05
"""By how much recall on the held-out text may be below the best of the latest versions.

Rounds of few phones swing by 2 points without harm.
"""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a version; None for what was not.

    Attributes:
        top1: recall of the best suggestion on the held-out text.
        top3: recall of the best three.
        loss: mean cross-entropy per target, nats.
    """

    top1: float | None = None
    top3: float | None = None
    loss: float | None = None


def best(latest: Iterable[Figures]) -> Figures:
    """The highest recalls of some versions: compared with the one before only, versions could get worse for ever.

    >>> best([Figures(top1=0.2, top3=0.3), Figures(top1=0.1, top3=0.4), Figures()])
    Figures(top1=0.2, top3=0.4, loss=None)
    """
    latest = list(latest)
    top1 = max((each.top1 for each in latest if each.top1 is not None), default=None)
    top3 = max((each.top3 for each in latest if each.top3 is not None), default=None)
    return Figures(top1=top1, top3=top3)


def faults(new: Figures, former: Figures) -> tuple[str, ...]:
    """Why a version may not go out; empty if it may.

    Args:
        new: of the version.
        former: what it is compared with: the current version, or the :func:`best` of the latest ones.

    >>> faults(Figures(top1=0.1, top3=0.3, loss=5.0), Figures(top1=0.2, top3=0.3, loss=4.8))
    ('top-1 recall fell from 20.0 % to 10.0 %; at most 5.0 points are allowed',)
    """
    found = []
    measured = [value for value in (new.top1, new.top3, new.loss) if value is not None]
    if not all(math.isfinite(value) for value in measured):
        found.append("a figure on the held-out text is not finite")
    for name, value, before in (("top-1", new.top1, former.top1), ("top-3", new.top3, former.top3)):
        if value is not None and before is not None and value < before - RECALL_DROP:
            found.append(
                f"{name} recall fell from {100 * before:.1f} % to {100 * value:.1f} %; "
                f"at most {100 * RECALL_DROP:.1f} points are allowed"
            )
    return tuple(found)
