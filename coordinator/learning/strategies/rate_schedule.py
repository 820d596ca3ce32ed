"""Server learning-rate schedules: the share of the learning rate that applies in a round.

With r as the number of rounds that the task has committed, W warm-up rounds, T decay rounds and the final share f::

    warm-up      min(1, (r + 1) / W)
    constant     1
    cosine       f + (1 - f) (1 + cos(pi min(1, r / T))) / 2
    exponential  f ^ min(1, r / T)

The share is the warm-up times one of the others. After T rounds the rate stays at f.

Source: Loshchilov and Hutter 2017, "SGDR", equation 5, for the cosine; the warm-up is Goyal et al. 2017, section 2.2.
"""

from __future__ import annotations

import enum
import math
from typing import Annotated

import msgspec
from msgspec import Meta

FINAL_SHARE = 0.05
"""f is not 0, because people's words change, and a task without an end goes on learning."""


class Decay(enum.Enum):
    """How the learning rate falls."""

    CONSTANT = "constant"
    COSINE = "cosine"
    EXPONENTIAL = "exponential"


class RateSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """``[task.strategy.schedule]``: how the server learning rate changes from round to round."""

    decay: Decay = Decay.CONSTANT  # or cosine, exponential; an endless task has no last round
    warm_up_rounds: Annotated[int, Meta(ge=0, le=2**31)] = 0  # a warm-started model needs none
    decay_rounds: Annotated[int, Meta(ge=1, le=2**31)] = 600  # when the rate has fallen to a twentieth


def rate_share(schedule: RateSchedule, committed: int) -> float:
    """The share of the learning rate, 0 to 1.

    >>> cosine = RateSchedule(decay=Decay.COSINE, warm_up_rounds=4, decay_rounds=100)
    >>> [round(rate_share(cosine, r), 3) for r in (0, 1, 50, 100, 1000)]
    [0.25, 0.5, 0.525, 0.05, 0.05]
    """
    warm_up = min(1.0, (committed + 1) / schedule.warm_up_rounds) if schedule.warm_up_rounds else 1.0
    done, final = min(1.0, committed / schedule.decay_rounds), FINAL_SHARE
    match schedule.decay:
        case Decay.CONSTANT:
            return warm_up
        case Decay.COSINE:
            return warm_up * (final + (1 - final) * (1 + math.cos(math.pi * done)) / 2)
        case Decay.EXPONENTIAL:
            return warm_up * math.pow(final, done)
