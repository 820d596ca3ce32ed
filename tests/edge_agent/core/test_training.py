import math

import numpy as np
import pytest

from nightjar.edge_agent.core.results import Evaluation, TrainingStopped
from nightjar.edge_agent.core.training import TrainedUpdate, evaluate, train
from nightjar.models.batches import pack
from nightjar.wire.messages import DropoutCause, TrainingPlan
from tests.edge_agent.fakes import FakeProgram

MESSAGES = [[4, 5, 6], [7, 8], [9, 4, 5, 6], [5], [6, 7, 8, 9]]


def batches():
    return pack(MESSAGES, batch_rows=2, sequence_length=6)


def plan(**changes):
    return TrainingPlan(**({"learning_rate": 0.5, "clip_norm": 1.0} | changes))


def run(program, plan, should_stop=lambda: False, seed=0, data=None):
    ticks = iter(range(1000))
    used = batches() if data is None else data
    return train(program, used, plan, np.random.default_rng(seed), should_stop, lambda: float(next(ticks)))


def test_update_examples_steps_loss_and_time_are_reported():
    program, data = FakeProgram(losses=(3.0,)), batches()
    done = run(program, plan(local_epochs=3), data=data)
    assert isinstance(done, TrainedUpdate)
    assert done.steps == 3 * len(data)
    assert done.num_examples == data.targets == sum(len(m) + 1 for m in MESSAGES)
    assert done.loss == pytest.approx(3.0)
    assert done.seconds == 1.0
    np.testing.assert_allclose(done.delta, program.weights - program.anchor)


def test_loss_is_the_mean_per_target_of_the_last_epoch():
    data = batches()
    losses = tuple(float(i) for i in range(2 * len(data)))
    program = FakeProgram(losses=losses)
    done = run(program, plan(local_epochs=2), data=data)
    targets = [np.count_nonzero(y) for _, y in program.batches[len(data) :]]
    assert done.loss == pytest.approx(np.average(losses[len(data) :], weights=targets))


def test_every_epoch_has_every_row_once_in_another_order():
    program, data = FakeProgram(), batches()
    run(program, plan(local_epochs=2), data=data)
    epochs = [
        np.concatenate([x for x, _ in program.batches[e * len(data) : (e + 1) * len(data)]]).tolist() for e in (0, 1)
    ]
    rows = data.x.reshape(-1, data.x.shape[-1]).tolist()
    assert sorted(epochs[0]) == sorted(epochs[1]) == sorted(rows)
    assert len({str(e) for e in [*epochs, rows]}) == 3


def test_same_seed_same_order():
    first, second = FakeProgram(), FakeProgram()
    run(first, plan(), seed=4)
    run(second, plan(), seed=4)
    assert all(np.array_equal(a[0], b[0]) for a, b in zip(first.batches, second.batches, strict=True))


