"""Power-of-choice: prefers devices whose loss is high.

Of the devices that could take part, d are drawn as usual, and those m of them take part whose loss was highest the last
time they trained. Devices that never trained come first. With d = m the choice is uniform; the larger d, the faster and
the more biased. This is the variant that costs the devices nothing (rpow-d): no loss is computed for the choice.

Source: Cho et al. 2020, "Client Selection in Federated Learning: Convergence Analysis and Power-of-Choice Selection
Strategies", section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nightjar.wire.identifiers import DeviceId


def highest_losses(drawn: Sequence[DeviceId], losses: Mapping[DeviceId, float], count: int) -> list[DeviceId]:
    """The devices that take part.

    >>> drawn = [DeviceId(each) for each in "abc"]
    >>> highest_losses(drawn, {DeviceId("a"): 4.0, DeviceId("b"): 5.0}, 2)
    ['b', 'c']

    Args:
        drawn: the d candidates.
        losses: device -> its last training loss, nats; devices that never trained are missing.
        count: m.

    Returns:
        Device ids in ascending order.
    """
    return sorted(sorted(drawn, key=lambda each: (-losses.get(each, math.inf), each))[:count])
