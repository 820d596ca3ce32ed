"""One federated round is one step of pooled gradient descent, when everybody takes part with one full-batch step.

On the real TFLite program, with the agent's training, the dense codec and report frame, and the coordinator's mean.
"""

import numpy as np
import pytest

from nightjar.coordinator.learning.fedavg import Contribution, weight_of, weighted_mean
from nightjar.coordinator.learning.strategies.server_optimizer import fed_avg
from nightjar.edge_agent.core.training import TrainedUpdate, train
from nightjar.models.batches import Batches, pack
from nightjar.models.configurations import configuration
from nightjar.models.export import export_program
from nightjar.models.initial import initial_weights
from nightjar.wire.codec import codec_for
from nightjar.wire.frame import Report, decode, encode_report
from nightjar.wire.identifiers import DeviceId
from nightjar.wire.messages import CodecChoice, TrainingPlan

SHAPE = configuration("tiny")
VOCABULARY_SIZE = 60
RATE = 0.7
PHONES = 4


def messages_of(phone):
    """Each phone has another number of messages, so that the weights differ; all fit one batch."""
    generator = np.random.default_rng([1, phone])
    return [generator.integers(3, VOCABULARY_SIZE, generator.integers(1, 12)).tolist() for _ in range(6 + 5 * phone)]


def batch_of(phone):
    return pack(messages_of(phone), SHAPE.batch_rows, SHAPE.sequence_length)


@pytest.mark.long
@pytest.mark.tensorflow
@pytest.mark.tflite
def test_one_federated_round_equals_one_pooled_step(tmp_path):
    from nightjar.benchmarks.reference_model import ReferenceModel
    from nightjar.edge_agent.shell.tflite import TfliteProgram

    layout = SHAPE.layout(VOCABULARY_SIZE)
    base = initial_weights(SHAPE, VOCABULARY_SIZE, seed=3)
    path = tmp_path / "program.tflite"
    path.write_bytes(export_program(SHAPE, VOCABULARY_SIZE, tmp_path / "programs"))
    device = TfliteProgram(path.read_bytes(), base, layout)
    codec = codec_for(CodecChoice(name="dense-f32"))
    plan = TrainingPlan(learning_rate=RATE, clip_norm=1e6)

    contributions = []
    for phone in range(PHONES):
        batches = batch_of(phone)
        assert len(batches) == 1, "the whole data of a phone must be one batch"
        device.restore(base)
        trained = train(device, batches, plan, np.random.default_rng(0), lambda: False, lambda: 0.0)
        assert isinstance(trained, TrainedUpdate)
        assert trained.steps == 1
        payload = codec.encode(trained.delta, layout, np.random.default_rng(0))
        sent = Report(1, 1, codec.wire_id, layout.fingerprint, 0, trained.num_examples, 1, trained.loss, 0.0, payload)
        report = decode(encode_report(sent))
        assert isinstance(report, Report)
        contributions.append(
            Contribution(
                DeviceId(f"phone-{phone}"), weight_of(report.num_examples, 10**6), codec.decode(report.payload, layout)
            )
        )
    optimizer = fed_avg(1.0)
    mean = weighted_mean(contributions, layout.size)
    federated, _ = optimizer.apply(base, mean, optimizer.init(layout.size))

    pooled = pool([batch_of(phone) for phone in range(PHONES)])
    reference = ReferenceModel(SHAPE, VOCABULARY_SIZE, base)
    _, slopes = reference.gradient(pooled.x[0], pooled.y[0])
    stepped = base - RATE * layout.flatten({name: slope.numpy() for name, slope in slopes.items()})

    moved = np.linalg.norm(stepped - base)
    assert moved > 0.05
    # Weights in float32 cannot agree better than to their own last bit; the step is some ten thousand times that.
    last_bit = np.finfo(np.float32).eps * np.linalg.norm(base)
    assert np.linalg.norm(federated - stepped) < last_bit < 1e-3 * moved
    assert np.abs(federated - stepped).max() < 1e-6


def pool(phones: list[Batches]) -> Batches:
    """All phones' rows as one large batch."""
    return Batches(
        np.concatenate([b.x for b in phones], axis=1),
        np.concatenate([b.y for b in phones], axis=1),
        sum(b.targets for b in phones),
        sum(b.counted_targets for b in phones),
    )
