"""Whether somebody's text was trained on: by how much an update lowers the loss on it. Pure.

Sources: Yeom et al. 2018, "Privacy Risk in Machine Learning", adversary 1, for the loss; the loss before the round
calibrates it, as in Watson et al. 2022, "On the Importance of Difficulty Calibration in Membership Inference Attacks".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def auc(members: Sequence[float], others: Sequence[float]) -> float:
    """The probability that a member scores higher than another; ties count half (Mann and Whitney 1947).

    >>> auc([2.0, 1.0], [1.0, 0.0])
    0.875
    """
    ours, theirs = np.array(members)[:, None], np.array(others)[None, :]
    return float(np.mean((ours > theirs) + 0.5 * (ours == theirs)))
