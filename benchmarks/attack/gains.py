"""What a coordinator that lies gains beyond an honest one of the same mode, over people that the seed draws. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np

from nightjar.benchmarks.attack.measure_leaks import Leak
from nightjar.benchmarks.attack.scene import Scene
from nightjar.models.vocabulary import FIRST_WORD
from nightjar.simulation.warm_start import seeded
from nightjar.wire.parameters import Vector

T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.2, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.1, 2.09)
"""Student's t at 97.5 % by degrees of freedom, from 1; above, 2 is near enough."""


def interval(gains: Sequence[float]) -> tuple[float, float, float]:
    """The mean and its 95 % interval (Student 1908).

    >>> interval([0.0, 0.0])
    (0.0, 0.0, 0.0)
    """
    mean = statistics.fmean(gains)
    if len(gains) < 2:
        return mean, -math.inf, math.inf
    t = T_95[len(gains) - 2] if len(gains) - 2 < len(T_95) else 2.0
    half = t * statistics.stdev(gains) / math.sqrt(len(gains))
    return mean, mean - half, mean + half


def gain_of(attack: str, defence: str, cohort: int, gains: Sequence[float], *, mended: bool) -> Leak:
    """The row of an attack, from its gain of each person."""
    gain, low, high = interval(gains)
    return Leak(attack=attack, defence=defence, cohort=cohort, mended=mended, gain=gain, gain_low=low, gain_high=high)


def people_of(scene: Scene, what: str, count: int) -> list[int]:
    """Members that are attacked."""
    return [int(seeded(scene.seed, what, each).integers(scene.group)) for each in range(count)]


def others_of(scene: Scene, what: str, person: int, count: int) -> list[int]:
    """So many other members, for one that is attacked; fewer if there are not so many."""
    drawn = seeded(scene.seed, what, "others", person).permutation(scene.group).tolist()
    return [other for other in drawn if other != person][:count]


def embedding_of(scene: Scene, update: Vector) -> Vector:
    """The rows of the embedding in an update, (V, D) float32."""
    return scene.layout.unflatten(update)["embedding"]


def lengths_of(scene: Scene, update: Vector) -> Vector:
    """By how much an update changes each word's row, (V,): the more, the likelier the word was typed."""
    lengths: Vector = np.linalg.norm(embedding_of(scene, update), axis=1)
    return lengths


def typed_by(scene: Scene, person: int) -> Vector:
    """Ids of the distinct words that a person trains on, (k,)."""
    typed: Vector = np.unique(scene.device.batches[person].y)
    return typed[typed >= FIRST_WORD]


def named(scene: Scene, scores: Vector, person: int) -> float:
    """The share of a person's words among as many words with the highest scores (V,)."""
    typed = typed_by(scene, person)
    best = FIRST_WORD + np.argsort(-scores[FIRST_WORD:], kind="stable")[: typed.size]
    return float(np.isin(typed, best).mean())
