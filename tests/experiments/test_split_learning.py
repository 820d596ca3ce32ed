from dataclasses import replace

import numpy as np
import pytest

from nightjar.experiments.data_sets import digits, in_turn
from nightjar.experiments.distance_correlation import distance_correlation
from nightjar.experiments.split_learning import (
    FLOATS,
    SERVER,
    SplitPlan,
    in_one_place,
    numbers_by_formula,
    run_protocol,
)

TRAIN = digits(1).train
DEVICES = in_turn(TRAIN.at(np.arange(90)), 2)
AT = SplitPlan(epochs=2)


@pytest.fixture(scope="module", params=[False, True], ids=["vanilla", "u-shaped"])
def made(request):
    at = replace(AT, u_shaped=request.param)
    return at, *run_protocol(DEVICES, at)


def test_weights_are_those_of_the_same_steps_in_one_place(made):
    at, weights, _ = made
    assert weights == pytest.approx(in_one_place(DEVICES, at), abs=1e-6)
    assert weights != pytest.approx(at.start(), abs=1e-3)


def test_bytes_are_those_of_the_formula(made):
    at, _, sent = made
    numbers = sum(len(each.value) for each in sent.messages if each.kind in FLOATS) // 4
    assert numbers == numbers_by_formula(90, 2, at)
    assert numbers == 2 * (2 * 90 * (64 if at.u_shaped else 32)) + (64 * 32 + 32 + (330 if at.u_shaped else 0)) * 3


def test_neither_inputs_nor_with_two_cuts_labels_are_sent(made):
    at, _, sent = made
    kinds = {(each.receiver == SERVER, each.kind) for each in sent.messages}
    up = {"cut", "second slope"} if at.u_shaped else {"cut", "labels"}
    assert {kind for to_server, kind in kinds if to_server} == up
    assert all(TRAIN.x[row].tobytes() not in each.body for each in sent.messages for row in (0, 1))


def test_distance_correlation_is_one_for_a_copy_and_little_for_other_samples():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    assert distance_correlation(x, 3 * x[:, ::-1] + 1) == pytest.approx(1)
    assert distance_correlation(x, rng.normal(size=(300, 2))) < 0.2
    assert distance_correlation(x[:, :1], x[:, :1] ** 2) > 0.4, "a dependence that correlation does not see"
