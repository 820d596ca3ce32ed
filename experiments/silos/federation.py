"""One federation: a coordinator with its broker, and agents that enrol there, as processes on their hosts.

Processes and messages are those of the product, with mutual TLS. Only the silos' power and network are emulated
(always there), so that the same seed trains the same. A process that is killed is started again, as systemd does.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from nightjar.coordinator.config_file import load_config
from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.coordinator.tls.contexts import http_pool
from nightjar.experiments.silos.hosts import SiloHost
from nightjar.firmware_scripts.program_signing import sign_model
from nightjar.host.children import python_command
from nightjar.models.manifest import Manifest
from nightjar.simulation.demo.configuration import write_toml
from nightjar.simulation.demo.processes import Service, wait_until
from nightjar.simulation.demo.reading import State, fetched, state_from
from nightjar.wire.errors import UnavailableError
from nightjar.wire.parameters import Vector, weights_from_bytes

COORDINATOR = "coordinator"
START_S, STALLED_S = 120.0, 900.0
POLL_S = 0.3
REPORT_DEADLINE_S = 300.0
"""After which a round without a silo's report is given up and done again."""
DAY = {
    "segments": [{"from_hour": 0.0, "charging": True, "in_use": False, "wifi": True, "battery": 1.0}],
    "jitter_minutes": 0.0,
    "interruptions_per_hour": 0.0,
}
"""A server's day: nobody unplugs it or picks it up."""
LIMITS = {"cohort": 2, "density": 1.0}
"""Each silo can compute the other's update from two versions; both agreed to that with these limits."""


@dataclass(frozen=True, slots=True)
class FederatedPlan:
    """What the silos do."""

    rounds: int
    steps: int  # of a silo in a round
    learning_rate: float
    clip_norm: float  # of a batch's gradient
    strategy: dict[str, Any] = field(default_factory=dict)  # [task.strategy]


class Federation:
    """The processes of a federation, the broker among those of the coordinator, and their files in a new folder.

    ``silos`` has the file or folder of each one's examples; ``hosts`` are of the coordinator, then of each silo.
    """

    def __init__(
        self,
        folder: Path,
        model: Path,
        silos: dict[str, Path],
        plan: FederatedPlan,
        hosts: Sequence[SiloHost],
        seed: int,
    ) -> None:
        folder.mkdir(parents=True)
        sign_model(folder / "keys", model)  # the claims bring the public half to the silos
        self._folder, self._plan, self._hosts = folder, plan, hosts
        self._config = write_toml(folder / "coordinator.toml", _coordinator_table(model, plan, hosts[0], seed))
        self._read = load_config(self._config, os.environ)
        self._pool: urllib3.PoolManager | None = None
        serve = python_command("-m", "nightjar.coordinator", "serve", "--config", str(self._config))
        self.coordinator = Service(COORDINATOR, hosts[0].command(COORDINATOR) + serve, folder / "coordinator.log")
        self.silos: list[Service] = []
        for number, (name, examples) in enumerate(silos.items()):
            path = write_toml(folder / f"{name}.toml", _silo_table(name, examples, 1000 * seed + number))
            run = python_command("-m", "nightjar.edge_agent", "run", "--config", str(path))
            self.silos.append(Service(name, hosts[1 + number].command(name) + run, folder / f"{name}.log"))

    @property
    def groups(self) -> list[list[Service]]:
        """All processes, in groups in starting order."""
        return [[self.coordinator], self.silos]

    def start(self) -> None:
        """Start the coordinator, enrol the silos with a claim each, and start them.

        Raises:
            UnavailableError: something did not start or enrol.
        """
        self.coordinator.start()
        wait_until(lambda: self.get("/healthz") is not None, [self.coordinator], START_S)
        for number, silo in enumerate(self.silos, 1):
            claim = self._folder / f"{silo.name}.claim.json"
            create = ["create", silo.name, "--device", silo.name, "--url", self._read.url, "--out", str(claim)]
            create += ["--config", str(self._config)]
            _done(self._hosts[0], COORDINATOR, "nightjar.coordinator", "enrol-token", *create)
            enrol = ["enrol", "--config", str(self._folder / f"{silo.name}.toml"), "--claim", str(claim)]
            _done(self._hosts[number], silo.name, "nightjar.edge_agent", *enrol)
            silo.start()

    def train(self, watch: Callable[[State], None]) -> State:
        """Wait until all rounds are committed; returns the last state, and shows ``watch`` each state before.

        Raises:
            UnavailableError: a process ended by itself or was killed too often, or nothing was committed for long.
        """
        committed, deadline_s = -1, time.monotonic() + STALLED_S
        while True:
            for service in itertools.chain.from_iterable(self.groups):
                service.restart_if_killed()
            state = state_from(self.get)
            if state is not None:
                watch(state)
                if state["task"]["state"] == "finished":
                    return state
                if state["counters"]["rounds_committed"] > committed:
                    committed, deadline_s = state["counters"]["rounds_committed"], time.monotonic() + STALLED_S
            if time.monotonic() > deadline_s:
                msg = f"no round was committed for {STALLED_S / 60:.0f} minutes; the logs are in {self._folder}"
                raise UnavailableError(msg)
            time.sleep(POLL_S)

    def weights(self, state: State) -> Vector:
        """The weights of the newest version, (n,) float32.

        Raises:
            UnavailableError: the coordinator does not answer.
        """
        version = next(each for each in state["versions"] if each["version"] == state["task"]["version"])
        manifest = Manifest.decode(self._artifact(version["manifest"]))
        return weights_from_bytes(self._artifact(manifest.weights.sha256), manifest.layout)

    def _artifact(self, sha256: str) -> bytes:
        data = self.get(f"/artifacts/{sha256}")
        if data is None:
            msg = (
                f"the coordinator does not give artifact {sha256[:12]}; the end of its log:\n{self.coordinator.tail()}"
            )
            raise UnavailableError(msg)
        return data

    def get(self, path: str) -> bytes | None:
        """What the coordinator answers; None for an error."""
        try:
            if self._pool is None:  # there are no certificates before the coordinator has started
                self._pool = http_pool(self._read)
        except UnavailableError:
            return None
        return fetched(f"{self._read.url}{path}", self._pool.request)


