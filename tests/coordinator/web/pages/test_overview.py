import re

from msgspec.structs import replace

from nightjar.coordinator.learning.device_metrics import Mean, Tally
from nightjar.coordinator.rounds.round import Phase, open_round
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.storage.fleet import Sample
from nightjar.coordinator.web.pages.overview import by_hour, cost, day, gains, keystrokes_plot, late
from tests.coordinator.web.test_app import RULES, A, B, C


def sample(at_s: float, up: int, reports: int = 0) -> Sample:
    return Sample(at_s=at_s, groups={}, holders={}, reports=reports, bytes_up=up, bytes_down=10 * up, busy=0.0)


def reporting(**seats):
    state = open_round(1, 0, RULES, 7, 0.0)
    return replace(state, phase=Phase.REPORTING, seats=seats, started_at_s=10.0)


def test_late_are_those_that_are_gone_and_all_that_take_longer_than_usual():
    state = reporting(a=Seat(lost_since_s=50.0), b=Seat(), c=Seat(state=SeatState.REPORTED))
    assert [(each.device, each.why) for each in late(state, 0.0, 60.0)] == [("a", "not connected for 10.0 s")]
    assert [each.device for each in late(state, 30.0, 60.0)] == ["a", "b"]
    assert late(replace(state, phase=Phase.SELECTION), 30.0, 60.0) == []
    assert {A, B, C} == {"a", "b", "c"}


def test_hours_add_up_to_the_day():
    samples = [sample(0.0, 0), sample(1800.0, 5, 1), sample(3600.0, 7, 2), sample(9000.0, 10, 4)]
    hours = by_hour(samples)
    assert hours == [(0.0, 7, 70, 2), (3600.0, 3, 30, 2)]
    assert sum(up for _, up, _, _ in hours) == 10


def test_the_day_draws_a_bar_for_each_half_hour_that_was_counted_and_nothing_between():
    samples = [replace(sample(at_s, 0), groups={"waiting": 3}) for at_s in (0.0, 900.0, 7200.0)]
    drawn = day(samples)
    assert len(re.findall(r'<rect [^>]*class="rect', drawn)) == 2, "two half-hours, one group"
    assert day(samples[:1]) == ""


def test_the_first_half_hour_shows_the_phones_that_came_after_the_start():
    empty, later = sample(0.0, 0), replace(sample(900.0, 0), groups={"resting": 8})
    assert re.search(r'<rect [^>]*class="rect', day([empty, later]))


def test_the_day_costs_what_came_since_its_first_sample():
    found = cost([sample(5.0, 100, 3)], {"bytes_up": 150, "bytes_down": 1000}, 7)
    assert (found.up_day, found.down_day, found.reports_day, found.since_s) == (50, 0, 4, 5.0)
    assert cost([], {}, 0) is None


def test_the_announced_version_is_drawn_however_many_others_there_are():
    saved = {number: Mean(5, 30.0, 0.5) for number in range(240)}
    drawn = keystrokes_plot(saved, announced=3)
    assert 'r="5"' in drawn
    assert keystrokes_plot({3: Mean(5, 30.0, 0.5)}, announced=3) == ""


def test_a_gain_is_over_the_version_that_most_devices_compared_with_and_never_over_itself():
    tally = Tally(gain_over={2: {100: 1}, 4: {50: 1, 150: 1}, 7: {0: 9}})
    assert gains({7: tally, 8: Tally()}) == {7: (4, Mean(2, 1.0, 0.5))}
