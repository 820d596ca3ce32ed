"""Devices with an earlier agent: the drivers of another checkout's ``edge_agent``, beside ours in one process.

Before everything was imported as ``nightjar``, the packages had the names of their folders. So both agents can be
loaded, and meet only as bytes on topics. Of the other checkout come the agent, its simulated phone and their imports;
its journal is in memory, because its database could not be mended.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nightjar.simulation.rounds.phone import Surroundings
from nightjar.simulation.year.device import EXAMPLES, SHORT_S, TOUCHES, YearSurroundings
from nightjar.simulation.year.identity import DeviceCertificate
from nightjar.wire.errors import ConfigError
from nightjar.wire.identifiers import DeviceId

PACKAGES = ("wire", "host", "models", "edge_agent", "coordinator", "simulation")
CACHED_MODELS = 200


class FleetDevice(Protocol):
    """A device of a year, whatever its agent."""

    number: int
    device: DeviceId
    certificate: DeviceCertificate
    version: str
    in_drawer: bool
    broken: bool
    measured: bool
    written_bytes: int
    former: bool

    @property
    def off(self) -> bool:
        """Whether it has no power."""

    @property
    def wall_s(self) -> float:
        """What its clock shows."""

    @property
    def trusted_s(self) -> float | None:
        """What its clock shows, if it trusts it."""

    def cut_power(self, *, midway: bool) -> None:
        """Cut its power now, or midway between two of its next writes."""

    def put_away(self, off_s: float) -> None:
        """Cut its power, and put it away for a time."""

    def damage(self) -> None:
        """Cut its power, and damage a page of its database."""

    def set_clock(self, off_s: float) -> None:
        """Let it start again with a clock that is wrong by so much."""

    def correct_clock(self) -> None:
        """Correct its clock while it runs."""

    def install(self, version: str) -> None:
        """Replace its agent, which restarts."""

    def visit(self) -> None:
        """Put in a new card, with a new claim."""


class FormerAgent:
    """The earlier agent's modules, from the tree of another commit.

    Raises:
        ConfigError: it is no such tree.
    """

    def __init__(self, tree: Path) -> None:
        if not (tree / "edge_agent" / "driver.py").is_file() or (tree / "nightjar").exists():
            msg = f"--former: expected the tree of a commit from before the package nightjar, got {tree}"
            raise ConfigError(msg)
        taken = [name for name in PACKAGES if name in sys.modules]
        if taken:
            msg = f"--former: other modules are loaded under the names {', '.join(taken)}"
            raise ConfigError(msg)
        sys.path.insert(0, str(tree))
        try:
            for name in PACKAGES:
                import_module(name)
            self.phone: Any = import_module("simulation.rounds.phone")
            self.model: Any = import_module("simulation.rounds.model")
            self.faults: Any = import_module("simulation.rounds.faults")
            self.session: Any = import_module("edge_agent.session")
            self.frame: Any = import_module("wire.frame")
            self.stored: Any = import_module("edge_agent.core.stored")
            self.outbox: Any = import_module("edge_agent.core.outbox")
        finally:
            sys.path.remove(str(tree))

    def surroundings(self, ours: Surroundings, artifacts: object, folder: Path, rng: np.random.Generator) -> Any:
        """What the devices share: our timeline, broker and coordinator, and their own models."""
        shelf = self.model.Shelf(artifacts, folder)
        find = shelf.model

        def recent(sha256: str) -> Any:
            while len(shelf._models) > CACHED_MODELS:
                del shelf._models[next(iter(shelf._models))]
            return find(sha256)

        shelf.model = recent
        return self.phone.Surroundings(
            timeline=ours.timeline,
            broker=ours.broker,
            availability=ours.availability,
            dice=self.faults.Dice((), 1.0, rng),
            shelf=shelf,
            coordinator=ours.coordinator,
            observer=ours.observer,
            free_changed=ours.free_changed,
            generator=ours.generator,
            population=ours.population,
            seed=ours.seed,
        )

    def device(self, number: int, around: Any, year: YearSurroundings, certificate: DeviceCertificate) -> FleetDevice:
        """A device with the earlier agent."""
        made: FleetDevice = _former_class(self)(number, around, year, certificate)
        return made


def _former_class(agent: FormerAgent) -> Any:
    """The class of devices; its base is only known when the other checkout is loaded."""
    base: Any = agent.phone.Phone

    class FormerDevice(base):  # type: ignore[misc] # the base is of another checkout
        """A device whose driver is the earlier agent's; its training is replaced like ours."""

        former, measured, written_bytes = True, False, 0

        def __init__(self, number: int, around: Any, year: YearSurroundings, certificate: DeviceCertificate) -> None:
            self._year, self.certificate = year, certificate
            self.version = "former"
            self.in_drawer = self.broken = False
            self._right = True
            super().__init__(number, around)

        @property
        def off(self) -> bool:
            return bool(self._off)

        @property
        def wall_s(self) -> float:
            return float(agent.phone.EPOCH_S + self._around.timeline.now_s + self._clock_offset_s)

        @property
        def trusted_s(self) -> float | None:
            return self.wall_s if self._right else None

        def cut_power(self, *, midway: bool) -> None:
            if midway:
                self._fuse = agent.faults.Fuse(int(self._year.rng.integers(1, TOUCHES + 1)))
            else:
                self._lose_power()

        def put_away(self, off_s: float) -> None:
            self.in_drawer = True
            self._off_for(off_s)

        def damage(self) -> None:
            msg = "an earlier agent has no database here"
            raise NotImplementedError(msg)

        def set_clock(self, off_s: float) -> None:
            self._off_for(SHORT_S)
            self._clock_offset_s, self._right = off_s, False

        def correct_clock(self) -> None:
            self._clock_offset_s, self._right = 0.0, True

        def install(self, _version: str) -> None:
            """Nothing: it stays behind."""

        def visit(self) -> None:
            self.broken = False
            self.certificate.enrol(self.device)

        def link_down(self) -> None:
            if self._off:
                self._connected = False
            else:
                super().link_down()

        def _off_for(self, off_s: float) -> None:
            self._lose_power()
            self._life += 1  # the start that was planned comes later instead
            self._later(off_s, self._boot)

        def _boot(self) -> None:
            self.in_drawer = False
            super()._boot()

        def _train(self, task: Any, _residual: object, _should_stop: object) -> Any:
            assignment, manifest = task.assignment, task.model.manifest
            report = agent.frame.Report(
                round=assignment.round,
                attempt=assignment.attempt,
                codec=self._year.wire_id,
                layout=manifest.layout.fingerprint,
                version=manifest.version,
                num_examples=EXAMPLES,
                steps=4,
                loss=1.0,
                seconds=1.0,
                payload=self._year.payload,
            )
            frame = agent.frame.encode_report(report)
            parts = len(agent.frame.publishes(frame, assignment.round, assignment.attempt))
            parcel = agent.outbox.Parcel(assignment.round, assignment.attempt, parts)
            key = agent.session.residual_of(assignment, task.model)
            new = agent.stored.NewReport(parcel, frame, key, None)
            return agent.session.Produced(new, EXAMPLES, 4, 1.0, 1.0)

    return FormerDevice