def test_inputs_and_targets_stay_together():
    program, data = FakeProgram(), batches()
    run(program, plan(), data=data)
    pairs = {
        (str(x), str(y)) for x, y in zip(data.x.reshape(-1, 6).tolist(), data.y.reshape(-1, 6).tolist(), strict=True)
    }
    for x, y in program.batches:
        assert {(str(a), str(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)} <= pairs


def test_max_steps_ends_a_training_that_still_counts():
    done = run(FakeProgram(), plan(local_epochs=10, max_steps=3))
    assert isinstance(done, TrainedUpdate)
    assert done.steps == 3


def test_the_predicate_is_asked_before_every_batch():
    program = FakeProgram()
    asked = []

    def stop_at_third():
        asked.append(len(program.batches))
        return len(asked) == 3

    assert run(program, plan(local_epochs=5), stop_at_third) == TrainingStopped(
        DropoutCause.IN_USE, "asked to stop after 2 of 10 steps"
    )
    assert asked == [0, 1, 2]
    assert len(program.batches) == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_fails_and_restores_the_weights(bad):
    program = FakeProgram(losses=(1.0, 1.0, bad))
    base = program.save()
    stopped = run(program, plan(local_epochs=5))
    assert isinstance(stopped, TrainingStopped)
    assert stopped.cause is DropoutCause.DIVERGED
    np.testing.assert_array_equal(program.weights, base)


def test_an_update_that_is_not_finite_fails_and_restores_the_weights():
    program = FakeProgram()
    program.delta = lambda: np.array([np.nan], np.float32)
    stopped = run(program, plan())
    assert isinstance(stopped, TrainingStopped)
    assert stopped.cause is DropoutCause.DIVERGED
    assert not program.weights.any()


def test_no_words_is_no_examples():
    stopped = run(FakeProgram(), plan(), data=pack([[], []], 2, 6))
    assert isinstance(stopped, TrainingStopped)
    assert stopped.cause is DropoutCause.NO_EXAMPLES


def stop_after(steps):
    asked = iter(range(1000))
    return lambda: next(asked) >= steps


def test_what_was_done_before_a_stop_is_kept_if_it_is_enough():
    data = batches()
    done = run(FakeProgram(), plan(local_epochs=5, keep_share=0.5), stop_after(5), data=data)
    assert isinstance(done, TrainedUpdate)
    assert (done.steps, done.whole, done.num_examples) == (5, False, data.targets)
    assert isinstance(
        run(FakeProgram(), plan(local_epochs=5, keep_share=0.5), stop_after(4), data=data), TrainingStopped
    )
    assert run(FakeProgram(), plan(local_epochs=5), data=data).whole


def test_less_than_one_pass_counts_only_what_was_trained_on():
    data = batches()
    program = FakeProgram()
    done = run(program, plan(max_steps=1), data=data)
    assert done.num_examples == np.count_nonzero(program.batches[0][1]) < data.targets


def test_a_loss_that_rises_for_long_is_a_divergence_with_numbers_and_the_weights_are_restored():
    program = FakeProgram(losses=(2.0,) * 10 + (9.0,) * 90)
    base = program.save()
    stopped = run(program, plan(local_epochs=50))
    assert isinstance(stopped, TrainingStopped)
    assert stopped.cause is DropoutCause.DIVERGED
    assert stopped.detail.startswith("the loss rose from 2.00 to ")
    np.testing.assert_array_equal(program.weights, base)


def test_one_bad_batch_is_no_divergence():
    assert isinstance(run(FakeProgram(losses=(2.0,) * 10 + (5.0,) + (2.0,) * 90), plan(local_epochs=50)), TrainedUpdate)


def test_a_few_errors_of_a_classifier_that_is_mostly_right_are_no_divergence():
    losses = (0.1,) * 10 + (0.3,) * 90
    assert isinstance(run(FakeProgram(losses=losses), plan(local_epochs=50)), TrainedUpdate)


@pytest.mark.parametrize("asked", [{"momentum": 0.9}, {"proximal": 0.1}])
def test_what_a_program_cannot_do_is_said_before_a_step(asked):
    program = FakeProgram()
    stopped = run(program, plan(**asked))
    assert isinstance(stopped, TrainingStopped)
    assert (stopped.cause, program.batches) == (DropoutCause.TRAINING_FAILED, [])


class FurtherFake(FakeProgram):
    def __init__(self):
        super().__init__()
        self.calls = []

    def begin(self):
        self.calls.append("begin")

    def train_momentum(self, x, y, learning_rate, clip_norm, momentum, proximal):
        self.calls.append((momentum, proximal))
        return super().train(x, y, learning_rate, clip_norm)


def test_the_rule_of_the_plan_reaches_the_program():
    program = FurtherFake()
    run(program, plan(momentum=0.9, proximal=0.01))
    assert program.calls[0] == "begin"
    assert set(program.calls[1:]) == {(0.9, 0.01)}
    plain = FurtherFake()
    run(plain, plan())
    assert plain.calls == []


def test_evaluation_adds_batches_up():
    class Scored(FakeProgram):
        def evaluate(self, x, y):
            return Evaluation(1.5, float(np.count_nonzero(y)), 2.0, 1.0, 2.0)

    data = batches()
    assert evaluate(Scored(), data) == Evaluation(
        1.5 * len(data), float(data.targets), 2.0 * len(data), 1.0 * len(data), 2.0 * len(data)
    )


class TowardsItsBatch(FakeProgram):
    """Each step goes the learning rate's share of the way to the mean token of the batch."""

    def train(self, x, y, learning_rate, clip_norm):
        done = super().train(x, y, 0.0, clip_norm)
        self.weights = self.weights + np.float32(learning_rate) * (np.float32(x.mean()) - self.weights)
        return done


def test_a_full_batch_is_the_mean_of_the_steps_from_the_base_weights():
    program, data = TowardsItsBatch(), batches()
    done = run(program, plan(full_batch=True, learning_rate=0.5), data=data)
    assert isinstance(done, TrainedUpdate)
    targets = [np.count_nonzero(y) for _, y in program.batches]
    expected = np.average([0.5 * x.mean() for x, _ in program.batches], weights=targets)
    np.testing.assert_allclose(done.delta, np.full(program.weights.size, expected), rtol=1e-6)
    assert (done.steps, done.num_examples) == (len(data), data.targets)
