"""Who may wait for a round, who is drawn, and when the others should come back (pace steering).

Pure: the seed, the generator and all times are arguments. The round decides *when* to draw; this module does not.
Source: Bonawitz et al. 2019, section 2.3 (pace steering).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wire.identifiers import DeviceId
from wire.messages import CheckIn, RejectionReason

_SELECTION_STREAM = 1
"""Separates the draws of the selection from other uses of the same root seed."""

SMALL_POPULATION = 10
"""Up to this many times the cohort a population is small: it must be brought together, not spread out."""
RENDEZVOUS_SHARE = 0.1
"""Jitter of a rendezvous as a share of the waiting time: enough not to arrive in one instant, and still together."""
ARRIVALS_WANTED = 2.0
"""Cohorts that a large population should send into one selection window."""


def sample(pool: Sequence[DeviceId], count: int, seed: int, round_number: int) -> list[DeviceId]:
    """A uniform sample without replacement; the order in which the pool filled plays no part.

    >>> sample([DeviceId("b"), DeviceId("a")], 5, seed=7, round_number=1)
    ['a', 'b']

    Args:
        pool: device ids, in any order.
        count: at most this many are drawn.
        seed: root seed of the coordinator.
        round_number: gives each round a draw of its own.

    Returns:
        Device ids in ascending order.
    """
    candidates = sorted(pool)
    if len(candidates) <= count:
        return candidates
    generator = np.random.default_rng([seed, _SELECTION_STREAM, round_number])
    return [candidates[i] for i in sorted(generator.choice(len(candidates), count, replace=False).tolist())]


@dataclass(frozen=True, slots=True)
class Admission:
    """What a device must have to wait in the pool.

    Attributes:
        minimum_examples: fewest stored messages.
        minimum_agent_version: ``major.minor.patch`` of the manifest.
    """

    minimum_examples: int
    minimum_agent_version: str


def refusal(check_in: CheckIn, admission: Admission) -> tuple[RejectionReason, str] | None:
    """Why a device may not wait in the pool, with words for its owner; None if it may."""
    if _version(check_in.agent_version) < _version(admission.minimum_agent_version):
        detail = f"this model needs agent {admission.minimum_agent_version} or newer, got {check_in.agent_version[:32]}"
        return RejectionReason.OUTDATED_AGENT, detail
    if check_in.examples < admission.minimum_examples:
        detail = f"{admission.minimum_examples} stored messages are needed, the device has {check_in.examples}"
        return RejectionReason.TOO_FEW_EXAMPLES, detail
    return None


def retry_after_s(
    opens_in_s: float,
    shortest_s: float,
    window_s: float,
    population: int,
    cohort: int,
    generator: np.random.Generator,
) -> float:
    """When a device that is not needed now should check in again.

    A small population is called to a rendezvous just after the next selection is expected to open, so that enough
    devices wait at the same time. A large one is spread over so long a time that about two cohorts arrive in each
    selection window, so that the coordinator is not overrun.

    Args:
        opens_in_s: time until the next selection is expected to open.
        shortest_s: no device is called back sooner.
        window_s: longest time of a selection.
        population: devices seen lately.
        cohort: devices that a round selects.
        generator: source of the jitter.

    Returns:
        Seconds from now, at least ``shortest_s``.
    """
    earliest_s = max(opens_in_s, shortest_s)
    spread_s = RENDEZVOUS_SHARE * earliest_s
    if population > SMALL_POPULATION * cohort:
        spread_s = window_s * population / (ARRIVALS_WANTED * cohort)
    return earliest_s + spread_s * float(generator.random())


def _version(text: str) -> tuple[int, ...]:
    """Numbers of ``major.minor.patch``; anything else counts as older than every version."""
    found = re.match(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})", text)
    return tuple(int(part) for part in found.groups()) if found else ()