def _done(host: SiloHost, hostname: str, *module: str) -> None:
    command = host.command(hostname) + python_command("-m", *module)
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 - our own commands
    if done.returncode:
        msg = f"{' '.join(module[:3])} failed: {done.stderr.strip()[-2000:]}"
        raise UnavailableError(msg)


def _coordinator_table(model: Path, plan: FederatedPlan, host: SiloHost, seed: int) -> dict[str, Any]:
    page, broker = free_ports(2)
    return {
        "population": "silos",
        "data_dir": "coordinator",
        "host": host.address,
        "port": page,
        "public_reading": True,
        "seed": seed,
        "enrolment": {"names": [host.address]},
        "broker": {"host": host.address, "port": broker, "allow_network": True},
        "task": {
            "name": "silos",
            "model": str(model),
            "rounds": plan.rounds,
            "patience": 0,  # the run ends after its rounds, whatever they gain
            # Every silo in each round, however long one is away.
            "goal": 2,
            "minimum": 2,
            "over_selection": 1.0,
            "selection_deadline_s": 3600.0,
            "selection_window_s": 0.1,
            "retry_after_s": 0.2,
            "report_deadline_s": REPORT_DEADLINE_S,
            "codec": {"name": "dense-f32"},
            "strategy": plan.strategy,
            "plan": {
                "learning_rate": plan.learning_rate,
                "clip_norm": plan.clip_norm,
                "local_epochs": 1000,  # the steps decide
                "max_steps": plan.steps,
                "evaluation_share": 0.0,
            },
        },
        "limits": LIMITS,
    }


def _silo_table(name: str, examples: Path, seed: int) -> dict[str, Any]:
    return {
        "data_dir": name,
        "store": {"examples": str(examples)},
        "conditions": {"hysteresis_s": 0.0, "poll_s": 0.1},
        "limits": LIMITS,
        "emulator": {"seed": seed, "day": DAY},
    }
