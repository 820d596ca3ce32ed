import numpy as np
import pytest

from nightjar.experiments.skews import Skew, gini, measured, population

MEASURED = {skew: measured(population(skew, 30, 50, 1).train) for skew in Skew}


@pytest.mark.parametrize("skew", [skew for skew in Skew if skew is not Skew.NONE])
def test_each_skew_shows_in_its_own_measure_most(skew):
    here = MEASURED[skew]
    assert here[skew] > 0.2
    assert max(here, key=here.get) is skew
    assert max(MEASURED, key=lambda other: MEASURED[other][skew]) is skew


def test_people_who_are_alike_have_no_skew():
    assert max(MEASURED[Skew.NONE].values()) < 0.05


def test_gini_is_that_of_the_definition():
    sizes = np.array([1.0, 2.0, 5.0])
    pairs = np.abs(sizes[:, None] - sizes).mean()
    assert gini(sizes) == pytest.approx(pairs / (2 * sizes.mean()))
