import os

import pytest

from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.shell.probes.idle import InputDevices, Keyboard, Terminals, TypingActivity
from tests.host.test_trusted_time import NOW_S, WRONG

WALL_S = 1_000_000.0


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.mark.parametrize(
    ("name", "idle_s", "answer"),
    [("pts/0", 10, Answer.NO), ("pts/0", 61, Answer.YES), ("tty1", 10, Answer.NO), ("ttyS0", 10, Answer.YES)],
)
def test_a_key_on_a_terminal_is_use(tree, name, idle_s, answer):
    tree.terminal(name, WALL_S - idle_s)
    tree.terminal("tty", WALL_S)
    assert Terminals(tree.root, 60.0, lambda: WALL_S)()[Condition.IDLE].value is answer


def test_typing_on_our_own_keyboard_is_use_also_for_another_process(tmp_path):
    clock, running = Clock(), Clock()
    clock.now_s = WALL_S
    typing = TypingActivity(tmp_path / "typed", clock)
    keyboard = Keyboard(TypingActivity(tmp_path / "typed", clock, running), 60.0)
    assert keyboard()[Condition.IDLE].value is Answer.YES
    typing.note()
    assert keyboard()[Condition.IDLE].value is Answer.NO
    assert (tmp_path / "typed").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "typed").read_bytes() == b""
    clock.now_s += 61
    running.now_s += 61
    assert keyboard()[Condition.IDLE].value is Answer.YES


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("wrong_by_s", WRONG.values(), ids=WRONG)
def test_typing_while_the_clock_is_wrong_is_use_for_a_minute_as_any(tmp_path, tree, wrong_by_s, restarted):
    clock, running = Clock(), Clock()

    def probes():
        return [
            Keyboard(TypingActivity(tmp_path / "typed", clock, running), 60.0),
            Terminals(tree.root, 60.0, clock, running),
        ]

    begun = probes()
    assert [probe()[Condition.IDLE].value for probe in begun] == [Answer.YES] * 2
    clock.now_s = NOW_S + wrong_by_s
    TypingActivity(tmp_path / "typed", clock).note()
    tree.terminal("pts/0", clock.now_s)
    if not restarted:
        assert [probe()[Condition.IDLE].value for probe in begun] == [Answer.NO] * 2
    clock.now_s = NOW_S
    begun = probes() if restarted else begun
    if not (restarted and wrong_by_s < 0):  # an old time tells nobody that started since that it was a moment ago
        assert [probe()[Condition.IDLE].value for probe in begun] == [Answer.NO] * 2
    running.now_s += 61
    assert [probe()[Condition.IDLE].value for probe in begun] == [Answer.YES] * 2


def test_typing_is_noted_also_where_nothing_can_be_written(tmp_path):
    TypingActivity(tmp_path / "gone" / "typed").note()


@pytest.fixture
def device(tree):
    (tree.root / "dev/input").mkdir(parents=True)
    path = tree.root / "dev/input/event0"
    os.mkfifo(path)
    keep = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    yield keep
    os.close(keep)


def test_an_input_device_says_that_something_was_pressed_and_everything_is_thrown_away(tree, device):
    clock = Clock()
    clock.now_s = 1000.0
    probe = InputDevices(tree.root, 60.0, clock)
    try:
        assert probe()[Condition.IDLE].value is Answer.YES
        os.write(device, b"k" * 72)
        assert probe()[Condition.IDLE].value is Answer.NO
        with pytest.raises(BlockingIOError):
            os.read(device, 1)
        clock.now_s += 59
        assert probe()[Condition.IDLE].value is Answer.NO
        clock.now_s += 2
        assert probe()[Condition.IDLE].value is Answer.YES
    finally:
        probe.close()


def test_an_accelerometer_is_nobody(tree, device):
    tree.write("sys/class/input/event0/device/properties", "40")
    probe = InputDevices(tree.root, 60.0)
    os.write(device, b"k" * 24)
    assert probe()[Condition.IDLE].value is Answer.UNKNOWN


def test_without_readable_input_devices_it_is_unknown(tree):
    assert InputDevices(tree.root, 60.0)()[Condition.IDLE].value is Answer.UNKNOWN
