"""The quality gate: decides whether a version of the model is worse than earlier ones. Pure comparisons.

A version is compared with each of the last :data:`COMPARED_WITH` versions of its line and, where no keyboards measure
(:mod:`nightjar.coordinator.versions.announcement`), with the best version so far. Comparing it only with the previous
one would allow a slow decline of just under the margin per round. A version is worse if one of its two shares (the
keyboard's top-1 and top-3 recall) is lower by more than a margin and by more than :data:`CERTAIN` standard errors of
the difference: the best of many is partly luck, and must not become a bar that no version clears. They are compared in
two places:

============== =================================================================== =============== =================
where          difference                                                          margin          applies
============== =================================================================== =============== =================
held-out text  paired by word (McNemar), before any device gets the version        MARGIN or       always
                                                                                   COLLAPSE
devices        between devices, each on its own words, that remains if a tenth     MARGIN          if enough devices
               of them lied, in a canary's trial or at the end of the first round                  measured it
               on the version
============== =================================================================== =============== =================

On-device metrics have priority: if enough devices measure, or if the text is the public one that came with the model,
the text refuses only a collapse. A fleet that learns its own people's typing gets worse at everybody else's text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from nightjar.coordinator.learning.device_metrics import THOUSANDTHS, Tally, estimate, loss

Names = tuple[str, str]
"""What the task type of a model calls its two shares, such as top-1 recall and top-3 recall."""
COMPARED_WITH = 5
"""Number of versions of a line to compare with, from the current one back."""
MARGIN = 0.01
"""Allowed drop in a share: a smaller one is not worth a round."""
COLLAPSE = 0.05
"""Allowed drop in a share on a text that no user of the fleet typed."""
CERTAIN = 3.0
"""Required difference in standard errors: of a hundred good versions, each compared with five others, about one is
refused."""


class Example(msgspec.Struct, frozen=True):
    """What a version suggests after the beginning of a message of the held-out text.

    Attributes:
        beginning: the message up to the word.
        meant: the word that follows in the message.
        suggested: the three best words, best first.
    """

    beginning: str
    meant: str
    suggested: tuple[str, ...]


class VersionMetrics(msgspec.Struct, frozen=True):
    """The metrics of a version on the held-out text.

    Attributes:
        top1: recall of the best suggestion, 0 to 1.
        top3: recall of the best three, 0 to 1.
        loss: mean cross-entropy per target, nats.
        hits: which words were predicted (:class:`nightjar.models.evaluation.Metrics`); two versions are compared word
            by word.
        examples: what the version suggests in a few places of the text, for people.
    """

    top1: float
    top3: float
    loss: float
    hits: bytes = b""
    examples: tuple[Example, ...] = ()


def faults(
    new: VersionMetrics | None,
    latest: Iterable[VersionMetrics | None],
    margin: float = MARGIN,
    names: Names = ("top-1", "top-3"),
) -> tuple[str, ...]:
    """Why a version may not be released, judged on the held-out text; empty if it may, or was not measured.

    ``latest`` has the versions to compare with; ``margin`` is the allowed drop in a share, regardless
    of the standard error.

    >>> faults(VersionMetrics(top1=0.1, top3=0.3, loss=5.0), [VersionMetrics(top1=0.2, top3=0.3, loss=4.8)])[0][:60]
    'top-1 on the held-out examples fell from 20.0 % to 10.0 %; a'
    """
    if new is None:
        return ()
    messages = []
    if not all(map(math.isfinite, (new.top1, new.top3, new.loss))):
        messages.append("a figure on the held-out examples is not finite")
    measured = [old for old in latest if old is not None]
    for at, name in enumerate(("top1", "top3")):
        value: float = getattr(new, name)
        before = [(getattr(old, name), paired_error(_half(new.hits, at), _half(old.hits, at))) for old in measured]
        worse = [(share, error) for share, error in before if _is_worse(share - value, error, margin)]
        if worse:
            best, error = max(worse)
            messages.append(
                f"{names[at]} on the held-out examples fell from {100 * best:.1f} % to {100 * value:.1f} %; "
                f"allowed are {100 * margin:.1f} points, or {CERTAIN:g} standard errors ({100 * CERTAIN * error:.1f})"
            )
    return tuple(messages)


def worse_on_devices(
    found: Tally, latest: Sequence[Tally], enough: int, names: Names = ("top-1", "top-3")
) -> tuple[int, str] | None:
    """The earlier version that is clearly better on devices than this one.

    ``enough`` devices must have measured a version for it to be compared.

    Returns:
        Index in ``latest`` of the best version, and the figures in words; None if the version is not worse than any.
    """
    for name, shown in zip(("top1", "top3"), names, strict=True):
        worse = []
        for at, old in enumerate(latest):
            if min(found.devices, old.devices) < max(enough, 1):
                continue
            now, before = (estimate(getattr(each, f"{name}_before_of"), 1 / THOUSANDTHS) for each in (found, old))
            if _is_worse(loss(before, now), math.hypot(now.error, before.error), MARGIN):
                reason = (
                    f"{shown} on {found.devices} devices that tried it is {100 * now.mean:.1f} %, "
                    f"with a version before it {100 * before.mean:.1f} % on {old.devices}"
                )
                worse.append((before.mean, at, reason))
        if worse:
            _, at, reason = max(worse)
            return at, reason
    return None


def paired_error(new: bytes, old: bytes) -> float:
    """Standard error of the difference between two shares of the same words; 0 if the predicted words are unknown.

    Of n words, the old version alone predicts b and the new one alone predicts c. The standard error is
    ``sqrt(b + c - (b - c)^2 / n) / n``.

    >>> round(paired_error(bytes([0b11110000]), bytes([0b11101100])), 3)
    0.212

    Source: McNemar 1947; the variance is that of a mean of n differences of -1, 0 and 1.
    """
    if len(new) != len(old) or not new:
        return 0.0
    words, new_bits, old_bits = 8 * len(new), int.from_bytes(new), int.from_bytes(old)
    net = new_bits.bit_count() - old_bits.bit_count()
    return math.sqrt((new_bits ^ old_bits).bit_count() - net * net / words) / words


def _is_worse(drop: float, error: float, margin: float) -> bool:
    return drop > margin and drop > CERTAIN * error


def _half(hits: bytes, at: int) -> bytes:
    middle = len(hits) // 2
    return hits[middle:] if at else hits[:middle]
