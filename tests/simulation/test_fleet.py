import sys
from pathlib import Path

import pytest

from nightjar.models.ngram import NgramRecall
from nightjar.simulation.demo.configuration import DemoSettings
from nightjar.simulation.demo.fleet import DemoFleet
from nightjar.simulation.demo.preparation import PreparedRun
from nightjar.simulation.demo.processes import MOST_RESTARTS, stopping
from nightjar.wire.errors import UnavailableError

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def fleet(tmp_path):
    settings = DemoSettings(phones=2, rounds=1, model="tiny", corpus="c", seed=7, codec="topk-8", density=0.1)
    phones = tuple(tmp_path / f"phone-0{n}" / "agent.toml" for n in (1, 2))
    prepared = PreparedRun(settings, tmp_path, "c", Path("c"), phones, "u", "k", 1, NgramRecall(0, 0, 0), 1.0)
    fleet = DemoFleet(prepared, "embedded")
    for group in fleet.groups:
        for service in group:
            service.command = SLEEP
    with stopping(fleet.groups):
        for group in fleet.groups:
            for service in group:
                service.start()
        yield fleet


def test_what_is_killed_is_started_again_and_said(fleet):
    said = []
    fleet.phones[1].kill()
    fleet.coordinator.kill()
    fleet.check(said.append)
    assert said == ["coordinator was killed; restarting it", "phone-02 was killed; restarting it"]
    assert fleet.phones[1].running
    assert fleet.coordinator.running
    fleet.check(pytest.fail)


def test_what_ends_by_itself_ends_the_demo_with_its_log(fleet):
    fleet.phones[0].kill()
    fleet.phones[0].command = [sys.executable, "-c", "print('no room left'); raise SystemExit(3)"]
    fleet.phones[0].start()
    fleet.phones[0]._process.wait(120)
    with pytest.raises(UnavailableError, match=r"phone-01 ended unexpectedly(.|\n)*no room left"):
        fleet.check(pytest.fail)


def test_what_is_killed_again_and_again_ends_the_demo(fleet):
    for _ in range(MOST_RESTARTS):
        fleet.broker.kill()
        fleet.check(lambda _: None)
    fleet.broker.kill()
    with pytest.raises(UnavailableError, match="broker ended unexpectedly"):
        fleet.check(lambda _: None)


def test_many_phones_share_a_few_processes_and_the_first_has_its_own_for_its_keyboard(tmp_path):
    settings = DemoSettings(phones=300, rounds=1, model="tiny", corpus="c", seed=7, codec="topk-4", density=0.1)
    configs = tuple(tmp_path / f"phone-{number}" / "agent.toml" for number in range(300))
    prepared = PreparedRun(settings, tmp_path, "c", Path("c"), configs, "u", "k", 1, NgramRecall(0, 0, 0), 1.0)
    services = DemoFleet(prepared, "embedded").phones
    assert [service.name for service in services] == ["phone-0", "phones-1", "phones-2", "phones-3"]
    run = [[Path(word) for word in service.command if word.endswith("agent.toml")] for service in services]
    assert sorted(path for paths in run for path in paths) == sorted(configs)
    assert {len(paths) for paths in run[1:]} == {99, 100}
