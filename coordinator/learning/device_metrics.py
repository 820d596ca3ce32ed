"""On-device metrics of a version, as sums from which no single device can be identified.

A device holds out some messages (``evaluation_share`` of the plan). It counts how many of their words are predicted by
the model that it received, and how many by the model after its training. This module adds these counts up to a *tally*
of the version: sums and, for each metric, a histogram of devices by recall in thousandths. Tallies can be merged, so no
single device's metrics need to be stored, and quantiles over devices can still be computed.

A device with a keyboard also counts the keystrokes that its whole keyboard saves on these messages, with the version
that it received and with the one that its keyboard has. The difference is paired: both are measured on the same words,
so people who type differently add nothing to its variance. The tally keeps a histogram of the differences for each
version that was compared with, in hundredths of a point of percent of the keystrokes.

Each device counts once: it reports its own number of words, so weighting by words would let one device dominate. And
devices may lie about their own figures, so an :class:`Estimate` holds where a tenth of them do
([security](../../docs/security.md)): its mean is trimmed, and it bounds the median that the others have.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from nightjar.coordinator.rounds.round import Round
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.messages import DropoutCause

THOUSANDTHS = 1000
HUNDREDTHS = 100
"""Keystrokes are kept in hundredths of a percent."""
QUANTILES = (0.1, 0.5, 0.9)

FAILURES = frozenset(
    {DropoutCause.FETCH_FAILED, DropoutCause.TRAINING_FAILED, DropoutCause.DIVERGED, DropoutCause.UNTRUSTED}
)
"""Causes of dropouts that may be a fault of the version; a person who starts using the phone is not one."""

LARGEST_LOSS = 69.1
"""Maximum loss per word in nats: -log(1e-30), the program's lower bound on probabilities. A larger loss is invented."""

LIARS = 0.1
"""Share of a version's devices whose lies neither roll a good version back nor let a bad one out."""

INVALID = "invalid"
"""Failure cause that is not a dropout: a report that was refused."""

Histogram = Mapping[int, int]
"""Recall in thousandths, or keystrokes in hundredths of a percent -> number of devices."""


class Estimate(msgspec.Struct, frozen=True):
    """What a figure of devices is if at most the share LIARS of them lied about theirs.

    Attributes:
        devices: their number.
        mean: trimmed mean, without the share LIARS of the devices at each end.
        error: its standard error, infinite for fewer than two devices.
        least: lower bound of the median of the honest devices.
        most: upper bound of it.
    """

    devices: int
    mean: float
    error: float
    least: float
    most: float


def estimate(histogram: Histogram, unit: float) -> Estimate:
    """The estimate of a figure from its histogram over devices, in multiples of ``unit``.

    >>> estimate({100: 9, 900: 1}, 1 / 1000)
    Estimate(devices=10, mean=0.1, error=0.0, least=0.1, most=0.1)
    >>> estimate({0: 1, 50: 1}, 0.01).mean, estimate({}, 0.01).error
    (0.25, inf)

    Source: the error is that of the winsorised values, of Tukey and McLaughlin 1963.
    """
    devices = sum(histogram.values())
    if not devices:
        return Estimate(0, 0.0, math.inf, 0.0, 0.0)
    cut = math.floor(LIARS * devices)
    low, high = _ranked(histogram, cut + 1), _ranked(histogram, devices - cut)
    kept = devices - 2 * cut
    winsorised = [(min(max(value, low), high), count) for value, count in histogram.items()]
    # The devices of the two ends count as their neighbours for the error, and not at all for the mean.
    mean = (sum(value * count for value, count in winsorised) - cut * (low + high)) / kept
    centre = sum(value * count for value, count in winsorised) / devices
    squares = sum(count * (value - centre) ** 2 for value, count in winsorised)
    error = unit * math.sqrt(squares * devices / (devices - 1)) / kept if devices > 1 else math.inf
    half = LIARS / 2
    return Estimate(
        devices, unit * mean, error, unit * _quantile(histogram, 0.5 - half), unit * _quantile(histogram, 0.5 + half)
    )


