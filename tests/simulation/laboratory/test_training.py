"""Runs of the laboratory with the real device program: tiny, a small corpus, few rounds."""

import json
from functools import partial

import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from nightjar.coordinator.learning.privacy.accounting import calibrated
from nightjar.coordinator.learning.strategies import RateSchedule, StrategyName
from nightjar.coordinator.learning.strategies.rate_schedule import Decay
from nightjar.coordinator.learning.summed import sum_order
from nightjar.coordinator.tasks.settings import CodecConfig, PlanConfig, Privacy, StrategyConfig, TaskSettings
from nightjar.coordinator.tasks.validation import noise_terms
from nightjar.edge_agent.core.personalisation import ENOUGH_WORDS
from nightjar.models.corpora import Corpus
from nightjar.simulation.laboratory.checkpoint import ABOUT, CURVE, restored_weights
from nightjar.simulation.laboratory.clients import kept
from nightjar.simulation.laboratory.cohorts import plan_of
from nightjar.simulation.laboratory.command import learn
from nightjar.simulation.laboratory.executor import InProcess, Processes
from nightjar.simulation.laboratory.experiment import (
    PRIVATE,
    CohortSettings,
    EvaluationSettings,
    Experiment,
    PersonalSettings,
    TimeSettings,
)
from nightjar.simulation.laboratory.personalisation import METHODS, personalise
from nightjar.simulation.laboratory.training import prepare, run, start_weights
from nightjar.wire.codec import Sparse, codec_for
from nightjar.wire.errors import ConfigError, CorpusError, UnavailableError
from nightjar.wire.secure_sum.order import values_of

pytestmark = [pytest.mark.tflite, pytest.mark.tensorflow, pytest.mark.slow]

GENERATOR = np.random.default_rng(0)
VOCABULARY = [f"word{n}" for n in range(25)]
# So few words that every split has all of them: one vocabulary, and so one program, for all tests.
CORPUS = Corpus(
    "made up",
    {
        f"user{n}": tuple(" ".join(GENERATOR.choice(VOCABULARY[n % 3 :], 6).tolist()) for _ in range(40))
        for n in range(12)
    },
)
WORDS = " ".join(VOCABULARY[:12])
TALKATIVE = Corpus("talkative", {f"user{n}": tuple(f"{WORDS} {m} {n}" for m in range(60)) for n in range(8)})
EXPERIMENT = Experiment(rounds=4, cohort=CohortSettings(size=5), evaluation=EvaluationSettings(every=2, messages=100))


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    return tmp_path_factory.mktemp("programs")


def in_process(prepared):
    return InProcess(prepared.device_maker()(prepared.program), prepared.folder)


def two_processes(prepared):
    return Processes(partial(prepared.device_maker(), prepared.program), 2, prepared.folder)


def trained(experiment, folder, programs, executor=in_process, progress=lambda *_: None):
    prepared = prepare(experiment, CORPUS, 1, folder, programs)
    made = executor(prepared)
    try:
        return run(prepared, made, progress)
    finally:
        made.close()


@pytest.fixture(scope="module")
def curve(programs, tmp_path_factory):
    return trained(EXPERIMENT, tmp_path_factory.mktemp("whole"), programs)


def test_the_model_learns_and_each_point_says_what_it_cost(curve):
    assert [point.round for point in curve] == [0, 2, 4]
    assert curve[-1].loss < curve[0].loss
    assert curve[0].report_bytes is None
    assert 0 < curve[-1].report_bytes < 5_000
    assert 0 < curve[-1].bytes_down < 4 * 200_000
    assert curve[-1].held_out_top1 is not None


def test_with_secure_sums_the_model_learns_from_low_rank_and_goes_on_where_it_was(programs, tmp_path):
    summed = msgspec.structs.replace(EXPERIMENT, privacy=Privacy.SECURE_SUM)
    whole = trained(summed, tmp_path / "whole", programs)
    assert whole[-1].loss < whole[0].loss
    assert 10_000 < whole[-1].report_bytes < 60_000

    def stop(number, _point):
        if number == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(summed, tmp_path / "cut", programs, progress=stop)
    assert trained(summed, tmp_path / "cut", programs) == whole


