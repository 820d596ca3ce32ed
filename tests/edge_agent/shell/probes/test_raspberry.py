import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.raspberry import Raspberry
from tests.edge_agent.shell.probes.fake_device import settled


@pytest.fixture
def board(tree):
    tree.write("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\x00")
    return tree


@pytest.mark.parametrize(
    ("bits", "steady", "hot"),
    [
        ("0x0", Answer.YES, False),
        ("0x50000", Answer.YES, False),  # it was so once
        ("0x50005", Answer.NO, True),
        ("0x1", Answer.NO, False),
        ("0x2", Answer.YES, True),
        ("0x8", Answer.YES, True),
    ],
)
def test_vcgencmd(board, programs, bits, steady, hot):
    programs.answers["vcgencmd"] = f"throttled={bits}\n"
    readings = settled(Raspberry(board.root, programs))
    assert readings[Condition.STEADY_POWER].value is steady
    assert (Condition.COOL in readings) is hot
    if hot:
        assert readings[Condition.COOL].value is Answer.NO


@pytest.mark.parametrize(("alarm", "answer"), [(1, Answer.NO), (0, Answer.YES)])
def test_the_kernels_sensor_without_vcgencmd(board, programs, alarm, answer):
    board.write("sys/class/hwmon/hwmon0/name", "cpu_thermal")
    board.write("sys/class/hwmon/hwmon1/name", "rpi_volt")
    board.write("sys/class/hwmon/hwmon1/in0_lcrit_alarm", alarm)
    assert settled(Raspberry(board.root, programs))[Condition.STEADY_POWER].value is answer


@pytest.mark.parametrize("said", ["VCHI initialization failed", "throttled=", "throttled=many"])
def test_nonsense_is_unknown(board, programs, said):
    programs.answers["vcgencmd"] = said
    reading = settled(Raspberry(board.root, programs))[Condition.STEADY_POWER]
    assert reading.value is Answer.UNKNOWN
    assert "not understood" in reading.reason


def test_another_board_is_not_asked(tree, programs):
    assert Raspberry(tree.root, programs)() == {}
    assert programs.asked == []
