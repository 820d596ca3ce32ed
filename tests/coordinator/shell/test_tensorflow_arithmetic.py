"""TensorFlow's arithmetic beside numpy's: the same bits, on whatever device TensorFlow has here."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.averaging import do_job
from coordinator.core.aggregate import Contribution, weighted_mean
from coordinator.core.arithmetic import NUMPY
from coordinator.core.optimizers import OptimizerChoice, OptimizerName, optimizer_for
from tests.coordinator.test_averaging import Averaging
from wire.codec import Sparse
from wire.identifiers import DeviceId

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

SIZE = 500
SMALLEST = 1e-280
"""Products with rates and weights stay above what TensorFlow takes for zero on a CPU."""


@pytest.fixture(scope="module")
def arithmetic():
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    from coordinator.shell.tensorflow_arithmetic import TensorFlowArithmetic

    return TensorFlowArithmetic()


def update(generator: np.random.Generator, places: int) -> Sparse:
    indices = generator.permutation(SIZE)[:places].astype(np.int64)
    values = generator.normal(size=places) * 10.0 ** generator.uniform(-9, 3, places)
    return Sparse(SIZE, indices, values.astype(np.float32))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    weights=st.lists(st.integers(1, 10_000), min_size=1, max_size=12),
    places=st.integers(0, SIZE),
)
def test_the_mean_is_the_same_bit_for_bit(arithmetic, seed, weights, places):
    generator = np.random.default_rng(seed)
    parts = [
        Contribution(DeviceId(f"d{number:02d}"), float(weight), update(generator, places))
        for number, weight in enumerate(weights)
    ]
    assert weighted_mean(parts, SIZE, arithmetic).tobytes() == weighted_mean(parts, SIZE, NUMPY).tobytes()


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(OptimizerName),
    seed=st.integers(0, 2**32 - 1),
    rate=st.floats(1e-4, 10.0),
    momentum=st.floats(0.0, 0.999),
    second=st.floats(0.0, 0.9999),
    tau=st.floats(1e-6, 1.0),
)
def test_five_steps_of_every_optimizer_are_the_same_bit_for_bit(arithmetic, name, seed, rate, momentum, second, tau):
    choice = OptimizerChoice(name=name, learning_rate=rate, momentum=momentum, second_momentum=second, adaptivity=tau)
    generator = np.random.default_rng(seed)
    here, there = optimizer_for(choice), optimizer_for(choice, arithmetic)
    weights = others = generator.normal(size=SIZE).astype(np.float32)
    state = state_there = here.init(SIZE)
    for _ in range(5):
        mean = generator.normal(size=SIZE) * 10.0 ** generator.uniform(-12, 2, SIZE)
        mean[generator.random(SIZE) < 0.3] = 0.0
        weights, state = here.apply(weights, mean, state)
        others, state_there = there.apply(others, mean, state_there)
        assert weights.tobytes() == others.tobytes()
        assert (
            np.where(abs(state) < SMALLEST, 0, state).tobytes()
            == np.where(abs(state_there) < SMALLEST, 0, state_there).tobytes()
        )


@pytest.mark.parametrize("name", [OptimizerName.FEDAVG, OptimizerName.FEDADAM])
def test_a_whole_aggregation_gives_the_same_files(arithmetic, tmp_path, name):
    world = Averaging(tmp_path, OptimizerChoice(name=name, learning_rate=0.5))
    job = world.job([world.report(number) for number in range(5)])
    there = do_job(job, world.artifacts, world.private, lambda *_: None, arithmetic=arithmetic)
    assert there == world.do(job)


def test_a_worker_without_a_gpu_averages_without_tensorflow(tmp_path):
    import os
    import subprocess

    from coordinator.shell.worker_child import Place
    from models.processors import Processor, choose

    if choose(Processor.AUTO).gpu:
        assert type(Place().arithmetic()).__name__ == "TensorFlowArithmetic"
        return
    code = (
        "import sys; from coordinator.shell.worker_child import Place; from coordinator.core.arithmetic import NUMPY\n"
        "sys.exit(Place().arithmetic() is not NUMPY or 'tensorflow' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": "."}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True)
    assert done.returncode == 0
    assert b"calculates on the CPU" in done.stderr