def test_noise_is_that_of_as_many_people_as_are_simulated(programs, tmp_path):
    private = msgspec.structs.replace(
        EXPERIMENT,
        rounds=1,
        codec=CodecConfig(name="dense-f32"),
        privacy=Privacy.DP,
        minimum_separation=2,
        evaluation=EvaluationSettings(every=1, messages=10),
        plan=PlanConfig(evaluation_share=0.0),
    )
    weights = {}
    for people in (1000, 0):
        trained(msgspec.structs.replace(private, people=people), tmp_path / str(people), programs)
        weights[people] = restored_weights(tmp_path / str(people)).astype(np.float64)
    multiplier = calibrated(private.dp.epsilon, private.dp.delta, private.rounds, 2)
    # 5 devices report, or 1000 / 2; the noise is the same but for that
    assert np.std(weights[0] - weights[1000]) == pytest.approx(multiplier * (1 / 5 - 1 / 500), rel=0.02)


def test_noise_inside_sums_reaches_the_model(programs, tmp_path):
    weights, layout = {}, None
    for privacy in (Privacy.SECURE_SUM, Privacy.SECURE_DP):
        experiment = msgspec.structs.replace(
            EXPERIMENT,
            rounds=1,
            privacy=privacy,
            evaluation=EvaluationSettings(every=1, messages=10),
            plan=PlanConfig(evaluation_share=0.0),
        )
        trained(experiment, tmp_path / privacy.value, programs)
        weights[privacy] = restored_weights(tmp_path / privacy.value).astype(np.float64)
        layout = prepare(experiment, CORPUS, 1, tmp_path / f"{privacy.value}-again", programs).layout
    size = experiment.cohort.size
    noise = noise_terms(TaskSettings(privacy=Privacy.SECURE_DP, rounds=1, minimum=size), "")
    order = sum_order(1, size, size, layout, 1.0, noise)
    longest = order.grid.step * (order.noise_variance * values_of(order, layout) / size) ** 0.5
    # the two products of a matrix share what both bases span
    assert 0.5 * longest < np.linalg.norm(weights[Privacy.SECURE_DP] - weights[Privacy.SECURE_SUM]) < 1.1 * longest


@pytest.mark.parametrize("codec", [CodecConfig(), CodecConfig(name="dense-f16")], ids=lambda codec: codec.name)
def test_an_update_is_what_its_payload_decodes_to_and_payloads_are_for_measured_rounds(codec, programs, tmp_path):
    prepared = prepare(msgspec.structs.replace(EXPERIMENT, codec=codec), CORPUS, 1, tmp_path, programs)
    executor, weights = in_process(prepared), np.zeros(prepared.layout.size, np.float32)
    (sent,), (unmeasured,) = (executor.train([3], 1, weights, measured=measured) for measured in (True, False))
    decoded = codec_for(codec.choice()).decode(sent.payload, prepared.layout).dense()
    for each in (sent, unmeasured):
        update = each.update.dense() if isinstance(each.update, Sparse) else each.update
        assert update.tobytes() == decoded.tobytes()
    assert unmeasured.payload is None


def test_several_processes_give_the_same_curve(curve, programs, tmp_path):
    assert trained(EXPERIMENT, tmp_path, programs, two_processes) == curve


def test_what_devices_keep_may_be_more_than_the_memory_for_it(curve, programs, tmp_path, monkeypatch):
    monkeypatch.setattr("nightjar.simulation.laboratory.executor.HELD_BYTES", 1)
    assert trained(EXPERIMENT, tmp_path, programs) == curve


@pytest.mark.parametrize("after", [1, 3])
def test_a_run_that_was_killed_gives_the_same_curve(curve, programs, tmp_path, after):
    def stop(number, _point):
        if number == after:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(EXPERIMENT, tmp_path, programs, progress=stop)
    assert trained(EXPERIMENT, tmp_path, programs) == curve
    lines = (tmp_path / CURVE).read_bytes().splitlines()
    assert [msgspec.json.decode(line)["round"] for line in lines] == [0, 2, 4]


