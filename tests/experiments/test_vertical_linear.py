"""Three processes find what one place would, and send nothing else than the protocol has."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from nightjar.experiments.alignment import ANSWER, COMMON, POINTS
from nightjar.experiments.linear_regression import Descent, diabetes, pooled, pooled_descent
from nightjar.experiments.vertical_linear import A, B, C, run_protocol

AT = Descent(steps=5, rate=0.3, key_bits=512, penalty=0.1)
PROBLEM = diabetes(40, 7)


@pytest.fixture(scope="module")
def made():
    return run_protocol(PROBLEM, AT)


def test_coefficients_are_those_of_the_same_descent_in_one_place(made):
    x, y = pooled(PROBLEM)
    found = np.array(made.results[A] + made.results[B])
    assert found[:-1] == pytest.approx(pooled_descent(x, y, AT), abs=1e-6)
    assert found[-1] == pytest.approx(y.mean(), abs=1e-9)


def test_the_key_holder_learns_the_falling_loss(made):
    _, y = pooled(PROBLEM)
    losses = made.results[C]
    assert losses[0] == pytest.approx(((y - y.mean()) ** 2).sum(), rel=1e-8)
    assert all(later < earlier for earlier, later in pairwise(losses))


def test_the_descent_in_one_place_ends_where_scikit_learn_does():
    x, y = pooled(PROBLEM)
    ridge = Ridge(alpha=len(y) * AT.penalty).fit(x, y)
    assert pooled_descent(x, y, Descent(steps=400, rate=AT.rate, penalty=AT.penalty)) == pytest.approx(
        ridge.coef_, abs=1e-6
    )


def test_only_the_messages_of_the_protocol_are_sent(made):
    counted = Counter((each.sender, each.receiver, each.kind) for each in made.messages)
    once = [(C, A, "n"), (C, B, "n"), (A, B, POINTS), (B, A, ANSWER), (A, B, COMMON)]
    each_step = [(A, B, "predictions"), (B, A, "errors"), (B, C, "loss")]
    each_step += [
        (A, C, "masked gradient"),
        (C, A, "masked number"),
        (B, C, "masked gradient"),
        (C, B, "masked number"),
    ]
    assert counted == dict.fromkeys(once, 1) | dict.fromkeys(each_step, AT.steps)


def test_what_others_see_is_points_ciphertexts_and_masked_numbers(made):
    sent = {kind: [each.value for each in made.messages if each.kind == kind] for kind in ("points", "masked number")}
    (points,) = sent["points"]
    assert {len(point) for point in points} == {32}
    for name in PROBLEM.people_a:
        assert not any(name.encode() in each.body for each in made.messages if each.kind != "masked number")
    # A gradient is below 2^90; masked it is anything below n, of 512 bits
    masked = [int.from_bytes(number) for answer in sent["masked number"] for number in answer]
    assert min(masked) > 2**400
