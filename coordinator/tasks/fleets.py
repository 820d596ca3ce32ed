"""The settings that suit a fleet by its size: what ``nightjar-coordinator init --fleet`` writes. Pure.

What teaches hundreds of people harms a household. A few people's words are soon learned by heart, and each round at a
large rate after that takes away from what the model knew (docs/learning.md has the runs). So a household takes small
steps, and hundreds large ones that momentum carries on and that become smaller from round to round.

A file that leaves a setting out gets the default of :mod:`nightjar.coordinator.tasks.settings` instead, which stays as
it is: a new default would change the optimizer of tasks that are running.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

Value = bool | int | float | str


class FleetSize(enum.Enum):
    """How many people type on keyboards of a fleet."""

    HOUSEHOLD = "household"
    """Two to some ten."""
    HUNDREDS = "hundreds"
    THOUSANDS = "thousands"


_UPDATES: Mapping[str, Value] = {
    "task.codec.name": "sampled-4",  # learns as dense updates do, over many reports
    "task.codec.density": 0.05,
    "task.plan.evaluation_share": 0.1,  # so that devices measure what they get
}
_HUNDREDS: Mapping[str, Value] = {
    **_UPDATES,
    "task.goal": 20,
    "task.minimum": 10,
    "task.patience": 50,
    "task.plan.learning_rate": 3.0,
    "task.plan.clip_norm": 0.5,
    "task.strategy.name": "fedavgm",
    "task.strategy.server_learning_rate": 1.0,
    "task.strategy.schedule.decay": "cosine",
    "task.strategy.schedule.decay_rounds": 600,
    "limits.household": False,
}
SETTINGS: Mapping[FleetSize, Mapping[str, Value]] = MappingProxyType(
    {
        FleetSize.HOUSEHOLD: {
            **_UPDATES,
            "task.goal": 4,
            "task.minimum": 2,
            "task.patience": 20,
            "task.plan.learning_rate": 0.3,
            "task.plan.clip_norm": 1.0,
            "task.strategy.name": "fedavg",
            "task.strategy.server_learning_rate": 1.0,
            "task.strategy.schedule.decay": "constant",
            "task.strategy.schedule.decay_rounds": 600,
            "limits.household": True,
        },
        FleetSize.HUNDREDS: _HUNDREDS,
        FleetSize.THOUSANDS: {**_HUNDREDS, "task.goal": 100, "task.minimum": 50},
    }
)
"""Settings by dotted name, the same names for each size."""