def loss(before: Estimate, now: Estimate) -> float:
    """How much lower a figure surely is now: what remains if a tenth of the devices of both lied.

    >>> honest, lied = estimate({200: 20}, 0.01), estimate({200: 18, 0: 2}, 0.01)
    >>> loss(honest, lied), loss(honest, estimate({100: 20}, 0.01))
    (0.0, 1.0)
    """
    return min(before.mean - now.mean, before.least - now.most)


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """The summed on-device metrics of one version: "before" local training (the version itself) and "after" it.

    Attributes:
        devices: number of devices that measured the version.
        counted: number of held-out words, as reported by the devices.
        loss_before: sum over devices of the mean loss per target before training, nats.
        loss_after: sum over the devices that trained of the mean loss per target after training, nats.
        top1_before_of: histogram of the recall of the best suggestion before training; the others likewise.
        tried: number of devices that ran the version or failed to fetch or run it.
        failures: cause -> number of devices that failed to fetch or run the version.
        saved: histogram of the keystrokes that the devices' keyboards save with the version.
        gain_over: another version that keyboards had -> histogram of how many more they save with this one.
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
    saved: Histogram = {}
    gain_over: Mapping[int, Histogram] = {}

    @property
    def failed(self) -> int:
        """Number of devices that failed to fetch or run the version."""
        return sum(self.failures.values())

    @property
    def keystrokes(self) -> Estimate:
        """Keystrokes that keyboards save with the version, percent."""
        return estimate(self.saved, 1 / HUNDREDTHS)

    def gain(self, version: int) -> Estimate:
        """How many more keystrokes keyboards save with this version than with another, points of percent."""
        return estimate(self.gain_over.get(version, {}), 1 / HUNDREDTHS)


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a recall over devices: its trimmed mean and the 10th, 50th and 90th percentiles."""

    mean: float
    p10: float
    p50: float
    p90: float


class Mean(msgspec.Struct, frozen=True):
    """The trimmed mean over devices of a figure in percent, and its standard error; None with a single device."""

    devices: int
    mean: float
    error: float | None


