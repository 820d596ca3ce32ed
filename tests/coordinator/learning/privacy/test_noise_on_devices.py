"""What the coordinator plans and what a device accepts are the same noise, though they reckon apart."""

import math

import pytest
from msgspec.structs import replace

from nightjar.coordinator.learning.privacy.accounting import calibrated
from nightjar.edge_agent.core.privacy_ledger import noise_faults
from nightjar.wire.messages import Work
from nightjar.wire.secure_sum.discrete_gaussian import rounded_norm
from tests.edge_agent.core.test_privacy_ledger import TERMS, noised


def variance_for(epsilon):
    multiplier = calibrated(epsilon, TERMS.delta, TERMS.rounds, TERMS.separation, summed=True)
    return math.ceil((multiplier * rounded_norm(100.0, 1000)) ** 2 / 12)


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 50.0])
def test_a_device_takes_the_noise_that_the_accountant_says_and_no_less(epsilon):
    terms, enough = replace(TERMS, epsilon=epsilon), variance_for(epsilon)
    assert noise_faults(noised(enough, terms=terms), 1000) == []
    (fault,) = noise_faults(noised(math.floor(0.99 * enough), terms=terms), 1000)
    assert fault.endswith(f"and {epsilon:g} was promised")
    (fault,) = noise_faults(noised(enough, terms=terms, work=Work.TRAIN), 3000)
    assert "gives epsilon" in fault, "a longer update gains more by rounding"