def test_everything_that_a_run_carries_from_round_to_round_survives_a_kill(programs, tmp_path):
    """The downlink's residual, the average of the weights, the losses that the selection reads, and the windows."""
    rich = msgspec.structs.replace(
        EXPERIMENT,
        cohort=CohortSettings(size=3, candidates=6, availability="generated", round_s=3600.0),
        strategy=StrategyConfig(name=StrategyName.FEDADAM, schedule=RateSchedule(decay=Decay.COSINE, decay_rounds=4)),
        downlink="topk-8",
        evaluation=EvaluationSettings(every=1, messages=50, average_rounds=3),
    )

    def stop(number, _point):
        if number == 2:
            raise StoppedError

    whole = trained(rich, tmp_path / "whole", programs)
    with pytest.raises(StoppedError):
        trained(rich, tmp_path / "killed", programs, progress=stop)
    assert trained(rich, tmp_path / "killed", programs) == whole
    assert whole[-1].bytes_down < 50_000, "a twentieth of the weights, in a byte each"


BUFFERED = msgspec.structs.replace(
    EXPERIMENT,
    mode="buffered",
    buffer=2,
    concurrency=6,
    max_staleness=3,
    time=TimeSettings(training_s=30.0, slow_share=0.2),
)


@pytest.fixture(scope="module")
def buffered_curve(programs, tmp_path_factory):
    return trained(BUFFERED, tmp_path_factory.mktemp("buffered"), programs)


def test_by_buffers_the_model_learns_and_each_point_says_when(buffered_curve):
    assert buffered_curve[-1].loss < buffered_curve[0].loss
    assert [point.hours for point in buffered_curve] == sorted(point.hours for point in buffered_curve)
    assert buffered_curve[-1].device_seconds == pytest.approx(6 * 3600 * buffered_curve[-1].hours)


def test_by_buffers_several_processes_give_the_same_curve(buffered_curve, programs, tmp_path):
    assert trained(BUFFERED, tmp_path, programs, two_processes) == buffered_curve


def test_by_buffers_a_run_that_was_killed_gives_the_same_curve(buffered_curve, programs, tmp_path):
    def stop(number, _point):
        if number == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        trained(BUFFERED, tmp_path, programs, progress=stop)
    assert trained(BUFFERED, tmp_path, programs) == buffered_curve


def test_a_late_update_counts_less(buffered_curve, programs, tmp_path):
    assert trained(msgspec.structs.replace(BUFFERED, staleness="constant"), tmp_path, programs) != buffered_curve


def test_each_device_trains_the_weights_that_it_fetched(programs, tmp_path):
    seen, bases = [], []

    class Watched(InProcess):
        def train(self, people, round_number, weights, *, measured):
            seen.append((round_number, weights.tobytes()))
            return super().train(people, round_number, weights, measured=measured)

    trained(BUFFERED, tmp_path, programs, lambda each: Watched(each.device_maker()(each.program), each.folder))
    people = len(prepare(BUFFERED, CORPUS, 1, tmp_path, programs).batches)
    plan = plan_of(BUFFERED, people, 1)
    for number in range(1, BUFFERED.rounds + 1):
        work = plan(number, np.empty(0)).work
        bases += [(number, base) for base in sorted({each.base for each in work})]
    assert [number for number, _ in seen] == [number for number, _ in bases]
    of_base = {base: weights for (_, base), (_, weights) in zip(bases, seen, strict=True)}
    assert all(of_base[base] == weights for (_, base), (_, weights) in zip(bases, seen, strict=True))
    assert len(set(of_base.values())) == len(of_base) > 1


