"""The whole device as the configuration describes it, on a tree of files."""

import dataclasses

import pytest

from nightjar.edge_agent.config import AgentConfig, ConditionSettings, EmulatorSettings
from nightjar.edge_agent.core.eligibility import Answer, Condition, judge
from nightjar.edge_agent.shell.device import assembled_device, typing_activity
from nightjar.wire.messages import DropoutCause
from tests.edge_agent.fakes import FakeClock
from tests.edge_agent.losses import LOSSES, lose, whole_device

READ_BY_THE_DRIVER = {Condition.HAS_EXAMPLES}


@pytest.fixture
def tree(tmp_path):
    return whole_device(tmp_path / "root")


class Life:
    """A device whose conditions can be lost one by one."""

    def __init__(self, tree, tmp_path, **changes):
        usual = {"root": tree.root, "ask_logind": False, "metered": "auto", "minimum_free_disk_bytes": 0}
        settings = ConditionSettings(**(usual | changes))
        self.config = AgentConfig(device="d", data_dir=tmp_path, conditions=settings)
        self.tree, self.clock, self.paused = tree, FakeClock(), False
        self.typing = typing_activity(self.config)
        self.device = assembled_device(self.config, self.clock, self.typing, lambda: self.paused, 0.0)

    def verdict(self):
        yes = dataclasses.replace(self.device.conditions.read()[Condition.WANTED], value=Answer.YES)
        return judge({**self.device.conditions.read(), Condition.HAS_EXAMPLES: yes}, self.config.conditions.policy)


@pytest.mark.parametrize("what", LOSSES)
def test_each_condition_that_is_lost_is_seen_at_the_next_look_with_its_reason(tree, tmp_path, what):
    life = Life(tree, tmp_path, minimum_free_memory_bytes=10**10 if what == "memory" else 0)
    if what == "memory":
        tree.write("proc/meminfo", "MemAvailable: 20000000 kB")
    assert life.verdict().eligible, life.verdict()
    lose(life.tree, life, what)
    verdict = life.verdict()
    assert (verdict.cause, verdict.reason) == LOSSES[what]


def test_quiet_hours_by_the_wall_clock(tree, tmp_path):
    life = Life(tree, tmp_path, quiet_hours=("00:00-12:00", "12:00-00:00"))
    assert life.verdict().cause is DropoutCause.QUIET_HOURS


def test_a_full_disk(tree, tmp_path):
    life = Life(tree, tmp_path, minimum_free_disk_bytes=10**18)
    assert life.verdict().cause is DropoutCause.LOW_RESOURCES


@pytest.mark.parametrize("source", ["linux", "termux", "adb"])
def test_every_source_says_something_about_every_condition_or_the_policy_allows_it_to_be_unknown(
    tree, tmp_path, monkeypatch, source
):
    monkeypatch.setenv("PATH", str(tmp_path))  # no program is found
    life = Life(tree, tmp_path, source=source, ask_logind=True)
    life.device.ask_all()
    readings = life.device.conditions.read()
    assert all(reading.reason and reading.source for reading in readings.values())
    missing = set(Condition) - set(readings) - READ_BY_THE_DRIVER
    assert missing <= {Condition.STEADY_POWER, Condition.COOL}
    assert life.verdict().eligible is (source == "linux")


def test_an_emulated_phone_is_labelled_and_keeps_its_own_hours(tmp_path):
    config = AgentConfig(
        device="d",
        data_dir=tmp_path,
        conditions=ConditionSettings(quiet_hours=("02:00-04:00",)),
        emulator=EmulatorSettings(start_hour=3.0),
    )
    clock = FakeClock()
    device = assembled_device(config, clock, typing_activity(config), lambda: False, clock.wall_s())
    readings = device.conditions.read()
    assert readings[Condition.OUTSIDE_QUIET_HOURS].reason == "quiet hours 02:00-04:00"
    assert {r.source for c, r in readings.items() if c is not Condition.WANTED} == {"emulated day"}


def test_this_machine_can_be_read(tmp_path):
    config = AgentConfig(device="d", data_dir=tmp_path)
    device = assembled_device(config, FakeClock(), typing_activity(config), lambda: False, 0.0)
    device.ask_all()
    assert set(Condition) - set(device.conditions.read()) <= READ_BY_THE_DRIVER | {Condition.STEADY_POWER}
