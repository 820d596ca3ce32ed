"""The rules that combine a cohort's updates, by name; :mod:`coordinator.learning.robust` has them."""

from __future__ import annotations

import enum


class Aggregation(enum.Enum):
    """How the updates of a cohort are combined; every rule but the mean gives up some of it for robustness."""

    MEAN = "mean"
    MEDIAN = "median"
    TRIMMED_MEAN = "trimmed-mean"
    MULTI_KRUM = "multi-krum"
    BULYAN = "bulyan"
    FOOLSGOLD = "foolsgold"
    FED_PLUS = "fed-plus"
    NOISY_MEAN = "noisy-mean"