def test_nobody_takes_part_outside_a_window(programs, tmp_path):
    windows = tmp_path / "windows.csv"
    windows.write_text(
        "device,trace_start_s,trace_end_s,window_start_s,window_end_s\n"
        + "".join(f"{n},0,86400,{3600 * n},{3600 * n + 3500}\n" for n in range(12))
    )
    hourly = CohortSettings(size=3, availability=str(windows), round_s=3600.0)
    seen = []

    class Watched(InProcess):
        def train(self, people, round_number, weights, *, measured):
            seen.append(list(people))
            return super().train(people, round_number, weights, measured=measured)

    traced = msgspec.structs.replace(EXPERIMENT, cohort=hourly)
    trained(traced, tmp_path / "run", programs, lambda each: Watched(each.device_maker()(each.program), each.folder))
    assert seen == [[1], [2], [3], [4]], "one person is free in each hour"


def test_a_folder_of_another_experiment_is_refused(programs, tmp_path):
    private = msgspec.structs.replace(EXPERIMENT, privacy=Privacy.DP)
    prepare(private, CORPUS, 1, tmp_path, programs)
    for other, seed in (
        (private, 2),
        (EXPERIMENT, 1),
        *((msgspec.structs.replace(private, rounds=n), 1) for n in (3, 5)),
    ):
        with pytest.raises(ConfigError, match="another experiment or seed"):
            prepare(other, CORPUS, seed, tmp_path, programs)


def test_a_run_goes_on_with_more_rounds(curve, programs, tmp_path):
    trained(msgspec.structs.replace(EXPERIMENT, rounds=2), tmp_path, programs)
    assert trained(EXPERIMENT, tmp_path, programs) == curve


def test_a_run_that_diverges_stops_and_keeps_what_was(programs, tmp_path):
    class Wild(InProcess):
        def train(self, people, round_number, weights, *, measured):
            wild = weights * np.float32(1e30 if round_number == 3 else 1)
            return super().train(people, round_number, wild, measured=measured)

    with pytest.raises(UnavailableError, match=r"could not train in round 3: .*smaller learning rate"):
        trained(
            EXPERIMENT,
            tmp_path,
            programs,
            lambda prepared: Wild(prepared.device_maker()(prepared.program), prepared.folder),
        )
    assert len((tmp_path / CURVE).read_bytes().splitlines()) == 2


def test_personal_models_are_compared_on_later_messages(programs, tmp_path):
    experiment = msgspec.structs.replace(EXPERIMENT, rounds=1, cohort=CohortSettings(size=3))
    prepared = prepare(experiment, TALKATIVE, 1, tmp_path, programs)
    run(prepared, in_process(prepared))
    found = personalise(prepared, 4)
    assert [each.method for each in found] == [method.name for method in METHODS]
    plain, unconditional, *_ = found
    assert 0 < plain.people <= 4
    assert plain.words >= plain.people * ENOUGH_WORDS
    assert {each.top1_before for each in found} == {plain.top1_before}, "the same people and the same words"
    assert unconditional.kept_share == 1 >= plain.kept_share
    assert plain.top1 >= plain.top1_before, "everybody's sentences are alike, so what was held back tells the truth"


def test_under_fedper_the_projection_stays_on_the_devices_and_is_measured_there(programs, tmp_path):
    experiment = with_personal("fedper", CodecConfig(name="dense-f32"))
    prepared = prepare(experiment, TALKATIVE, 1, tmp_path, programs)
    start = start_weights(prepared, prepared.device_maker()(prepared.program).program)
    (private,) = (slice(a, b) for spec, a, b in prepared.layout.spans() if spec.name == PRIVATE)
    run(prepared, in_process(prepared))
    fleets = restored_weights(tmp_path)
    assert (fleets[private] == start[private]).all()
    assert (fleets[: private.start] != start[: private.start]).any()
    owns = [kept(tmp_path, person, 3) for person in range(len(prepared.batches))]
    took_part = [own for own in owns if own is not None]
    assert 3 <= len(took_part) <= 6
    assert all(own.size == private.stop - private.start and (own != start[private]).any() for own in took_part)
    *_, last = personalise(prepared, 10)
    assert last.method == "fedper, in its rounds"
    assert 0 < last.kept_share <= 1


