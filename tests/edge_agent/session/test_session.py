"""A session on the real runtime: from typed messages to a report that the codec reads."""

import dataclasses

import numpy as np
import pytest

from nightjar.edge_agent.core.personalisation import SHARES
from nightjar.edge_agent.core.results import TrainingStopped
from nightjar.edge_agent.ports import SessionDependencies
from nightjar.edge_agent.session.session import in_this_process, run_session
from nightjar.edge_agent.session.task import Produced
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.tflite import load_program
from nightjar.edge_agent.shell.weights import mapped_weights, own_weights
from nightjar.models.keyboard import held_out
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import RemoteProtocolError
from nightjar.wire.messages import CodecChoice, DropoutCause, TrainingPlan, Work
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank, bases_of, group_sizes, to_bytes
from nightjar.wire.secure_sum.order import BINDING, FURTHER_VALUES, SumOrder, values_of
from tests.edge_agent.fakes import CAPS, FakeClock, assignment

pytestmark = pytest.mark.tflite


@pytest.fixture
def desk(tmp_path, exported):
    database = Database(tmp_path / "agent.db", CAPS, FakeClock())
    generator = np.random.default_rng(2)
    database.add_once("person", [" ".join(generator.choice(exported.words[:30], 6)) for _ in range(80)])
    yield SessionDependencies(database, in_this_process(load_program, SystemClock().monotonic_s))
    database.close()


def run(desk, exported, should_stop=lambda: False, seed=1, **changes):
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, local_epochs=2)
    asked = assignment(exported.model, 5, **({"plan": plan} | changes))
    return run_session(desk, asked, exported.model, np.random.default_rng(seed), should_stop)


@pytest.mark.parametrize("codec", [CodecChoice(name="dense-f32"), CodecChoice(density=0.02)])
def test_a_report_of_real_training_can_be_read(desk, exported, codec):
    made = run(desk, exported, codec=codec)
    assert isinstance(made, Produced)
    report = frame.decode(made.report.frame)
    layout = exported.model.manifest.layout
    assert (report.round, report.num_examples, report.layout) == (5, 80 * 7, layout.fingerprint)
    assert 0 < report.loss < 10
    update = codec_for(codec).decode(report.payload, layout).dense()
    assert np.isfinite(update).all()
    assert update.any()


def test_same_seed_same_bytes(desk, exported):
    first, second, other = (run(desk, exported, seed=seed) for seed in (1, 1, 2))

    def payload(made):
        return frame.decode(made.report.frame).payload

    assert payload(first) == payload(second) != payload(other)


def test_a_session_stops_within_a_batch(desk, exported):
    asked = iter([False, False, True])
    stopped = run(desk, exported, should_stop=lambda: next(asked))
    assert isinstance(stopped, TrainingStopped)


def test_a_learning_rate_that_explodes_is_a_stop_and_no_report(desk, exported):
    plan = TrainingPlan(learning_rate=1000.0, clip_norm=1e9, local_epochs=30)
    stopped = run(desk, exported, plan=plan)
    if isinstance(stopped, TrainingStopped):
        assert stopped.cause is DropoutCause.TRAINING_FAILED
    else:
        assert np.isfinite(frame.decode(stopped.report.frame).loss)


def test_no_typed_word_is_in_a_report(desk, exported):
    made = run(desk, exported)
    texts = desk.examples.source().texts
    assert not any(text.encode() in made.report.frame for text in texts)


def test_a_contribution_to_a_sum_needs_the_bases_of_the_version(desk, exported, tmp_path):
    rank, grid = Rank(rows=1000, right=2, left=4), Grid(step=0.5, most=10)
    order = SumOrder(
        number=1, threshold=2, cohort=3, rank=rank, grid=grid, clip_norm=9.0, most_examples=10, binding=BINDING
    )
    layout, path = exported.model.manifest.layout, tmp_path / "bases"
    bases = bases_of(np.zeros(layout.size, np.float32), layout, rank, np.random.default_rng(0))
    path.write_bytes(to_bytes(bases, np.ones(len(group_sizes(layout, rank)), np.float32)))
    model = dataclasses.replace(exported.model, bases=path)
    made = run(desk, dataclasses.replace(exported, model=model), secure_sum=order)
    assert made.words.size == values_of(order, layout) + FURTHER_VALUES
    with pytest.raises(RemoteProtocolError, match="names no bases"):
        run(desk, exported, secure_sum=order)


