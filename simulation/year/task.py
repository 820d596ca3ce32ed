"""The task of a year, the first version of its model, and when devices are free."""

from __future__ import annotations

import math
import zlib
from collections import OrderedDict
from pathlib import Path

from msgspec.structs import replace

from nightjar.coordinator.config import TaskConfig
from nightjar.coordinator.ports import BlobStore
from nightjar.coordinator.tasks.schedule import Schedule
from nightjar.coordinator.tasks.settings import PlanConfig
from nightjar.edge_agent.model import Model
from nightjar.models.configurations import configuration
from nightjar.models.manifest import Artifact, Manifest
from nightjar.simulation.rounds.model import PROGRAM, VOCABULARY, Shelf
from nightjar.simulation.year.coordinator import DatedBlobs
from nightjar.simulation.year.plan import DAY_S
from nightjar.wire.identifiers import Sha256

HOUR_S = 3600.0
GOAL, MINIMUM = 12, 10
"""A fortieth of the devices a round; the minimum is the smallest cohort that devices and coordinator allow."""
SELECTION_DEADLINE_S = 300.0
"""Devices that are not needed return within half of it, if a tenth of them is free; at its end ten devices suffice."""
REPORT_DEADLINE_S = 600.0
PAUSE_S = 480.0
"""A round fills within five minutes and ends within two, so one is committed in each quarter of an hour."""
FREE = 30
"""Devices that are free at any time, two for each seat of a round: of 500, each is free for 86 minutes a day. In a
trace of 710 phones half as many again are free."""
CACHED_MODELS = 200


def year_task() -> TaskConfig:
    """The task of a year: every round makes a version that devices get, which fills the disk fastest."""
    return TaskConfig(
        model=Path("not-a-folder"),
        goal=GOAL,
        minimum=MINIMUM,
        selection_deadline_s=SELECTION_DEADLINE_S,
        report_deadline_s=REPORT_DEADLINE_S,
        schedule=Schedule(pause_s=PAUSE_S),
        plan=PlanConfig(evaluation_share=0.0),
        patience=0,
    )


class DailyWindows:
    """Implements :class:`nightjar.simulation.rounds.availability.Availability`: a device is free once a day.

    The devices' windows are spread evenly over day and night, because a round is expected at any hour; each moves by
    up to an hour from day to day. Their length makes :data:`FREE` devices free at any time.
    """

    def __init__(self, seed: int, devices: int) -> None:
        self._seed = seed
        self._length_s = math.floor(min(FREE / devices, 0.9) * DAY_S)

    def next_window(self, phone: int, after_s: float) -> tuple[float, float]:
        """The first window of a device that ends after ``after_s``."""
        day = math.floor(after_s / DAY_S) - 1
        while True:
            moved_s = HOUR_S * (zlib.crc32(b"%d %d %d" % (self._seed, phone, day)) % 1000) / 1000
            begin_s = math.floor(day * DAY_S + phone * 0.618 % 1.0 * DAY_S + moved_s)
            if begin_s + self._length_s > after_s:
                return float(begin_s), float(begin_s + self._length_s)
            day += 1


def first_year_manifest(model: str, artifacts: DatedBlobs) -> Manifest:
    """The manifest of version 0, of the model's size; its weights are a sparse file."""
    shape = configuration(model)
    layout = shape.layout(shape.max_vocabulary)
    weights = Artifact.of(b"weights of version 0")
    weights = replace(weights, size_bytes=4 * layout.size)
    artifacts.put_sparse(weights.sha256, weights.size_bytes)
    for data in (PROGRAM, VOCABULARY.to_bytes()):
        artifacts.put(data)
    return Manifest(
        version=0,
        configuration=model,
        program=Artifact.of(PROGRAM),
        weights=weights,
        vocabulary=Artifact.of(VOCABULARY.to_bytes()),
        layout=layout,
        batch_rows=shape.batch_rows,
        sequence_length=shape.sequence_length,
        hidden=shape.hidden,
        minimum_agent_version="0.1.0",
    )


class RecentShelf(Shelf):
    """The models on devices; forgets the older ones, of which a year has thirty-five thousand."""

    def __init__(self, artifacts: BlobStore, folder: Path) -> None:
        super().__init__(artifacts, folder)
        self._models: OrderedDict[Sha256, Model] = OrderedDict()

    def model(self, sha256: Sha256) -> Model:
        """See :class:`nightjar.simulation.rounds.model.Shelf`."""
        found = super().model(sha256)
        while len(self._models) > CACHED_MODELS:
            self._models.popitem(last=False)
        return found