def test_under_ditto_the_fleet_learns_as_without_and_each_device_keeps_a_model_near_the_fleets(programs, tmp_path):
    curves, apart = [], {}
    for method, pull in (("", 0.0), ("ditto", 0.0), ("ditto", 0.9)):
        folder = tmp_path / f"{method}{pull}"
        prepared = prepare(with_personal(method, CodecConfig(), pull), TALKATIVE, 1, folder, programs)
        curves.append(run(prepared, in_process(prepared)))
        own = next((own for person in range(9) if (own := kept(folder, person, 3)) is not None), None)
        if own is not None:
            apart[pull] = np.linalg.norm(own - restored_weights(folder))
    assert curves[0] == curves[1] == curves[2]
    assert 0 < apart[0.9] < apart[0.0]


def test_a_run_that_was_begun_before_a_setting_existed_goes_on(programs, tmp_path):
    prepared = prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs)
    path = prepared.folder / ABOUT
    written = json.loads(path.read_bytes())
    del written["experiment"]["personal"]
    path.write_text(json.dumps(written))
    assert prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs).experiment == EXPERIMENT


def with_personal(method, codec, pull=0.1):
    personal = PersonalSettings(method=method, pull=pull)
    return msgspec.structs.replace(EXPERIMENT, rounds=2, cohort=CohortSettings(size=3), codec=codec, personal=personal)


def test_without_enough_words_nobody_is_personalised(programs, tmp_path):
    prepared = prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs)
    run(prepared, in_process(prepared))
    with pytest.raises(CorpusError, match="50 held-back"):
        personalise(prepared, 4)


def test_a_damaged_checkpoint_says_what_to_do(programs, tmp_path):
    prepared = prepare(EXPERIMENT, CORPUS, 1, tmp_path, programs)
    (tmp_path / "checkpoint.npz").write_bytes(b"half")
    with pytest.raises(ConfigError, match="to begin anew"):
        run(prepared, in_process(prepared))


def test_the_command_compares_variants_and_ends_with_their_outcomes(monkeypatch, tmp_path, programs):
    monkeypatch.setattr("nightjar.simulation.laboratory.command.PROGRAMS", programs)
    corpus = tmp_path / "corpus.tsv"
    lines = [f"{user}\t{message}\n" for user, messages in CORPUS.users.items() for message in messages]
    corpus.write_text("user\ttext\n" + "".join(lines))
    (tmp_path / "small.toml").write_text(
        "model = 'tiny'\nrounds = 2\n[cohort]\nsize = 3\n[evaluation]\nmessages = 50\n"
    )
    arguments = [str(tmp_path / "small.toml"), "--corpus", str(corpus), "--out", str(tmp_path / "out"), "--json"]
    options = ["--sweep", "strategy.name=fedavg,fedadam", "--seeds", "1,2", "--trigram", "--central", "1"]
    done = CliRunner().invoke(learn, [*arguments, *options], catch_exceptions=False)
    first, second = (json.loads(line) for line in done.stdout.splitlines()[-2:])
    assert [first["experiment"], second["experiment"]] == ["strategy.name=fedavg", "strategy.name=fedadam"]
    for outcome in (first, second):
        assert outcome["seeds"] == [1, 2]
        assert 0 <= outcome["top1"] <= outcome["top3"] <= 1
        assert 0 < outcome["trigram_top1"] <= 1
        assert outcome["central_top1"] is not None
        assert 0 < outcome["trigram_held_out_top1"] <= 1
        assert 0 <= outcome["central_held_out_top1"] <= 1
    runs = list((tmp_path / "out").glob("*/seed-*"))
    assert [len(list(run.glob("events.out.tfevents.*"))) for run in runs] == [1] * 4
    assert {path.name for path in (tmp_path / "out").iterdir() if path.is_file()} == {
        "curve.svg",
        "curve.png",
        "outcome.json",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", "1,1"], "different numbers"),
        (["--seeds", "x"], "different numbers"),
        (["--sweep", "a"], "KEY=A,B,C"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, message):
    (tmp_path / "small.toml").write_text("")
    with pytest.raises(ConfigError, match=message):
        CliRunner().invoke(
            learn, [str(tmp_path / "small.toml"), "--out", str(tmp_path / "out"), *options], catch_exceptions=False
        )
