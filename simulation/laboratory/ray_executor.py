"""Runs the devices of a cohort on the machines of a Ray cluster, each worker with a device of its own.

A worker is given everything with its work: the program, the examples, the weights and the person's own
parameters. These are kept in the folder of the run, on the machine that started it, as with the other executors. So
nothing is lost with a worker or its machine, Ray starts another in its place and repeats the work, and no disk need be
shared.

Ray is optional: ``pip install nightjar-federated[ray]``. All machines need the same Python, Ray and Nightjar.
"""

from __future__ import annotations

import contextlib
import platform
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nightjar.edge_agent.shell.tflite import runtime_name
from nightjar.simulation.laboratory.clients import Device, Reported, keep, kept, train_client
from nightjar.simulation.laboratory.ray_cluster import RESTARTS, check_installed, connected, installed
from nightjar.wire.errors import ConfigError, UnavailableError
from nightjar.wire.parameters import Vector


class RayWorkers:
    """Implements :class:`nightjar.simulation.laboratory.executor.Executor` with the workers of a Ray cluster.

    Each takes a processor. ``make`` makes a worker's device there, from the path of the program. The address is
    ``auto`` for a cluster that this machine belongs to, ``HOST:PORT``, or ``ray://HOST:PORT``.

    Raises:
        ConfigError: Ray is not installed, the cluster is too small, or a machine has other software than this one.
        UnavailableError: no cluster answers at the address.
    """

    def __init__(self, make: partial[Device], program: Path, workers: int, folder: Path, address: str) -> None:
        self._ray, self._folder = connected(address), folder
        with contextlib.ExitStack() as undone:
            undone.callback(self.close)
            self._handed = self._ray.put((make, program.read_bytes()))  # held: a restarted worker needs it again
            self._workers = self._begun(workers)
            undone.pop_all()

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        """Side by side, each worker a person at a time."""
        handed = self._ray.put(weights)
        waiting, idle = list(reversed(people)), list(self._workers)
        running: dict[Any, Any] = {}
        reports: dict[int, Reported] = {}
        while len(reports) < len(people):
            while waiting and idle:
                person, worker = waiting.pop(), idle.pop()
                before = kept(self._folder, person, round_number)
                running[worker.train.remote(person, round_number, handed, before, measured)] = worker
            (done,), _ = self._ray.wait(list(running))
            idle.append(running.pop(done))
            ((reported, now),) = self._results([done])
            keep(self._folder, reported.person, round_number, now)
            reports[reported.person] = reported
        return [reports[person] for person in people]

    def close(self) -> None:
        """Stop the workers and leave the cluster."""
        self._ray.shutdown()

    def _begun(self, workers: int) -> list[Any]:
        processors = int(self._ray.cluster_resources().get("CPU", 0))
        if workers > processors:
            msg = f"--workers {workers}: the Ray cluster has {processors} processors"
            raise ConfigError(msg)
        actor = self._ray.remote(num_cpus=1, max_restarts=RESTARTS, max_task_retries=RESTARTS)(_Worker)
        begun = [actor.remote(self._handed) for _ in range(workers)]
        for machine, theirs in self._results([worker.installed.remote() for worker in begun]):
            check_installed(machine, theirs, _installed())
        return begun

    def _results(self, futures: list[Any]) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(futures)
        except errors.RayTaskError as error:
            raise error.cause from None
        except errors.RayError as error:
            msg = f"a worker of the Ray cluster failed ({error}): run the command again, it goes on"
            raise UnavailableError(msg) from error


class _Worker:
    """An actor: a device in a process of its own."""

    def __init__(self, handed: tuple[partial[Device], bytes]) -> None:
        make, program = handed
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.tflite"
            path.write_bytes(program)
            self._device = make(path)

    def installed(self) -> tuple[str, str]:
        return platform.node(), _installed()

    def train(
        self, person: int, round_number: int, weights: Vector, own: Vector | None, measured: bool
    ) -> tuple[Reported, Vector | None]:
        return train_client(self._device, person, round_number, weights, own, measured=measured)


def _installed() -> str:
    return installed(("wire", "host", "models", "edge_agent"), runtime_name())
