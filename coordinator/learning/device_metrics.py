"""How good a version is on the devices themselves, as sums in which no device can be found again.

A device that keeps messages back (``evaluation_share`` of the plan) counts how many of their words the model foresaw
that it was given, and how many after its training. Here those counts become a *tally* of a version: sums, and for each
figure how many devices had which recall, to a thousandth. Tallies can be added up, so nothing that a single device said
needs to be kept, and quantiles over devices still come out.

Each device counts once, in quantiles and in the mean: how many words it had is its own word, so that one could be the
mean if words were counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from coordinator.rounds.round import Round
from coordinator.rounds.seats import SeatState
from wire.frame import LocalEvaluation
from wire.messages import DropoutCause

THOUSANDTHS = 1000
QUANTILES = (0.1, 0.5, 0.9)

FAILURES = frozenset(
    {DropoutCause.FETCH_FAILED, DropoutCause.TRAINING_FAILED, DropoutCause.DIVERGED, DropoutCause.UNTRUSTED}
)
"""Dropouts that may be a version's fault; a person who takes the phone in hand is not one."""

LARGEST_LOSS = 69.1
"""Nats a word: -log(1e-30), below which the program takes no probability. A larger loss was made up."""

INVALID = "invalid"
"""Not a dropout: a report that could not be counted."""

Histogram = Mapping[int, int]
"""Recall in thousandths -> devices."""


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What devices found of one version. Recall before training is that of the version; after it, of what they made.

    Attributes:
        devices: that measured it.
        counted: held-out words, as the devices say.
        loss_before: sum over devices of the mean loss per target, nats.
        loss_after: the same sum after training, of those that trained.
        top1_before_of: recall -> devices; words foreseen first.
        top3_before_of: the same for the first three suggestions.
        top1_after_of: as the first, by what the device had trained.
        top3_after_of: the same for the first three suggestions.
        tried: devices that fetched and ran it, or failed at that.
        failures: cause -> of these, those that failed.
    """

    devices: int = 0
    counted: int = 0
    loss_before: float = 0.0
    loss_after: float = 0.0
    top1_before_of: Histogram = {}
    top3_before_of: Histogram = {}
    top1_after_of: Histogram = {}
    top3_after_of: Histogram = {}
    tried: int = 0
    failures: Mapping[str, int] = {}

    @property
    def failed(self) -> int:
        """Devices that failed."""
        return sum(self.failures.values())


class Spread(msgspec.Struct, frozen=True):
    """A recall over devices: its mean, and a tenth of them has at most p10, half at most p50."""

    mean: float
    p10: float
    p50: float
    p90: float


class FederatedMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A tally for people; the spreads are None before a device has measured anything.

    Attributes:
        devices: that measured the version.
        counted: held-out words.
        top1_before: recall of the version.
        top3_before: likewise among the first three.
        top1_after: recall after local training.
        top3_after: likewise.
        loss_before: mean over devices, nats.
        loss_after: likewise.
        tried: devices that fetched and ran it, or failed at that.
        failures: cause -> devices that failed.
    """

    devices: int
    counted: int
    top1_before: Spread | None
    top3_before: Spread | None
    top1_after: Spread | None
    top3_after: Spread | None
    loss_before: float | None
    loss_after: float | None
    tried: int
    failures: Mapping[str, int]


_BEFORE = ("top1_before", "top3_before")
_AFTER = ("top1_after", "top3_after")


def tally(evaluations: Iterable[LocalEvaluation], *, trained: bool = True) -> Tally:
    """Add up what devices found; those without a counted word are left out.

    Args:
        evaluations: one of each device.
        trained: whether the devices trained as well; if not, there is nothing "after".

    >>> one = LocalEvaluation(8, 2, 4, 3, 5, 5.0, 4.5)
    >>> tally([one, one]).top1_before_of
    {250: 2}
    """
    devices = 0
    sums: dict[str, float] = defaultdict(int)
    recalls = _BEFORE + _AFTER if trained else _BEFORE
    histograms: dict[str, Counter[int]] = {name: Counter() for name in recalls}
    for found in evaluations:
        if not found.counted:
            continue
        devices += 1
        sums["counted"] += found.counted
        for name in ("loss_before", "loss_after") if trained else ("loss_before",):
            sums[name] += min(max(getattr(found, name), 0.0), LARGEST_LOSS)
        for name in recalls:
            histograms[name][round(THOUSANDTHS * getattr(found, name) / found.counted)] += 1
    added: dict[str, Any] = {**sums}
    added |= {f"{name}_of": dict(histogram) for name, histogram in histograms.items()}
    return Tally(devices=devices, **added)


def tried_in(state: Round) -> Tally:
    """How the devices of a round fared with its base version: how many could run it, and why others could not.

    A device that came back for another attempt counts as often as it tried.
    """
    failures: Counter[str] = Counter()
    reported = 0
    for seat in state.seats.values():
        reported += seat.state is SeatState.REPORTED
        if seat.state is SeatState.REFUSED:
            failures[INVALID] += 1
        failures.update(cause.value for cause in (*seat.earlier, seat.cause) if cause in FAILURES)
    return Tally(tried=reported + failures.total(), failures=dict(failures))


def merged(one: Tally, other: Tally) -> Tally:
    """Both together.

    >>> merged(Tally(tried=2, failures={"diverged": 1}), Tally(tried=1, failures={"diverged": 1})).failures
    {'diverged': 2}
    """
    both: dict[str, Any] = {}
    for name in Tally.__struct_fields__:
        a, b = getattr(one, name), getattr(other, name)
        both[name] = dict(Counter(a) + Counter(b)) if isinstance(a, Mapping) else a + b
    return Tally(**both)


def figures(found: Tally) -> FederatedMetrics:
    """A tally for people."""
    spreads = {name: _spread(found, name) for name in _BEFORE + _AFTER}
    trained = sum(found.top1_after_of.values())
    return FederatedMetrics(
        devices=found.devices,
        counted=found.counted,
        loss_before=found.loss_before / found.devices if found.devices else None,
        loss_after=found.loss_after / trained if trained else None,
        tried=found.tried,
        failures=found.failures,
        **spreads,
    )


def mean_and_error(histogram: Histogram) -> tuple[float, float]:
    """Mean recall over devices, and its standard error; a single device tells nothing of its error.

    >>> mean_and_error({0: 1, 500: 1})
    (0.25, 0.25)
    """
    devices = sum(histogram.values())
    mean = sum(recall * count for recall, count in histogram.items()) / devices / THOUSANDTHS
    if devices < 2:
        return mean, math.inf
    squares = sum(count * (recall / THOUSANDTHS - mean) ** 2 for recall, count in histogram.items())
    return mean, math.sqrt(squares / (devices - 1) / devices)


def quantile(histogram: Histogram, share: float) -> float:
    """The smallest recall that at least this share of the devices does not exceed.

    >>> quantile({100: 1, 200: 8, 300: 1}, 0.1), quantile({100: 1, 200: 8, 300: 1}, 0.5)
    (0.1, 0.2)
    """
    wanted, passed = share * sum(histogram.values()), 0
    for recall in sorted(histogram):
        passed += histogram[recall]
        if passed >= wanted - 1e-9:
            return recall / THOUSANDTHS
    return 0.0


def _spread(found: Tally, name: str) -> Spread | None:
    histogram = getattr(found, f"{name}_of")
    if not histogram:
        return None
    mean, _ = mean_and_error(histogram)
    return Spread(mean, *(quantile(histogram, share) for share in QUANTILES))
