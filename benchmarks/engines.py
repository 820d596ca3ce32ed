# ruff: noqa: ARG002 - the signatures of methods are those of the other engines
"""The same federated work on several simulation engines: a round of everybody, one worker, the device's own program.

In each round each person of the default experiment trains once from the same weights, and the updates are averaged.
Ours is the laboratory as it is, with compressed updates; the others send dense updates. Evaluation
and everything before the first round are not counted. The others need not be installed.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata, util
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from nightjar.models import corpora
from nightjar.models.configurations import configuration
from nightjar.models.initial import initial_weights
from nightjar.simulation.laboratory.clients import Device, Reported
from nightjar.simulation.laboratory.executor import InProcess
from nightjar.simulation.laboratory.experiment import Experiment, read_experiment
from nightjar.simulation.laboratory.training import PreparedTraining, prepare, run
from nightjar.simulation.warm_start import PROGRAMS
from nightjar.wire.parameters import Vector

TITLE = "devices trained per second by the laboratory and by other engines, one worker each"
SEED = 7
DEFAULT = Path(__file__).parents[1] / "experiments" / "default.toml"


def measure(rounds: int, repeats: int, settings: Sequence[str] = ()) -> dict[str, Any]:
    """What the laboratory's rounds cost beside their training steps, and the speed of each engine that is installed.

    It is the turn of each engine several times, because a machine is not equally busy all the time; medians are given.

    Returns:
        ``overhead`` (0.05 is 5 % of the steps' processor time), ``engines``, and the names of those ``missing``.
    """
    experiment = read_experiment(DEFAULT, ["start.passes=0", *settings])
    found = [peer for peer in PEERS if all(util.find_spec(module) for module in peer.modules)]
    overheads: list[float] = []
    seconds: dict[Engine, list[float]] = {engine: [] for engine in (OURS, *found)}
    people = 0
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            prepared = prepared_in(Path(folder), experiment)
            people = len(prepared.batches)
            ratios, ours = laboratory(prepared, rounds)
            overheads += [ratio - 1 for ratio in ratios]
            seconds[OURS] += ours
            for peer in found:
                seconds[peer] += peer.rounds(prepared, rounds)
    engines = [
        {
            "name": engine.name,
            "version": metadata.version(engine.distribution),
            "clients_per_s": people / median(times),
        }
        for engine, times in seconds.items()
    ]
    return {
        "overhead": median(overheads),
        "engines": engines,
        "missing": [peer.name for peer in PEERS if peer not in found],
    }


def prepared_in(folder: Path, experiment: Experiment) -> PreparedTraining:
    """The experiment with everybody who trains in each cohort, and hardly an evaluation."""
    corpus = corpora.load(experiment.corpus, SEED)
    few = msgspec.structs.replace(
        experiment,
        cohort=msgspec.structs.replace(experiment.cohort, size=1),
        evaluation=msgspec.structs.replace(experiment.evaluation, messages=1),
    )
    prepared = prepare(few, corpus, SEED, folder, PROGRAMS)
    everybody = msgspec.structs.replace(few.cohort, size=len(prepared.batches))
    return replace(prepared, experiment=msgspec.structs.replace(few, cohort=everybody))


def laboratory(prepared: PreparedTraining, rounds: int) -> tuple[list[float], list[float]]:
    """Ours, in this process, with the bare steps of each person beside the person's work.

    Returns:
        Processor time of each round as a multiple of that of its steps, and wall seconds of each round.
    """
    last = rounds + 1  # it is evaluated, so it is not counted
    evaluation = msgspec.structs.replace(prepared.experiment.evaluation, every=last)
    experiment = msgspec.structs.replace(prepared.experiment, rounds=last, evaluation=evaluation)
    executor = _WithBareSteps(prepared)
    ratios, seconds = [], []
    began = _now()

    def told(number: int, _point: object) -> None:
        nonlocal began
        processor_s, wall_s = (_now() - began - executor.bare).tolist()
        if 0 < number < last:
            ratios.append(processor_s / float(executor.bare[0]))
            seconds.append(wall_s)
        executor.bare = np.zeros(2)
        began = _now()

    run(replace(prepared, experiment=experiment), executor, told)
    return ratios, seconds


class _WithBareSteps(InProcess):
    """Repeats the steps of each person at once, alone and timed, so that both find the machine equally busy."""

    def __init__(self, prepared: PreparedTraining) -> None:
        super().__init__(_device(prepared), prepared.folder)
        self._prepared = prepared
        self.bare = np.zeros(2)
        """Processor and wall seconds of the bare steps since somebody reset it."""

    def train(self, people: Sequence[int], round_number: int, weights: Vector, *, measured: bool) -> list[Reported]:
        reports = []
        for person in people:
            reports += super().train([person], round_number, weights, measured=measured)
            began = _now()
            _steps(self._prepared, self._device, person)
            self.bare += _now() - began
        return reports


def pfl_research(prepared: PreparedTraining, rounds: int) -> list[float]:
    """pfl-research's federated averaging in this process; seconds of each round."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import ModelHyperParams
    from pfl.metrics import Metrics
    from pfl.model.base import StatefulModel
    from pfl.stats import MappedVectorStatistics

    device = _device(prepared)

    class DeviceProgram(StatefulModel):  # type: ignore[misc]
        def __init__(self) -> None:
            self.weights = _first_weights(prepared)
            device.program.restore(self.weights)

        def get_parameters(self, placeholders: Any = None) -> Any:
            return MappedVectorStatistics({"weights": self.weights})

        def set_parameters(self, w: Any) -> None:
            self.weights = w["weights"]
            device.program.restore(self.weights)

        def get_model_difference(self, other_parameters: Any, clone: bool = False) -> Any:
            return MappedVectorStatistics({"weights": device.program.delta()})

        def apply_model_update(self, statistics: Any) -> Any:
            self.weights = (self.weights + statistics["weights"]).astype(np.float32)
            device.program.restore(self.weights)
            return self, Metrics()

        def evaluate(self, dataset: Any, name_formatting_fn: Any, eval_params: Any = None) -> Any:
            return Metrics()

        def save(self, dir_path: str) -> None: ...

        def load(self, dir_path: str) -> None: ...

    class EngineAveraging(FederatedAveraging):  # type: ignore[misc]
        def train_one_user(self, initial_model_state: Any, model: Any, user_dataset: Any, central_context: Any) -> Any:
            person = int(user_dataset.raw_data[0][0])
            _steps(prepared, device, person)
            update = model.get_model_difference(initial_model_state)
            update.reweight(prepared.batches[person].targets)
            return update, Metrics()

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        def __init__(self) -> None:
            self.times = [time.perf_counter()]

        def after_central_iteration(self, aggregate_metrics: Any, model: Any, *, central_iteration: int) -> Any:
            self.times.append(time.perf_counter())
            return False, Metrics()

    people = len(prepared.batches)
    everybody = FederatedDataset(lambda person: Dataset((np.array([person]),)), itertools.cycle(range(people)).__next__)
    parameters = NNAlgorithmParams(
        central_num_iterations=rounds, evaluation_frequency=rounds + 1, train_cohort_size=people, val_cohort_size=None
    )
    clock = Clock()
    backend, model, none = SimulatedBackend(everybody, everybody), DeviceProgram(), ModelHyperParams()
    EngineAveraging().run(parameters, backend, model, none, callbacks=[clock], send_metrics_to_platform=False)
    return _between(clock.times)


def flower(prepared: PreparedTraining, rounds: int) -> list[float]:
    """Flower's simulation with one Ray actor; seconds of each round after the first, which loads the program."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # it is read when flwr is imported
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    client, server = ClientApp(), ServerApp()
    experiment = msgspec.json.encode(prepared.experiment)
    times: list[float] = []

    @client.train()  # type: ignore[untyped-decorator]
    def train(message: Any, context: Any) -> Any:
        held, device = _held(experiment)
        person = int(context.node_config["partition-id"])
        device.program.restore(message.content["arrays"].to_numpy_ndarrays()[0])
        _steps(held, device, person)
        content = {
            "arrays": ArrayRecord([device.program.save()]),
            "metrics": MetricRecord({"num-examples": held.batches[person].targets}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    @server.main()  # type: ignore[untyped-decorator]
    def serve(grid: Any, _context: Any) -> None:
        strategy = FedAvg(fraction_evaluate=0.0, min_train_nodes=people, min_available_nodes=people)
        start = ArrayRecord([_first_weights(prepared)])
        strategy.start(grid, start, num_rounds=rounds + 1, evaluate_fn=lambda *_: times.append(time.perf_counter()))

    people = len(prepared.batches)
    resources = {"num_cpus": 1, "num_gpus": 0}
    backend = {"init_args": {"num_cpus": 1, "include_dashboard": False}, "client_resources": resources}
    run_simulation(server, client, people, backend_config=backend)
    return _between(times)[1:]


@functools.cache
def _held(experiment: bytes) -> tuple[PreparedTraining, Device]:
    """What Flower's actor keeps from one person to the next."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepared_in(Path(folder), msgspec.json.decode(experiment, type=Experiment))
        return prepared, _device(prepared)


def _device(prepared: PreparedTraining) -> Device:
    return prepared.device_maker()(prepared.program)


def _first_weights(prepared: PreparedTraining) -> Vector:
    shape = configuration(prepared.experiment.model)
    return initial_weights(shape, prepared.vocabulary.size, SEED)


def _steps(prepared: PreparedTraining, device: Device, person: int) -> None:
    for x, y in prepared.batches[person]:
        device.program.train(x, y, device.plan.learning_rate, device.plan.clip_norm)


def _now() -> npt.NDArray[np.float64]:
    return np.array([time.process_time(), time.perf_counter()])


def _between(times: Sequence[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine."""

    name: str
    distribution: str  # that has its version
    modules: tuple[str, ...]  # that must be installed
    rounds: Callable[[PreparedTraining, int], list[float]]  # trains so many rounds; wall seconds of each


OURS = Engine("Nightjar", "nightjar-federated", (), lambda prepared, rounds: laboratory(prepared, rounds)[1])
PEERS = (
    Engine("pfl-research", "pfl", ("pfl",), pfl_research),
    Engine("Flower", "flwr", ("flwr", "ray"), flower),
)
