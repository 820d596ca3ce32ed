"""Is a version of the model worse than those before it? Pure comparisons; who measures, and what follows, is elsewhere.

A version is compared with each of the last :data:`COMPARED_WITH` of its line, not with the one before only, or a slide
of a little less than is allowed would go on for ever. It is worse if its recall is lower by more than a margin, and by
more than :data:`CERTAIN` standard errors of the difference: a best of five is partly luck, and must not become a bar
that no version clears. Two places are looked at:

============== =================================================================== =============== =================
where          difference                                                          margin          asked
============== =================================================================== =============== =================
held-out text  on the same words, one by one (McNemar), before any device gets it  MARGIN; or      always
                                                                                   COLLAPSE
devices        of mean recalls over devices, each on words of its own, in a        MARGIN          where enough have
               canary's trial or at the end of the first round held on it                          measured it
============== =================================================================== =============== =================

What devices measured decides: where enough of them do, and where the text is a public one that came with the model, the
text refuses only a collapse. A fleet that learns how its people type gets worse at everybody else's text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from coordinator.learning.device_metrics import Tally, mean_and_error

COMPARED_WITH = 5
"""Versions of a line, the newest of them current."""
MARGIN = 0.01
"""Of recall: less is not worth a round."""
COLLAPSE = 0.05
"""Of recall on a text that nobody of the fleet typed."""
CERTAIN = 3.0
"""Standard errors: of a hundred sound versions, each compared with five others, about one is refused. One device of
twenty cannot make a difference over devices so certain: what it adds to the mean it adds to the error, too."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a version on the held-out text; None for what was not.

    Attributes:
        top1: recall of the best suggestion.
        top3: recall of the best three.
        loss: mean cross-entropy per target, nats.
        hits: which words were foreseen: half of the bytes by the best suggestion, half by the best three.
    """

    top1: float | None = None
    top3: float | None = None
    loss: float | None = None
    hits: bytes = b""


def faults(new: Figures, latest: Iterable[Figures], margin: float = MARGIN) -> tuple[str, ...]:
    """Why a version may not go out, by what was measured on the held-out text; empty if it may.

    Args:
        new: of the version.
        latest: of the current version and those before it.
        margin: by how much its recall may be lower in any case.

    >>> faults(Figures(top1=0.1, top3=0.3, loss=5.0), [Figures(top1=0.2, top3=0.3, loss=4.8)])[0][:63]
    'top-1 recall on the held-out text fell from 20.0 % to 10.0 %; a'
    """
    found = []
    measured = [value for value in (new.top1, new.top3, new.loss) if value is not None]
    if not all(math.isfinite(value) for value in measured):
        found.append("a figure on the held-out text is not finite")
    latest = list(latest)
    for at, name in enumerate(("top1", "top3")):
        value: float | None = getattr(new, name)
        before: list[tuple[float, float]] = [
            (getattr(old, name), paired_error(_half(new.hits, at), _half(old.hits, at)))
            for old in latest
            if getattr(old, name) is not None
        ]
        worse = [] if value is None else [each for each in before if _is_worse(each[0] - value, each[1], margin)]
        if value is not None and worse:
            best, error = max(worse)
            found.append(
                f"{_label(name)} recall on the held-out text fell from {100 * best:.1f} % to {100 * value:.1f} %; "
                f"allowed are {100 * margin:.1f} points, or {CERTAIN:g} standard errors ({100 * CERTAIN * error:.1f})"
            )
    return tuple(found)


def worse_on_devices(found: Tally, latest: Iterable[Tally], enough: int) -> tuple[int, str] | None:
    """By which of the latest versions, by its place, devices foresaw clearly more of their own words, and how much.

    Args:
        found: of a version.
        latest: of those before it.
        enough: devices that must have measured a version before it is compared.

    Returns:
        The one with the highest recall, and the figures in words; None if the version is not worse.
    """
    for name in ("top1", "top3"):
        worse = []
        for at, old in enumerate(latest := list(latest)):
            if min(found.devices, old.devices) < max(enough, 1):
                continue
            mean, error = mean_and_error(getattr(found, f"{name}_before_of"))
            before, error_before = mean_and_error(getattr(old, f"{name}_before_of"))
            if _is_worse(before - mean, math.hypot(error, error_before), MARGIN):
                reason = (
                    f"{_label(name)} recall on {found.devices} devices that tried it is {100 * mean:.1f} %, "
                    f"with a version before it {100 * before:.1f} % on {old.devices}"
                )
                worse.append((before, at, reason))
        if worse:
            _, at, reason = max(worse)
            return at, reason
    return None


def paired_error(new: bytes, old: bytes) -> float:
    """Standard error of the difference between two shares of the same words; 0 where it is not known which those were.

    With b words that only the old version foresaw and c that only the new one did, of n, it is
    ``sqrt(b + c - (b - c)^2 / n) / n``.

    >>> round(paired_error(bytes([0b11110000]), bytes([0b11101100])), 3)
    0.212

    Source: McNemar 1947; the variance is that of a mean of n differences of -1, 0 and 1.
    """
    if len(new) != len(old) or not new:
        return 0.0
    words, one, other = 8 * len(new), int.from_bytes(new), int.from_bytes(old)
    net = one.bit_count() - other.bit_count()
    return math.sqrt((one ^ other).bit_count() - net * net / words) / words


def _is_worse(drop: float, error: float, margin: float) -> bool:
    return drop > margin and drop > CERTAIN * error


def _half(hits: bytes, at: int) -> bytes:
    middle = len(hits) // 2
    return hits[middle:] if at else hits[:middle]


def _label(name: str) -> str:
    return name.replace("top", "top-")
