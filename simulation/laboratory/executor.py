"""Runs the devices of a cohort: in this process, or in several. The result does not depend on how many there are."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

import nightjar.host.one_thread  # noqa: F401 - as in the agent's own process
from nightjar.edge_agent.shell.tflite import TfliteProgram
from nightjar.models.batches import Batches
from nightjar.simulation.laboratory.clients import Device, Reported, keep, kept, train_client
from nightjar.simulation.laboratory.experiment import PersonalSettings
from nightjar.wire.messages import CodecChoice, TrainingPlan
from nightjar.wire.parameters import ParameterLayout, Vector

HELD_BYTES = 1 << 28
"""Of what devices keep, so much stays in memory until the next measured round."""


class Executor(Protocol):
    """Trains the devices of a cohort."""

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        """The reports of these people, in their order; with the payloads if the round is measured.

        Raises:
            UnavailableError: a device could not train.
        """

    def close(self) -> None:
        """Stop the processes."""


def load(
    program: Path,
    layout: ParameterLayout,
    batches: tuple[Batches, ...],
    plan: TrainingPlan,
    codec: CodecChoice,
    seed: int,
    personal: PersonalSettings,
) -> Device:
    """A device with the program loaded, in one thread."""
    loaded = TfliteProgram(program.read_bytes(), np.zeros(layout.size, np.float32), layout)
    return Device(loaded, layout, batches, plan, codec, seed, personal)


class InProcess:
    """Implements :class:`Executor` in the calling process.

    What devices keep is in the folder of the run after each measured round, before the checkpoint is.
    """

    def __init__(self, device: Device, folder: Path) -> None:
        self._device, self._folder = device, folder
        self._held: dict[int, tuple[int, Vector | None]] = {}
        """Person -> round and what the device kept after it; not yet in the folder."""
        self._bytes = 0

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        """One after the other."""
        reports = []
        for person in people:
            held = self._held.get(person)
            before = kept(self._folder, person, round_number) if held is None else held[1]
            reported, now = train_client(self._device, person, round_number, weights, before, measured=measured)
            reports.append(reported)
            self._bytes += _bytes(now) - (0 if held is None else _bytes(before))
            self._held[person] = round_number, now
            if self._bytes > HELD_BYTES:
                self._write()
        if measured:
            self._write()
        return reports

    def _write(self) -> None:
        for person, (round_number, own) in self._held.items():
            keep(self._folder, person, round_number, own)
        self._held.clear()
        self._bytes = 0

    def close(self) -> None:
        """Nothing to stop."""


def _bytes(own: Vector | None) -> int:
    return 0 if own is None else own.nbytes


class Processes:
    """Implements :class:`Executor` with several processes, each with a device of its own, which ``make`` makes there.

    The folder of the run has what devices keep, and hands over the weights of a round.
    """

    def __init__(self, make: partial[Device], workers: int, folder: Path) -> None:
        self._pool = ProcessPoolExecutor(
            workers, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(make,)
        )
        self._folder, self._weights = folder, folder / "round.npy"

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        """Side by side, each process a person at a time."""
        np.save(self._weights, weights)
        work = partial(_work, self._folder, self._weights, round_number, measured)
        return list(self._pool.map(work, people))

    def close(self) -> None:
        """Wait for the processes to end."""
        self._pool.shutdown(cancel_futures=True)
        self._weights.unlink(missing_ok=True)


_held: list[Device] = []
"""The device of a process of the pool."""


def _begin(make: partial[Device]) -> None:
    _held.append(make())


def _work(folder: Path, weights: Path, round_number: int, measured: bool, person: int) -> Reported:
    before = kept(folder, person, round_number)
    reported, now = train_client(_held[0], person, round_number, np.load(weights), before, measured=measured)
    keep(folder, person, round_number, now)
    return reported
