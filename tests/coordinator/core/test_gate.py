import math

import msgspec
import pytest

from coordinator.core.gate import Figures, faults

FORMER = Figures(top1=0.20, top3=0.40, loss=4.0)
GOOD = Figures(top1=0.19, top3=0.41, loss=4.1)


def test_a_good_version_has_no_fault():
    assert faults(GOOD, FORMER) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"top1": 0.14}, "top-1 recall fell from 20.0 % to 14.0 %"),
        ({"top3": 0.3}, "top-3 recall fell from 40.0 % to 30.0 %"),
        ({"loss": math.nan}, "not finite"),
    ],
)
def test_each_fault_is_said(change, said):
    (fault,) = faults(msgspec.structs.replace(GOOD, **change), FORMER)
    assert said in fault


def test_all_faults_are_said_at_once():
    assert len(faults(msgspec.structs.replace(GOOD, top1=0.0, top3=0.0), FORMER)) == 2


def test_what_nobody_measured_is_not_asked_for():
    assert faults(Figures(), FORMER) == ()
    assert faults(GOOD, Figures()) == ()
