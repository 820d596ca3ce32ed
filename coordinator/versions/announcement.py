"""The verdict on the version that rounds train from: is it announced to keyboards? Pure comparison of a tally.

Rounds go on from the newest version, and keyboards get the best one. Devices that take part in a round measure the
version that they received against the one that their keyboards have, each on its own held-out messages with its whole
keyboard (:mod:`nightjar.coordinator.learning.device_metrics`). The mean of the paired differences decides:

========================================================== ==========================================================
mean difference over devices, standard error e             verdict
========================================================== ==========================================================
fewer than ``minimum`` devices measured it                 none: rounds go on, keyboards keep what they have
at least 0                                                 BETTER: it is announced
below 0 by more than MARGIN_KEYSTROKES and CERTAIN times e WORSE: it is rolled back, rounds go on from the other
below 0 by less                                            UNDECIDED: rounds go on from it, it is not announced
========================================================== ==========================================================

So no version is announced that devices measured as worse than the announced one, which is therefore the best so far.
Each version is compared with that one and not with the one before it, so a slow decline adds up and is seen.
"""

from __future__ import annotations

import enum
import math

import msgspec

from nightjar.coordinator.learning.device_metrics import Tally, loss

MARGIN_KEYSTROKES = 0.5
"""Allowed loss in points of percent of the keystrokes: rounds may make good a smaller one."""
CERTAIN = 2.0
"""Required loss in standard errors: chance alone exceeds it one time in forty."""
LEAST_DEVICES = 2
"""Devices without which there is no standard error."""


class KeyboardOutcome(enum.Enum):
    """What devices found of a version, compared with the announced one."""

    UNMEASURED = "unmeasured"
    BETTER = "better"
    UNDECIDED = "undecided"
    WORSE = "worse"


class KeyboardVerdict(msgspec.Struct, frozen=True):
    """An outcome, and its figures in words."""

    outcome: KeyboardOutcome
    reason: str


def verdict(tally: Tally, version: int, announced: int, minimum: int) -> KeyboardVerdict:
    """Compare a version with the announced one.

    Args:
        tally: what devices measured of the version.
        version: its number.
        announced: number of the announced version.
        minimum: devices that must have measured both; at least LEAST_DEVICES are needed.

    >>> found = Tally(saved={3000: 1, 3200: 1}, gain_over={7: {50: 1, 150: 1}})
    >>> verdict(found, 8, 7, 2).outcome
    <KeyboardOutcome.BETTER: 'better'>
    >>> verdict(found, 8, 7, 2).reason
    '2 devices save 31.0 % of their keystrokes with version 8, 1.0 points more than with version 7 (standard error 0.5)'
    """
    gain, needed = tally.gain(announced), max(minimum, LEAST_DEVICES)
    if gain.devices < needed:
        reason = f"{gain.devices} of {needed} devices compared version {version} with version {announced}"
        return KeyboardVerdict(KeyboardOutcome.UNMEASURED, reason)
    points = f"{abs(gain.mean):.1f} points {'more' if gain.mean >= 0 else 'fewer'}"
    reason = (
        f"{gain.devices} devices save {tally.keystrokes.mean:.1f} % of their keystrokes with version {version}, "
        f"{points} than with version {announced} (standard error {gain.error:.1f})"
    )
    if gain.mean >= 0:
        return KeyboardVerdict(KeyboardOutcome.BETTER, reason)
    lost = -max(gain.mean, gain.most) > max(MARGIN_KEYSTROKES, CERTAIN * gain.error)
    return KeyboardVerdict(KeyboardOutcome.WORSE if lost else KeyboardOutcome.UNDECIDED, reason)


def saves_less(tried: Tally, current: Tally) -> str:
    """Why a version saves clearly fewer keystrokes than the current one on other devices; empty if it does not.

    A keyboard of a trial has the version that it tries, so nothing is paired.

    >>> tried, current = Tally(saved={2000: 1, 2020: 1}), Tally(saved={3000: 1, 3020: 1})
    >>> saves_less(tried, current)[:76]
    '2 devices that tried it save 20.1 % of their keystrokes, and 2 with the curr'
    """
    ours, theirs = tried.keystrokes, current.keystrokes
    if min(ours.devices, theirs.devices) < LEAST_DEVICES:
        return ""
    error = math.hypot(ours.error, theirs.error)
    if loss(theirs, ours) <= max(MARGIN_KEYSTROKES, CERTAIN * error):
        return ""
    return (
        f"{ours.devices} devices that tried it save {ours.mean:.1f} % of their keystrokes, and {theirs.devices} with "
        f"the current version {theirs.mean:.1f} % (standard error {error:.1f})"
    )


def is_measured(tally: Tally, minimum: int) -> bool:
    """Whether so many devices measured a version with their keyboards that they will measure the next one, too.

    >>> is_measured(Tally(saved={3000: 1}), minimum=1)
    False
    """
    return tally.keystrokes.devices >= max(minimum, LEAST_DEVICES)
