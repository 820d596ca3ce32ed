"""The rules that combine and weigh a cohort's updates, by name; :mod:`coordinator.learning.robust` has the others."""

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


class Weighting(enum.Enum):
    """How much the update of a device counts in the mean."""

    CAPPED = "capped"
    """Its number of examples, at most the cohort's median: a number that it claims buys no influence."""
    EXAMPLES = "examples"
    """Its number of examples, as McMahan et al. have it: for parties that trust each other."""
    EQUAL = "equal"
