import dataclasses

import numpy as np
import pytest

from nightjar.edge_agent.core.training import TrainedUpdate, train
from nightjar.experiments.codec_study import federation
from nightjar.experiments.codec_study.federation import Phones, run
from nightjar.experiments.codec_study.variants import DENSE, AfterLate, CodecVariant
from nightjar.simulation.warm_start import seeded
from nightjar.wire.codec import codec_for
from nightjar.wire.errors import UnavailableError
from nightjar.wire.messages import CodecChoice, TrainingPlan
from tests.experiments.codec_study.settings import ALL, FEW, LAYOUT, setting

EF = CodecVariant(CodecChoice(name="topk-8", density=0.05), feedback=True)
START = np.zeros(LAYOUT.size, np.float32)


def delta_of(phone, population=FEW):
    """What a phone's training always gives."""
    at = setting(population)
    at.device.restore(START)
    plan = TrainingPlan(learning_rate=population.learning_rate, clip_norm=1.0)
    trained = train(at.device, at.phones[phone], plan, np.random.default_rng(0), lambda: False, lambda: 0.0)
    assert isinstance(trained, TrainedUpdate)
    return trained.delta


def number_of(contribution):
    return int(contribution.device.removeprefix("phone-"))


def test_one_dense_round_is_the_weighted_mean_of_the_updates():
    at = setting(ALL)
    curve, report_bytes = run(at, DENSE, 1)
    weights = [batches.targets for batches in at.phones]
    mean = np.average([delta_of(phone, ALL) for phone in range(4)], axis=0, weights=weights)
    assert [point.round for point in curve] == [0, 1]
    assert curve[0].nll == 0
    assert curve[1].nll == pytest.approx(np.linalg.norm(mean), rel=1e-6)
    assert 4 * LAYOUT.size < report_bytes < 4 * LAYOUT.size + 80


def test_momentum_carries_on():
    curve, _ = run(setting(ALL), DENSE, 2)
    assert curve[2].nll == pytest.approx(curve[1].nll * (1 + (1 + federation.MOMENTUM)), rel=1e-5)


def test_the_same_cohorts_train_whatever_the_codec():
    cohorts = []
    for variant in (DENSE, EF):
        phones, codec = Phones(setting(), variant), codec_for(variant.codec)
        cohorts.append([[c.device for c in phones.round(number, START, codec)] for number in range(1, 9)])
    assert cohorts[0] == cohorts[1]
    assert all(len(set(cohort)) == FEW.cohort for cohort in cohorts[0])
    assert len({device for cohort in cohorts[0] for device in cohort}) == FEW.phones


def test_error_feedback_loses_nothing():
    phones = Phones(setting(), EF)
    trained = np.zeros(LAYOUT.size)
    sent = np.zeros(LAYOUT.size)
    for number in range(1, 12):
        for contribution in phones.round(number, START, codec_for(EF.codec)):
            trained += delta_of(number_of(contribution))
            sent += contribution.update.dense()
    kept = np.sum(list(phones.residuals.values()), axis=0)
    assert np.abs(kept).max() > 0.5
    np.testing.assert_allclose(sent + kept, trained, atol=1e-4)


@pytest.mark.parametrize("after_late", AfterLate)
def test_a_late_report_counts_for_nothing_and_costs_its_bytes(after_late):
    late = Phones(setting(), dataclasses.replace(EF, late_share=1.0, after_late=after_late))
    assert late.round(1, START, codec_for(EF.codec)) == []
    assert len(late.report_bytes) == FEW.cohort


def test_after_a_late_report_the_state_stands_or_takes_the_whole_update():
    kept = Phones(setting(), dataclasses.replace(EF, late_share=1.0, after_late=AfterLate.KEEP))
    added = Phones(setting(), dataclasses.replace(EF, late_share=1.0, after_late=AfterLate.ADD))
    rounds = 5
    for number in range(1, rounds + 1):
        kept.round(number, START, codec_for(EF.codec))
        added.round(number, START, codec_for(EF.codec))
    assert kept.residuals == {}
    times = dict.fromkeys(range(FEW.phones), 0)
    for number in range(1, rounds + 1):
        for phone in seeded(1, "cohort", number).permutation(FEW.phones)[: FEW.cohort].tolist():
            times[phone] += 1
    assert added.residuals.keys() == {phone for phone, count in times.items() if count}
    for phone, residual in added.residuals.items():
        np.testing.assert_allclose(residual, times[phone] * delta_of(phone), rtol=1e-5)


def test_rounds_in_which_every_report_is_late_change_nothing():
    curve, _ = run(setting(), dataclasses.replace(EF, late_share=1.0), 3)
    assert {point.nll for point in curve} == {0.0}


@pytest.mark.parametrize("name", ["topk-4", "mask-4", "topk-2", "topk-4-unbiased"])
def test_every_kind_of_codec_moves_the_model_with_fewer_bytes(name):
    _, dense_bytes = run(setting(), DENSE, 3)
    for feedback in (False, True):
        curve, report_bytes = run(setting(), CodecVariant(CodecChoice(name=name, density=0.1), feedback=feedback), 3)
        assert curve[-1].nll > 0
        assert report_bytes < dense_bytes / 4


def test_a_mask_follows_the_last_update():
    mask = CodecVariant(CodecChoice(name="mask-8", density=0.1))
    last_update = np.zeros(LAYOUT.size, np.float32)
    last_update[7:27] = 1.0
    phones = Phones(setting(), mask)
    codec = federation._codec(setting(), mask, 1, last_update)
    (first, second) = phones.round(1, START, codec)
    assert first.update.indices.tolist() == second.update.indices.tolist()
    assert np.isin(first.update.indices, np.arange(7, 27)).sum() >= 16


def test_a_phone_that_cannot_train_ends_the_study_with_its_number():
    at = setting()
    at.device.delta = lambda: np.full(LAYOUT.size, np.nan, np.float32)
    at.device.reset = lambda: None
    with pytest.raises(UnavailableError, match=r"phone \d could not train in round 1"):
        run(at, DENSE, 1)
