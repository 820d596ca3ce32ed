"""On-device metrics of a version, as sums from which no single device can be identified.

A device holds out some messages (``evaluation_share`` of the plan). It counts how many of their words are predicted by
the model that it received, and how many by the model after its training. This module adds these counts up to a *tally*
of the version: sums and, for each metric, a histogram of devices by recall in thousandths. Tallies can be merged, so no
single device's metrics need to be stored, and quantiles over devices can still be computed.

A device with a keyboard also counts the keystrokes that its whole keyboard saves on these messages, with the version
that it received and with the one that its keyboard has. The difference is paired: both are measured on the same words,
so people who type differently add nothing to its variance. The tally keeps sums of the differences and of their squares
for each version that was compared with, in points of percent of the keystrokes.

Each device counts once, in quantiles and in the mean. A device reports its own number of words, so weighting by words
would let one device dominate the mean.
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
QUANTILES = (0.1, 0.5, 0.9)

FAILURES = frozenset(
    {DropoutCause.FETCH_FAILED, DropoutCause.TRAINING_FAILED, DropoutCause.DIVERGED, DropoutCause.UNTRUSTED}
)
"""Causes of dropouts that may be a fault of the version; a person who starts using the phone is not one."""

LARGEST_LOSS = 69.1
"""Maximum loss per word in nats: -log(1e-30), the program's lower bound on probabilities. A larger loss is invented."""

MOST_POINTS = 10.0
"""Largest gain or loss of keystrokes that counts for a device, in points: one version changes less. A device that types
little is off by several points, and one that lies would otherwise decide for a whole cohort."""

INVALID = "invalid"
"""Failure cause that is not a dropout: a report that was refused."""

Histogram = Mapping[int, int]
"""Recall in thousandths -> number of devices."""


class DeviceSums(msgspec.Struct, frozen=True):
    """A figure of each device, summed over devices: their number, the sum, and the sum of the squares.

    >>> figure = DeviceSums.of([1.0, 3.0])
    >>> figure.mean, figure.error
    (2.0, 1.0)
    """

    devices: int = 0
    total: float = 0.0
    squares: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float]) -> DeviceSums:
        """The sums of one value for each device."""
        given = list(values)
        return cls(len(given), math.fsum(given), math.fsum(value * value for value in given))

    def __add__(self, other: DeviceSums) -> DeviceSums:
        """The sums over the devices of both."""
        return DeviceSums(self.devices + other.devices, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """The mean over devices; 0 if there are none."""
        return self.total / self.devices if self.devices else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean, which is infinite for fewer than two devices."""
        if self.devices < 2:
            return math.inf
        deviations = max(self.squares - self.total * self.mean, 0.0)  # rounding may leave less than nothing
        return math.sqrt(deviations / (self.devices - 1) / self.devices)


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
        saved: keystrokes that the devices' keyboards save with the version, in percent of all.
        gain_over: another version that keyboards had -> how many more they save with this one, in points of percent.
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
    saved: DeviceSums = DeviceSums()
    gain_over: Mapping[int, DeviceSums] = {}

    @property
    def failed(self) -> int:
        """Number of devices that failed to fetch or run the version."""
        return sum(self.failures.values())


class Spread(msgspec.Struct, frozen=True):
    """The distribution of a recall over devices: its mean and the 10th, 50th and 90th percentiles."""

    mean: float
    p10: float
    p50: float
    p90: float


class Mean(msgspec.Struct, frozen=True):
    """The mean over devices of a figure in points of percent, and its standard error; None with a single device."""

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
    >>> found.saved.mean, found.gain_over[7].mean
    (31.5, 1.5)
    """
    measured = [each for each in keyboards if each.letters]
    gains: dict[int, list[float]] = defaultdict(list)
    for each in measured:
        points = 100 * (each.saved - each.saved_announced) / each.letters
        gains[each.announced].append(min(max(points, -MOST_POINTS), MOST_POINTS))
    return Tally(
        saved=DeviceSums.of(100 * each.saved / each.letters for each in measured),
        gain_over={announced: DeviceSums.of(of_devices) for announced, of_devices in gains.items()},
    )


def tried_in(state: Round) -> Tally:
    """How many devices of a round could run its base version, and why the others could not.

    A device with several attempts counts once per attempt.
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
    return {**one, **other, **{key: one[key] + other[key] for key in one.keys() & other.keys()}}


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
        saved=_mean(found.saved),
        gain_over={version: mean for version, sums in found.gain_over.items() if (mean := _mean(sums)) is not None},
        **spreads,
    )


def mean_and_error(histogram: Histogram) -> tuple[float, float]:
    """Mean recall over devices and its standard error, which is infinite for a single device.

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
    """The smallest recall that at least ``share`` of the devices do not exceed.

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


def _mean(sums: DeviceSums) -> Mean | None:
    if not sums.devices:
        return None
    return Mean(sums.devices, sums.mean, sums.error if math.isfinite(sums.error) else None)
