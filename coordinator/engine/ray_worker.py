"""Does the worker's jobs on a Ray cluster, for example on a GPU host: the same code there, so the same bits.

The worker's process stays between the service and Ray, so that Ray neither uses the service's memory nor ends it. What
does the jobs is one actor. It reads reports and writes weights in the stores themselves, so these must be reachable
from all machines of the cluster: PostgreSQL, with the artifacts in it or in an S3-compatible store.
"""

from __future__ import annotations

import hashlib
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from nightjar.coordinator.engine.ray_cluster import RESTARTS, check_installed, connected, installed
from nightjar.coordinator.engine.worker import Stores
from nightjar.coordinator.engine.worker_child import JOBS, answers_at, done_patiently
from nightjar.coordinator.records.jobs import FiguresJob, Job
from nightjar.wire.errors import NightjarError, UnavailableError

_PACKAGES = ("wire", "host", "models", "coordinator")


class RayWorker:
    """Answers jobs with results, lines of JSON, from a cluster.

    ``address`` is that of the cluster, as in :func:`nightjar.coordinator.engine.ray_cluster.connected`.
    """

    def __init__(self, stores: Stores, address: str, sleep: Callable[[float], object] = time.sleep) -> None:
        self._stores, self._address, self._sleep = stores, address, sleep
        self._ray: Any = None
        self._actor: Any = None

    def answer(self, line: bytes) -> bytes:
        """The result of a job. While the cluster cannot be reached it tries again; then the job has failed."""
        job = JOBS.decode(line)
        return done_patiently(job, lambda: self._attempt(job, line), self._sleep)

    def _attempt(self, job: Job, line: bytes) -> bytes:
        evaluation = None if isinstance(job, FiguresJob) else job.evaluation
        text = None if evaluation is None else (Path(evaluation).name, Path(evaluation).read_bytes())
        actor = self._begun()
        try:
            return bytes(self._ray.get(actor.answer.remote(line, text)))
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            self.leave()
            msg = f"the Ray cluster at {self._address} lost the worker ({str(error).strip().splitlines()[0]})"
            raise UnavailableError(msg) from error

    def _begun(self) -> Any:
        if self._actor is not None:
            return self._actor
        self._ray = connected(self._address)
        try:
            resources = self._ray.cluster_resources()
            kind = self._ray.remote(
                num_cpus=1,
                num_gpus=min(1, int(resources.get("GPU", 0))),  # without it, Ray hides the GPUs
                max_restarts=RESTARTS,
                max_task_retries=RESTARTS,
            )
            actor = kind(_Actor).remote(msgspec.json.encode(self._stores))
            machine, theirs = self._ray.get(actor.installed.remote())
            check_installed(machine, theirs, installed(_PACKAGES))
        except (self._ray.exceptions.RayError, ConnectionError) as error:
            self.leave()
            msg = f"the Ray cluster at {self._address} starts no worker ({str(error).strip().splitlines()[0]})"
            raise UnavailableError(msg) from error
        except NightjarError:
            self.leave()
            raise
        self._actor = actor
        return actor

    def leave(self) -> None:
        """End the actor, and leave the cluster."""
        self._actor = None
        self._ray.shutdown()


class _Actor:
    """The worker on a machine of the cluster."""

    def __init__(self, stores: bytes) -> None:
        self._folder = tempfile.TemporaryDirectory()
        here = str(Path(self._folder.name) / "artifacts")  # copies; the coordinator's folder may not be writable here
        self._answer = answers_at(replace(msgspec.json.decode(stores, type=Stores), artifacts=here))

    def installed(self) -> tuple[str, str]:
        return platform.node(), installed(_PACKAGES)

    def answer(self, line: bytes, text: tuple[str, bytes] | None) -> bytes:
        """The result of a job; ``text`` is the name and the content of its evaluation text."""
        if text is not None:
            job = replace(JOBS.decode(line), evaluation=str(self._kept(*text)))
            line = msgspec.json.encode(job)
        return self._answer(line)

    def _kept(self, name: str, content: bytes) -> Path:
        """The path of the text here, the same as long as the content is: the worker keeps what it read by path."""
        path = Path(self._folder.name) / hashlib.sha256(content).hexdigest() / name
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
        return path
