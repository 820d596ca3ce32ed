"""Who takes part in which version: a cohort drawn for each round, or the devices whose reports fill a buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nightjar.coordinator.learning.strategies import Wide, highest_losses
from nightjar.coordinator.rounds.selection import sample
from nightjar.simulation.laboratory.clock import (
    PlannedVersion,
    PlannedWork,
    buffered_versions,
    first_to_report,
    seconds_of_work,
)
from nightjar.simulation.laboratory.experiment import CohortSettings, Experiment
from nightjar.simulation.rounds.availability import Availability, GeneratedAvailability, TracedAvailability
from nightjar.simulation.warm_start import seeded
from nightjar.wire.errors import UnavailableError
from nightjar.wire.identifiers import DeviceId

_PERSON = "person-"
_MINUTE_S, _LONGEST_WAIT_S = 60.0, 86400.0

CohortPlan = Callable[[int, Wide], PlannedVersion]
"""Whose reports make a version, from its number and the newest training loss of each person.

Numbers ascend from 1; losses are (people,) in nats, NaN if unknown. Raises UnavailableError if nobody is free for a
day.
"""


def plan_of(experiment: Experiment, people: int, seed: int) -> CohortPlan:
    """The plan of an experiment in which so many people train; ``seed`` is that of the run."""
    seconds = seconds_of_work(experiment.time, people, seed) if experiment.time.training_s else None
    if experiment.mode == "buffered":
        assert seconds is not None, "the experiment was checked"
        versions = enumerate(buffered_versions(experiment, seconds, seed), 1)
        # Who reports follows from time alone; a run that goes on skips the versions that it has.
        return lambda number, _losses: next(planned for planned_number, planned in versions if planned_number == number)
    settings = experiment.cohort
    availability: Availability | None = None
    if settings.availability == "generated":
        availability = GeneratedAvailability(seed)
    elif settings.availability:
        availability = TracedAvailability(Path(settings.availability), people, seeded(seed, "availability"))
    return _Rounds(settings, seed, people, availability, seconds, experiment.time.selection_s).version


def device_of(person: int) -> DeviceId:
    """The device of a person."""
    return DeviceId(f"{_PERSON}{person:06d}")


@dataclass(frozen=True, slots=True, eq=False)
class _Rounds:
    """A cohort for each round; ``seconds`` is None if nothing takes time."""

    settings: CohortSettings
    seed: int
    people: int
    availability: Availability | None
    seconds: Wide | None
    selection_s: float

    def version(self, number: int, losses: Wide) -> PlannedVersion:
        cohort = self.cohort(number, losses)
        if self.seconds is None:
            return PlannedVersion(tuple(PlannedWork(person, number - 1) for person in cohort))
        return first_to_report(cohort, self.seconds, self.settings.size, number, self.selection_s)

    def cohort(self, number: int, losses: Wide) -> list[int]:
        """The people who take part in a round, in ascending order.

        If fewer are free than the cohort needs, these take part; if nobody is, the round waits for somebody.

        Raises:
            UnavailableError: nobody is free for a day.
        """
        begins_s = number * self.settings.round_s
        for now_s in np.arange(begins_s, begins_s + _LONGEST_WAIT_S, _MINUTE_S).tolist():
            free = [person for person in range(self.people) if self._is_free(person, now_s)]
            if free:
                break
        else:
            msg = f"nobody was free for a day before round {number}: give a trace with more windows"
            raise UnavailableError(msg)
        size, candidates = self.settings.selected(), self.settings.candidates
        drawn = sample([device_of(person) for person in free], candidates or size, self.seed, number)
        if candidates is not None:
            known = {device_of(person): float(losses[person]) for person in free if np.isfinite(losses[person])}
            drawn = highest_losses(drawn, known, size)
        return [int(name.removeprefix(_PERSON)) for name in drawn]

    def _is_free(self, person: int, now_s: float) -> bool:
        return self.availability is None or self.availability.next_window(person, now_s)[0] <= now_s
