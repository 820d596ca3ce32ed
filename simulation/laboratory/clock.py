"""Time in the laboratory: how long each person's device works, and whose reports make which version when. Pure.

Nothing here depends on what is learned, so a run that goes on plans the same versions again.

Sources: Bonawitz et al. 2019, "Towards Federated Learning at Scale", for rounds that select more than they need;
Nguyen et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation", algorithm 1.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nightjar.coordinator.learning.strategies import Wide
from nightjar.simulation.laboratory.experiment import Experiment, TimeSettings
from nightjar.simulation.warm_start import seeded


@dataclass(frozen=True, slots=True)
class PlannedWork:
    """The work of a person's device whose report counts, trained from the weights of version ``base``."""

    person: int
    base: int


@dataclass(frozen=True, slots=True)
class PlannedVersion:
    """A version before it is learned."""

    work: tuple[PlannedWork, ...]  # whose reports make it, each person once
    hours: float = 0.0  # from the version before to this one
    device_seconds: float = 0.0  # time that devices worked, seconds; of a round, also after its end
    wasted_seconds: float = 0.0  # of these, the time of work whose report does not count
    in_use: frozenset[int] = frozenset()  # older versions that devices still work from


def seconds_of_work(time: TimeSettings, people: int, seed: int) -> Wide:
    """What each person's device needs to fetch a version, train it and report, seconds: (people,) float64.

    >>> slow = TimeSettings(training_s=60.0, transfer_s=10.0, spread=0.0, slow_share=0.25, slow_factor=10.0)
    >>> sorted(seconds_of_work(slow, 4, seed=1).tolist())
    [70.0, 70.0, 70.0, 610.0]
    """
    factors = np.exp(time.spread * seeded(seed, "speed").standard_normal(people))
    slow = seeded(seed, "slow").permutation(people)[: round(time.slow_share * people)]
    factors[slow] *= time.slow_factor
    return time.transfer_s + time.training_s * factors


def first_to_report(
    cohort: Sequence[int], seconds: Wide, size: int, number: int, selection_s: float = 0.0
) -> PlannedVersion:
    """A synchronous round: it ends when enough devices have reported; the others find out when they report, too late.

    >>> planned = first_to_report([0, 1, 2], np.array([3600.0, 90.0, 1800.0]), size=2, number=1)
    >>> [each.person for each in planned.work], planned.hours, planned.wasted_seconds
    ([1, 2], 0.5, 3600.0)

    ``seconds`` is (people,), each person's work; devices do not work in the ``selection_s`` until the cohort has
    checked in.
    """
    order = sorted(cohort, key=lambda person: (seconds[person], person))
    counted, late = order[:size], order[size:]
    wasted_s = float(seconds[late].sum())
    return PlannedVersion(
        tuple(PlannedWork(person, number - 1) for person in sorted(counted)),
        (selection_s + float(seconds[counted].max())) / 3600,
        float(seconds[counted].sum()) + wasted_s,
        wasted_s,
    )


def buffered_versions(experiment: Experiment, seconds: Wide, seed: int) -> Iterator[PlannedVersion]:
    """Versions of buffered asynchronous aggregation: each device that reports makes room for another.

    The next device is drawn uniformly from the people who neither work nor are in the buffer. ``seconds`` is (people,),
    each person's work; there must be more people than concurrency and buffer together.
    """
    generator = seeded(seed, "arrivals")
    working: list[tuple[float, int, int, int]] = []  # heap of (finish, sequence, person, base)
    buffer: list[PlannedWork] = []
    taken: set[int] = set()
    version = sequence = 0
    wasted_s = before_s = 0.0

    def begin(now_s: float) -> None:
        nonlocal sequence
        while (person := int(generator.integers(len(seconds)))) in taken:
            pass
        taken.add(person)
        heapq.heappush(working, (now_s + float(seconds[person]), sequence, person, version))
        sequence += 1

    for _ in range(experiment.concurrency):
        begin(0.0)
    while True:
        now_s, _, person, base = heapq.heappop(working)
        if version - base <= experiment.max_staleness:
            buffer.append(PlannedWork(person, base))
        else:
            wasted_s += float(seconds[person])
            taken.remove(person)
        if len(buffer) == experiment.buffer:
            version += 1
            bases = {old for *_, old in working if version - old <= experiment.max_staleness}
            yield PlannedVersion(
                tuple(sorted(buffer, key=lambda each: each.person)),
                (now_s - before_s) / 3600,
                experiment.concurrency * (now_s - before_s),
                wasted_s,
                frozenset(bases),
            )
            taken -= {each.person for each in buffer}
            buffer, before_s, wasted_s = [], now_s, 0.0
        begin(now_s)