class FederatedMetrics(msgspec.Struct, frozen=True, kw_only=True):
    """A tally in readable form, with mean losses; a spread, a loss or a mean is None until a device has measured it.

    ``saved`` is how many of their keystrokes the devices' keyboards save with the version; ``gain_over`` maps another
    version to how many more they save with this one, on the same words.
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
    saved: Mean | None
    gain_over: Mapping[int, Mean]


_BEFORE = ("top1_before", "top3_before")
_AFTER = ("top1_after", "top3_after")


def tally(evaluations: Iterable[LocalEvaluation], *, trained: bool = True) -> Tally:
    """Add up the evaluations of devices, one each; those without a counted word are left out.

    If the devices have not ``trained``, the "after" metrics stay empty.

    >>> one = LocalEvaluation(8, 2, 4, 3, 5, 5.0, 4.5)
    >>> tally([one, one]).top1_before_of
    {250: 2}
    """
    devices = 0
    sums: dict[str, float] = defaultdict(int)
    recalls = _BEFORE + _AFTER if trained else _BEFORE
    histograms: dict[str, Counter[int]] = {name: Counter() for name in recalls}
    for evaluation in evaluations:
        if not evaluation.counted:
            continue
        devices += 1
        sums["counted"] += evaluation.counted
        for name in ("loss_before", "loss_after") if trained else ("loss_before",):
            sums[name] += min(max(getattr(evaluation, name), 0.0), LARGEST_LOSS)
        for name in recalls:
            histograms[name][round(THOUSANDTHS * getattr(evaluation, name) / evaluation.counted)] += 1
    added: dict[str, Any] = {**sums}
    added |= {f"{name}_of": dict(histogram) for name, histogram in histograms.items()}
    return Tally(devices=devices, **added)


def keystrokes(keyboards: Iterable[KeyboardEvaluation]) -> Tally:
    """Add up what the keyboards of devices save, one evaluation each.

    >>> found = keystrokes([KeyboardEvaluation(200, 62, 7, 60), KeyboardEvaluation(100, 32, 7, 30)])
    >>> found.keystrokes.mean, found.gain(7).mean
    (31.5, 1.5)
    """
    saved: Counter[int] = Counter()
    gains: dict[int, Counter[int]] = defaultdict(Counter)
    for each in keyboards:
        if each.letters:
            saved[_share(each.saved, each.letters)] += 1
            gains[each.announced][_share(each.saved - each.saved_announced, each.letters)] += 1
    return Tally(saved=dict(saved), gain_over={announced: dict(found) for announced, found in gains.items()})


def _share(part: int, whole: int) -> int:
    return round(100 * HUNDREDTHS * part / whole)


def tried_in(state: Round) -> Tally:
    """How many devices of a round could run its base version, and why the others could not.

    A device counts once, however often it tried: by its report, or else by what came of its last attempt that counts.
    """
    failures: Counter[str] = Counter()
    reported = 0
    for seat in state.seats.values():
        failed = [cause.value for cause in (*seat.earlier, seat.cause) if cause in FAILURES]
        if seat.state is SeatState.REPORTED:
            reported += 1
        elif seat.state is SeatState.REFUSED:
            failures[INVALID] += 1
        elif failed:
            failures[failed[-1]] += 1
    return Tally(tried=reported + failures.total(), failures=dict(failures))


def merged(one: Tally, other: Tally) -> Tally:
    """The sum of two tallies.

    >>> merged(Tally(tried=2, failures={"diverged": 1}), Tally(tried=1, failures={"diverged": 1})).failures
    {'diverged': 2}
    """
    both: dict[str, Any] = {}
    for name in Tally.__struct_fields__:
        a, b = getattr(one, name), getattr(other, name)
        both[name] = _joined(a, b) if isinstance(a, Mapping) else a + b
    return Tally(**both)


def _joined(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    both = {**one, **other}
    for key in one.keys() & other.keys():
        a, b = one[key], other[key]
        both[key] = _joined(a, b) if isinstance(a, Mapping) else a + b
    return both


def figures(found: Tally) -> FederatedMetrics:
    """A tally in readable form."""
    spreads = {name: _spread(found, name) for name in _BEFORE + _AFTER}
    trained = sum(found.top1_after_of.values())
    return FederatedMetrics(
        devices=found.devices,
        counted=found.counted,
        loss_before=found.loss_before / found.devices if found.devices else None,
        loss_after=found.loss_after / trained if trained else None,
        tried=found.tried,
        failures=found.failures,
        saved=_mean(found.keystrokes),
        gain_over={version: mean for version in found.gain_over if (mean := _mean(found.gain(version))) is not None},
        **spreads,
    )


def quantile(histogram: Histogram, share: float) -> float:
    """The smallest recall that at least ``share`` of the devices do not exceed.

    >>> quantile({100: 1, 200: 8, 300: 1}, 0.1), quantile({100: 1, 200: 8, 300: 1}, 0.5)
    (0.1, 0.2)
    """
    return _quantile(histogram, share) / THOUSANDTHS


def _quantile(histogram: Histogram, share: float) -> int:
    devices = sum(histogram.values())
    return _ranked(histogram, max(math.ceil(share * devices - 1e-9), 1)) if devices else 0


def _ranked(histogram: Histogram, rank: int) -> int:
    """The value of the device of a rank, from 1."""
    passed = 0
    for value in sorted(histogram):
        passed += histogram[value]
        if passed >= rank:
            return value
    raise AssertionError


def _spread(found: Tally, name: str) -> Spread | None:
    histogram = getattr(found, f"{name}_of")
    if not histogram:
        return None
    mean = estimate(histogram, 1 / THOUSANDTHS).mean
    return Spread(mean, *(quantile(histogram, share) for share in QUANTILES))


def _mean(found: Estimate) -> Mean | None:
    if not found.devices:
        return None
    return Mean(found.devices, found.mean, found.error if math.isfinite(found.error) else None)
