"""Noise inside sums: epsilon is what dp-accounting says, and the honest devices of a sum add what was planned."""

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant

from nightjar.coordinator.learning.privacy.accounting import calibrated, epsilon_after, ledger_of
from nightjar.coordinator.learning.privacy.distributed import MOST_MULTIPLIER, noised_grid
from nightjar.coordinator.learning.privacy.ledger import explain
from nightjar.coordinator.learning.privacy.noised_mean import NoiseTerms
from nightjar.wire.errors import LocalProtocolError
from nightjar.wire.secure_sum.discrete_gaussian import LEAST_VARIANCE, MOST_VARIANCE, rounded_norm


@pytest.mark.parametrize(("rounds", "separation", "reports"), [(500, 100, 5), (501, 100, 6), (40, 1, 40)])
def test_a_device_spends_as_with_a_gaussian_of_the_same_deviation_for_each_of_its_reports(rounds, separation, reports):
    accountant = RdpAccountant()
    accountant.compose(dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(5.0), reports))
    assert epsilon_after(5.0, rounds, separation, 1e-6, summed=True) == pytest.approx(
        accountant.get_epsilon(1e-6), rel=1e-9
    )
    assert epsilon_after(5.0, 0, separation, 1e-6, summed=True) == 0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_the_calibrated_noise_reaches_epsilon_and_not_more(epsilon):
    multiplier = calibrated(epsilon, 1e-6, 500, 100, summed=True)
    assert epsilon - 1e-3 < epsilon_after(multiplier, 500, 100, 1e-6, summed=True) <= epsilon


@pytest.mark.parametrize("multiplier", [0.5, 1.3, 10.0, MOST_MULTIPLIER])
@pytest.mark.parametrize(("honest", "size"), [(8, 34_462), (12, 27_648), (401, 34_462), (3, 20)])
def test_the_honest_devices_add_the_planned_noise_and_hardly_more(multiplier, honest, size):
    grid, variance = noised_grid(2.0, multiplier, honest, size)
    assert grid.step * grid.most == pytest.approx(2.0), "any clipped update fits the grid"
    planned = (multiplier * rounded_norm(grid.most, size)) ** 2
    assert planned <= honest * variance < planned + honest or variance == LEAST_VARIANCE
    assert variance <= MOST_VARIANCE
    if multiplier <= 10:
        assert rounded_norm(grid.most, size) < 1.07 * grid.most, "rounding costs little"


def test_noise_that_no_grid_holds_is_refused():
    with pytest.raises(LocalProtocolError, match="noise multiplier"):
        noised_grid(1.0, 1e6, 12, 10_000)


def test_the_ledger_says_what_is_assumed_where_devices_add_the_noise():
    terms = NoiseTerms(
        clip_norm=1.0,
        devices=16,
        multiplier=calibrated(8.9, 1e-6, 500, 100, summed=True),
        separation=100,
        key="",
        honest=12,
    )
    ledger = ledger_of(terms, 1e-6, 500, 100)
    assert (ledger.participations, round(ledger.epsilon, 1)) == (5, 8.9)
    assert 0 < ledger.spent < ledger.epsilon / 2
    assert ledger.noise == pytest.approx(terms.multiplier / 16 * (16 / 12) ** 0.5)
    assert any("the others add their noise" in line for line in explain(ledger))
    assert not any("sees each report" in line for line in explain(ledger))
