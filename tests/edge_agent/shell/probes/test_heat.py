import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.heat import Heat


@pytest.mark.parametrize(
    ("battery_tenths", "zones", "answer"),
    [
        (None, [], Answer.UNKNOWN),
        (None, [55_000], Answer.YES),
        (None, [55_000, 80_500], Answer.NO),
        (None, [0, -273_000, 200_000], Answer.UNKNOWN),
        (460, [], Answer.NO),
        (450, [], Answer.YES),
        (300, [81_000], Answer.NO),
        (460, [40_000], Answer.NO),
        ("warm", ["hot"], Answer.UNKNOWN),
    ],
)
def test_heat(tree, battery_tenths, zones, answer):
    if battery_tenths is not None:
        tree.supply("BAT0", type="Battery", status="Full", temp=battery_tenths)
    for number, millidegrees in enumerate(zones):
        tree.zone(number, millidegrees)
    assert Heat(tree.root, 45.0)()[Condition.COOL].value is answer


def test_a_mouse_may_be_warm(tree):
    tree.supply("mouse", type="Battery", scope="Device", temp=600)
    assert Heat(tree.root, 45.0)()[Condition.COOL].value is Answer.UNKNOWN


@pytest.mark.parametrize(("passive", "answer"), [(60_000, Answer.NO), (0, Answer.YES), (90_000, Answer.YES)])
def test_the_kernels_own_limit_counts_where_it_is_one(tree, passive, answer):
    tree.zone(0, 65_000, passive=passive)
    reading = Heat(tree.root, 45.0)()[Condition.COOL]
    assert reading.value is answer
    assert reading.source == "thermal_zone0 cpu-thermal"
