"""The settings of differential privacy, and the noise that follows from them. Pure."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from nightjar.coordinator.learning.privacy.accounting import calibrated
from nightjar.coordinator.learning.privacy.adaptive_clipping import fewest_reports
from nightjar.coordinator.learning.privacy.ledger import Privacy
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.wire.secure_sum.terms import honest_devices, threshold_for


class DpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.dp]``: differential privacy of each device, with ``privacy = "dp"`` or ``"secure-dp"``.

    Attributes:
        epsilon: after all rounds.
        delta: chance that the promise fails.
        clip_norm: largest norm of an update.
        clip_quantile: with "dp", ``clip_norm`` follows this quantile of the updates' norms.
    """

    epsilon: Annotated[float, Meta(gt=0, le=1000)] = 10.0  # weak; smaller takes more devices
    delta: Annotated[float, Meta(gt=0, le=1e-3)] = 1e-6  # for up to a hundred thousand devices
    clip_norm: Annotated[float, Meta(gt=0, le=1e9)] = 1.0  # about half of the updates of a warm start are longer
    clip_quantile: Annotated[float, Meta(gt=0, lt=1)] | None = None  # fixed: following takes a large goal


def clipping_faults(privacy: Privacy, dp: DpConfig, noise: NoiseTerms | None, goal: int) -> list[str]:
    """Why a clip norm cannot follow a quantile."""
    if dp.clip_quantile is None:
        return []
    match privacy:
        case Privacy.SECURE_DP:
            why = (
                "with secure-dp the count of updates within the clip norm would need noise from devices, and a check "
                "of it by each; leave it out"
            )
        case Privacy.DP:
            least = 1 if noise is None else fewest_reports(noise.multiplier, dp.clip_quantile)
            if goal >= least:
                return []
            why = (
                f"expected a goal of at least {least} for the noise in the count of updates within the clip norm, got "
                f"{goal}; leave it out, or take a larger goal, dp.epsilon or minimum_separation"
            )
        case Privacy.NONE | Privacy.SECURE_SUM:
            why = "without noise the clip norm follows the median anyway; leave it out, or take privacy dp"
    return [f"dp.clip_quantile: {why}"]


def noise_for(dp: DpConfig, rounds: int, separation: int, devices: int, key: str, *, summed: bool) -> NoiseTerms:
    """The noise with which all the rounds together stay within the epsilon of ``dp``.

    A device is at most once in ``separation`` committed rounds in a row. With ``summed``, devices add the noise inside
    a secure sum: then ``devices``, the reports of a round, are the fewest, and the key, a secret in hex, is empty.
    """
    counted = dp.clip_quantile is not None
    return NoiseTerms(
        clip_norm=dp.clip_norm,
        devices=devices,
        multiplier=calibrated(dp.epsilon, dp.delta, rounds, separation, counted=counted, summed=summed),
        separation=separation,
        key=key,
        honest=honest_devices(devices, threshold_for(devices)) if summed else 0,
        quantile=None if summed else dp.clip_quantile,
    )
