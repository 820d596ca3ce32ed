"""Formulas of the catalogue against cases that were computed by hand; the simplest stand as doctests on the pages."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

from nightjar.experiments.__main__ import PAGES
from nightjar.experiments.catalogue import refusals
from nightjar.experiments.catalogue.cfl import torn
from nightjar.experiments.catalogue.dgc import compress
from nightjar.experiments.catalogue.easgd import exchange
from nightjar.experiments.catalogue.fednova import normalised_step
from nightjar.experiments.catalogue.oort import choose
from nightjar.experiments.catalogue.per_fedavg import meta_descend
from nightjar.experiments.catalogue.pruning import choose as choose_weights
from nightjar.experiments.catalogue.q_fedavg import fair_step
from nightjar.experiments.catalogue.scaffold import next_variate
from nightjar.experiments.catalogue.two_sided import split
from nightjar.experiments.data_sets import Examples
from nightjar.experiments.delay import seconds_a_step
from nightjar.experiments.engine import ClientPlan
from nightjar.experiments.hierarchical import hierarchical_mean
from nightjar.experiments.networks import Classifier
from nightjar.wire.errors import ConfigError


def _f(*values):
    return np.array(values, np.float32)


def _bowl(_weights, _x, _y):
    return 0.0, _weights.copy()  # the gradient of |w|^2 / 2


BOWL = Classifier([(1,)], _bowl, lambda weights, x: x)


def test_first_order_per_fedavg_takes_the_gradient_of_the_adapted_weights():
    mine = Examples(np.zeros((2, 1), np.float32), np.zeros(2, np.int64))
    found = meta_descend(BOWL, _f(1), mine, ClientPlan(rate=0.1, batch=1), np.random.default_rng(1))
    assert found.tolist() == pytest.approx([1 - 0.1 * 0.9])


def test_with_equal_steps_fednova_is_fedavg():
    deltas, sizes = [_f(1, 2), _f(3, -2)], [1.0, 3.0]
    np.testing.assert_allclose(normalised_step(deltas, [4, 4], sizes), np.average(deltas, axis=0, weights=sizes))


def test_where_all_clients_took_the_same_step_the_variates_of_scaffold_are_its_gradient():
    assert next_variate(_f(2), _f(2), _f(1), _f(0), steps=5, rate=0.1).tolist() == pytest.approx([2.0])


def test_q_fedavg_leans_to_the_client_with_the_higher_loss():
    deltas = [_f(-1), _f(1)]
    assert fair_step(deltas, [1.0, 1.0], 2.0, 0.1)[0] == pytest.approx(0)
    assert fair_step(deltas, [1.0, 3.0], 2.0, 0.1)[0] > 0


def test_an_elastic_exchange_moves_nobody_at_rest_and_keeps_the_total():
    models, anchor = exchange([_f(1), _f(1)], _f(1), 0.3)
    assert [each.tolist() for each in (*models, anchor)] == [[1], [1], [1]]
    models, anchor = exchange([_f(5), _f(-1)], _f(1), 0.3)
    assert sum(float(each[0]) for each in (*models, anchor)) == pytest.approx(5)


def test_without_momentum_dgc_is_top_k_with_a_residual():
    u = v = _f(0, 0, 0)
    total = np.zeros(3)
    for gradient in (_f(1, 2, 3), _f(1, 0, -1), _f(2, 2, 2)):
        sent, u, v = compress(u, v, gradient, 1, momentum=0.0)
        assert np.count_nonzero(sent) == 1
        total += sent
    np.testing.assert_allclose(total + v, [4, 4, 4])


def test_what_both_ends_leave_out_is_sent_later():
    rng, left, total = np.random.default_rng(1), np.zeros(6, np.float32), np.zeros(6)
    changes = rng.normal(size=(20, 6)).astype(np.float32)
    for change in changes:
        sent, left = split(left + change, 2)
        assert np.count_nonzero(sent) == 2
        total += sent
    np.testing.assert_allclose(total + left, changes.sum(0), atol=1e-5)


def test_pruning_keeps_what_pays_for_its_time_and_takes_back_what_matters_again():
    weights, free = _f(5, 0, 0, 1), 1e9  # so long a round that no weight makes it longer
    assert choose_weights(weights, _f(0, 1, 1, 1), 1, free).all()
    assert choose_weights(weights, _f(0, 1, 0.01, 0.01), 1, 0.0).tolist() == [True, True, False, False]


def test_a_cluster_is_torn_where_updates_cancel_and_are_long():
    assert torn([_f(1, 0), _f(-1, 0)], first_norm=1.0)
    assert not torn([_f(1, 0), _f(1, 0)], first_norm=1.0)
    assert not torn([_f(0.01, 0), _f(-0.01, 0)], first_norm=1.0)


def test_oort_prefers_useful_clients_and_explores_new_ones():
    rng = np.random.default_rng(1)
    chosen = choose({0: 9.0, 1: 1.0, 2: 8.9}, [7, 8], 3, 0.34, rng)
    assert len(chosen) == 3
    assert set(chosen) - {7, 8} == {0, 2}


def test_delay_is_shared_by_the_steps():
    assert seconds_a_step(1, 1, 1.0, 5.0) == pytest.approx(6.0, abs=1e-3)
    assert seconds_a_step(1, 10, 1.0, 5.0) == pytest.approx(1.5, abs=1e-3)
    assert seconds_a_step(8, 10, 1.0, 0.0) < seconds_a_step(8, 1, 1.0, 0.0)


def test_a_mean_of_groups_is_the_mean():
    rng = np.random.default_rng(1)
    vectors, sizes = [rng.normal(size=5).astype(np.float32) for _ in range(7)], [1.0, 5, 2, 8, 3, 3, 9]
    found = hierarchical_mean(vectors, sizes, 3, by_examples=True)
    np.testing.assert_allclose(found, np.average(vectors, axis=0, weights=sizes), atol=1e-6)


@pytest.mark.parametrize("strategy", refusals.strategies())
def test_every_strategy_is_judged_and_has_its_page(strategy):
    known = {"fml": "distilling", "fedmd": "distilling", "top-k with error feedback": "random_k"}
    name = f"catalogue.{known.get(strategy, strategy)}"
    assert name in PAGES
    import_module(f"nightjar.experiments.{name}")
    assert refusals.refusals(strategy, refusals.Deployment()) == []


def test_a_reason_is_given_for_each_fact_of_the_fleet():
    once, masked = refusals.Deployment(returning=False), refusals.Deployment(masked=True)
    assert "appears once" in refusals.refusals("scaffold", once)[0]
    assert "coordinates of its own" in refusals.refusals("dgc", masked)[0]
    assert refusals.refusals("fednova", refusals.Deployment(returning=False, masked=True)) == []
    with pytest.raises(ConfigError, match="known: adacomm"):
        refusals.refusals("fedavgx", once)