def looking(epochs=3, rate=2.0):
    return TrainingPlan(learning_rate=rate, clip_norm=1.0, local_epochs=epochs, evaluation_share=0.3)


def test_a_session_that_is_asked_to_look_says_how_well_it_foresaw_before_and_after(desk, exported):
    made = run(desk, exported, plan=looking(epochs=20))
    report = frame.decode(made.report.frame)
    looked = report.evaluation
    assert dataclasses.astuple(looked) == pytest.approx(dataclasses.astuple(made.evaluation), rel=1e-6)
    _, kept = held_out(desk.examples.source().texts, 0.3)
    assert 0 < looked.counted <= 6 * len(kept)
    # Held-out messages are not trained on: each is six words and an end.
    assert report.num_examples == 7 * (80 - len(kept))
    assert looked.loss_after < looked.loss_before
    assert looked.top3_after > looked.top3_before


def test_a_session_that_is_only_to_try_the_model_reports_figures_and_no_update(desk, exported):
    made = run(desk, exported, plan=looking(), work=Work.EVALUATE)
    report = frame.decode(made.report.frame)
    trained = frame.decode(run(desk, exported, plan=looking()).report.frame)
    assert (report.codec, report.payload, report.steps) == (frame.NO_UPDATE, b"", 0)
    looked = report.evaluation
    assert (looked.counted, looked.top3_before) == (trained.evaluation.counted, trained.evaluation.top3_before)
    assert (looked.top1_before, looked.top3_before, looked.loss_before) == (
        looked.top1_after,
        looked.top3_after,
        looked.loss_after,
    )
    _, kept = held_out(desk.examples.source().texts, 0.3)
    assert report.num_examples == 7 * len(kept)


def test_a_trial_of_a_model_is_given_up_before_the_next_batch(desk, exported):
    stopped = run(desk, exported, lambda: True, plan=looking(), work=Work.EVALUATE)
    assert stopped.cause is DropoutCause.IN_USE
    assert stopped.detail.startswith("asked to stop after 0 of ")


def test_without_enough_held_out_words_there_is_nothing_to_report(desk, exported):
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, evaluation_share=0.02)
    stopped = run(desk, exported, plan=plan, work=Work.EVALUATE)
    assert stopped.cause is DropoutCause.NO_EXAMPLES


def test_too_few_held_out_words_are_trained_on_instead(desk, exported):
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, evaluation_share=0.02)
    report = frame.decode(run(desk, exported, plan=plan).report.frame)
    assert (report.evaluation, report.num_examples) == (None, 80 * 7)


@pytest.fixture
def moved(exported, tmp_path):
    """The model in a folder that a session may write to."""
    files = {part: tmp_path / part for part in ("program", "weights", "vocabulary")}
    for part, path in files.items():
        path.write_bytes(getattr(exported.model, part).read_bytes())
    return dataclasses.replace(exported, model=dataclasses.replace(exported.model, **files))


def test_a_better_personal_model_is_kept_beside_the_model_and_never_sent(desk, moved):
    desk = dataclasses.replace(desk, personalise=True)
    path = moved.model.personal_weights
    made = run(desk, moved, plan=looking(epochs=20))
    assert made.personal_share in SHARES
    assert path.stat().st_size == 2 * moved.model.manifest.layout.size, "half of what a version takes"
    assert not np.array_equal(own_weights(moved.model, path), mapped_weights(moved.model))
    assert path.read_bytes()[:64] not in made.report.frame
    assert run(dataclasses.replace(desk, personalise=False), moved, plan=looking()).personal_share == 0


def test_a_personal_model_that_is_no_better_any_more_goes(desk, moved):
    desk = dataclasses.replace(desk, personalise=True)
    path = moved.model.personal_weights
    path.write_bytes(b"of an earlier session")
    made = run(desk, moved, plan=looking(epochs=1, rate=1e-6))
    assert (made.personal_share, path.exists()) == (0.0, False)


def test_a_session_that_was_stopped_leaves_no_personal_model_behind(desk, moved):
    path = moved.model.personal_weights

    def train(task, should_stop):
        task.personal.write_bytes(b"made while everything was being deleted")
        return TrainingStopped(DropoutCause.IN_USE, "asked to stop")

    run(dataclasses.replace(desk, personalise=True, train=train), moved, should_stop=lambda: True)
    assert not path.exists()
