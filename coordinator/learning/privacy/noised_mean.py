"""The mean of clipped updates with noise: what a private round publishes.

With C as the clip norm, n as the goal, z as the noise multiplier and g as the step of the tree noise::

    (sum(s_k u_k) + z C g) / n

C may change from round to round (:mod:`nightjar.coordinator.learning.privacy.adaptive_clipping`). Every device counts
the same and moves the sum by at most C: the sensitivity. n is the goal also when fewer report, so that it tells
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.learning.fedavg import Aggregate, Combined, Contribution, WeightedMean
from nightjar.coordinator.learning.privacy.tree_noise import noise_step, ratcheted
from nightjar.coordinator.learning.strategies import Wide
from nightjar.wire.errors import LocalProtocolError


class NoiseTerms(msgspec.Struct, frozen=True, kw_only=True):
    """How a task's sums are noised; fixed when the task is created, but for the secrets.

    Attributes:
        clip_norm: C; with a quantile, that of the first round.
        devices: n.
        multiplier: z.
        separation: S, rounds of a tree.
        key: the secret of the next round's noise, in hex; replaced with each round.
        seeds: those secrets of former rounds on which later ones build.
        honest: how many devices' noise is counted on, where devices add it inside secure sums
            (:mod:`nightjar.coordinator.learning.privacy.distributed`); 0 where the coordinator adds it.
        quantile: share of the updates within C that C follows; None leaves it as it is.
    """

    clip_norm: float
    devices: int
    multiplier: float
    separation: int
    key: str
    honest: int = 0
    quantile: float | None = None
    seeds: Mapping[str, str] = {}

    def noise(self, step: int, size: int, purpose: bytes = b"") -> Wide:
        """The noise of a round, (size,) float64 (:func:`nightjar.coordinator.learning.privacy.tree_noise.noise_step`).

        Raises:
            LocalProtocolError: the terms are without their secrets, so that anybody could draw the noise.
        """
        if not self.key:
            msg = "the secrets of the noise are not here: a backup does not hold them, and restoring ends the task"
            raise LocalProtocolError(msg)
        return noise_step(bytes.fromhex(self.key), step, self.separation, size, self.seeds, purpose)

    def after(self, step: int) -> NoiseTerms:
        """The terms once a round's noise was drawn: they do not tell it, unless later rounds build on it."""
        if self.honest:
            return self
        key, seeds = ratcheted(bytes.fromhex(self.key), step, self.separation, self.seeds)
        return replace(self, key=key.hex(), seeds=seeds)

    def without_secrets(self) -> NoiseTerms:
        """The terms without what the noise is drawn from."""
        return replace(self, key="", seeds={})


class NoisedMean:
    """Combines the updates of a cohort, all of weight 1.

    ``step`` is the number of the rounds that the task committed before, and ``clip_norm`` the C of the round.
    """

    def __init__(self, terms: NoiseTerms, step: int, clip_norm: float, size: int) -> None:
        self._terms, self._step, self._clip_norm = terms, step, clip_norm
        self._sum = WeightedMean(size)

    def add(self, contribution: Contribution) -> None:
        """Add the update of one device; see :meth:`nightjar.coordinator.learning.fedavg.Accumulator.add`."""
        self._sum.add(contribution)

    def combined(self) -> Combined:
        """The sum with its noise, divided by the goal."""
        terms, total = self._terms, self._sum.total
        noise = terms.noise(self._step, total.size)
        return Combined((total + terms.multiplier * self._clip_norm * noise) / terms.devices)


def noised_mean(terms: NoiseTerms, step: int, clip_norm: float) -> Aggregate:
    """What combines the updates of a cohort; as :class:`NoisedMean`."""
    return partial(NoisedMean, terms, step, clip_norm)
