"""What Prometheus' rules would have told of a simulated year."""

import re
import shutil
from pathlib import Path

import pytest

from nightjar.simulation.rounds.process import EPOCH_S
from nightjar.simulation.year.alerts import FOLLOW_AN_OUTAGE, RAISED_BY
from nightjar.simulation.year.rules import UP, ExpectedAlerts, Scrapes, evaluated, judged, metrics_in
from nightjar.wire.errors import ConfigError

RULES = Path(__file__).parents[3] / "deploy" / "prometheus" / "alerts.yml"
AWAY = ExpectedAlerts("away", 3000.0, 9000.0, frozenset({"NightjarDown"}), frozenset({"NightjarDown"}))


@pytest.fixture
def names():
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt install prometheus")
    return metrics_in(RULES)


def page(number, *, healthy=True):
    deadline_s = EPOCH_S + 300.0 * number + 200.0
    lines = [
        "# HELP nightjar_healthy 1 if the coordinator works.",
        f"nightjar_healthy {float(healthy)}",
        f'nightjar_round_deadline_seconds{{task="keyboard"}} {deadline_s}',
        "nightjar_model_version 7.0",
    ]
    return "\n".join(lines).encode()


def test_the_rules_of_deploy_fire_when_their_metrics_say_so(names):
    scrapes = Scrapes(names)
    for number in range(100):
        scrapes.add(None if 20 <= number < 30 else page(number, healthy=not 60 <= number < 70))
    firing = evaluated(RULES, scrapes)
    assert set(firing) == {"NightjarDown", "NightjarUnhealthy"}
    assert (firing["NightjarDown"][0], firing["NightjarDown"][-1]) == (21 * 300.0, 29 * 300.0)
    assert firing["NightjarUnhealthy"][0] == 61 * 300.0


def test_a_year_in_which_nothing_happens_raises_nothing(names):
    scrapes = Scrapes(names)
    for number in range(50):
        scrapes.add(page(number))
    assert evaluated(RULES, scrapes) == {}


def test_only_metrics_that_the_rules_name_are_kept():
    scrapes = Scrapes({"nightjar_healthy"})
    scrapes.add(page(0))
    assert [each["series"] for each in scrapes.series()] == [UP, "nightjar_healthy"]


def test_a_series_that_begins_later_is_missing_before():
    scrapes = Scrapes({"nightjar_healthy"})
    for text in (b"", b"", b"nightjar_healthy 1.0"):
        scrapes.add(text)
    assert {each["series"]: each["values"] for each in scrapes.series()}["nightjar_healthy"] == "_ _x1 1x0"


def test_rules_that_promtool_does_not_take_are_refused_in_words(names, tmp_path):
    wrong = tmp_path / "rules.yml"
    wrong.write_text("groups: [{name: a, rules: [{alert: B, expr: 'sum('}]}]")
    scrapes = Scrapes(names)
    scrapes.add(page(0))
    with pytest.raises(ConfigError, match="promtool did not evaluate"):
        evaluated(wrong, scrapes)


def test_what_is_no_file_of_rules_is_refused_in_words(names, tmp_path):
    with pytest.raises(ConfigError, match=r"such as deploy/prometheus/alerts\.yml"):
        metrics_in(tmp_path)


def test_a_fault_without_its_alert_and_an_alert_without_a_fault_are_told():
    found = judged([AWAY], {"NightjarUnhealthy": [4000.0, 4300.0, 20_000.0]})
    assert found.without_alert == ["away: no NightjarDown"]
    assert found.without_fault == ["NightjarUnhealthy at 4000", "NightjarUnhealthy at 20000"]
    assert found.raised == {"NightjarUnhealthy": 2}


def test_every_alert_that_faults_may_raise_is_a_rule():
    rules = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert set().union(FOLLOW_AN_OUTAGE, *RAISED_BY.values()) <= rules
