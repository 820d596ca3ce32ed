from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.config import TaskConfig
from nightjar.coordinator.learning.device_metrics import (
    FAILURES,
    LIARS,
    Mean,
    Spread,
    Tally,
    estimate,
    figures,
    keystrokes,
    merged,
    quantile,
    tally,
    tried_in,
)
from nightjar.coordinator.rounds.round import MAX_ATTEMPTS, open_round
from nightjar.coordinator.rounds.seats import Seat, SeatState
from nightjar.coordinator.versions.rollout import failing
from nightjar.wire.frame import KeyboardEvaluation, LocalEvaluation
from nightjar.wire.messages import DropoutCause


@st.composite
def evaluations(draw, least=0):
    counted = draw(st.integers(least, 500))
    top3 = draw(st.tuples(st.integers(0, counted), st.integers(0, counted)))
    top1 = tuple(draw(st.integers(0, most)) for most in top3)
    return LocalEvaluation(counted, top1[0], top3[0], top1[1], top3[1], 5.0, 4.0)


def trimmed(values) -> tuple[float, float]:
    """Trimmed mean and its standard error, from the definition: without the tenth at each end, which is winsorised."""
    ordered = np.sort(values)
    cut = int(LIARS * len(ordered))
    kept = ordered[cut : len(ordered) - cut]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    return kept.mean(), winsorised.std(ddof=1) * len(ordered) ** 0.5 / len(kept) if len(kept) > 1 else np.inf


@given(st.lists(evaluations(), max_size=30), st.lists(evaluations(), max_size=30))
def test_tallies_of_parts_add_up_to_the_tally_of_the_whole(one, other):
    assert merged(tally(one), tally(other)) == tally([*one, *other])


@given(st.lists(evaluations(least=1), min_size=1, max_size=60))
def test_quantiles_are_those_of_the_devices_to_a_thousandth(found):
    recalls = [e.top1_before / e.counted for e in found]
    spread = figures(tally(found)).top1_before
    for share, value in ((0.1, spread.p10), (0.5, spread.p50), (0.9, spread.p90)):
        assert value == pytest.approx(np.quantile(recalls, share, method="inverted_cdf"), abs=6e-4)
    assert spread.mean == pytest.approx(trimmed(recalls)[0], abs=6e-4)


def test_a_device_that_claims_to_have_very_many_words_is_not_the_mean():
    honest = [LocalEvaluation(100, 20, 40, 20, 40, 5.0, 4.0)] * 19
    liar = LocalEvaluation(2**32 - 1, 2**32 - 1, 2**32 - 1, 0, 0, -1e30, 1e30)
    found = figures(tally([*honest, liar]))
    assert (found.loss_before, found.loss_after < 8) == (4.75, True)
    assert (found.top1_before.mean, found.top1_after.mean) == (pytest.approx(0.2), pytest.approx(0.2))


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=50))
def test_the_error_is_that_of_a_trimmed_mean(recalls):
    found = estimate({recall: recalls.count(recall) for recall in recalls}, 1 / 1000)
    mean, error = trimmed(np.array(recalls) / 1000)
    assert found.mean == pytest.approx(mean)
    assert found.error == pytest.approx(error, abs=1e-9)


@given(st.lists(st.integers(0, 1000), min_size=10, max_size=60), st.data())
def test_the_median_of_the_honest_lies_within_the_bounds_whatever_a_tenth_says(honest, data):
    most = len(honest) // 9  # a tenth of all
    lies = data.draw(st.lists(st.integers(0, 1000), max_size=most))
    given_values = [*honest, *lies]
    found = estimate({value: given_values.count(value) for value in given_values}, 1.0)
    assert found.least <= np.quantile(honest, 0.5, method="higher")
    assert found.most >= np.quantile(honest, 0.5, method="lower")


def test_nothing_measured_has_no_figures():
    nothing = figures(Tally(tried=2, failures={"diverged": 1}))
    assert (nothing.devices, nothing.top1_before, nothing.loss_before) == (0, None, None)
    assert (nothing.tried, nothing.failures) == (2, {"diverged": 1})
    assert quantile({}, 0.5) == 0.0


def test_devices_that_only_tried_a_version_say_nothing_of_training():
    one = LocalEvaluation(10, 2, 4, 2, 4, 5.0, 5.0)
    found = figures(merged(tally([one, one], trained=False), tally([LocalEvaluation(10, 2, 4, 6, 8, 5.0, 4.0)])))
    assert (found.devices, found.counted, found.top1_before.mean, found.loss_before) == (3, 30, 0.2, 5.0)
    assert (found.top1_after.mean, found.top3_after.p50, found.loss_after) == (0.6, 0.8, 4.0)
    assert figures(tally([one], trained=False)).top1_after is None


def test_a_device_without_a_counted_word_says_nothing():
    assert tally([LocalEvaluation(0, 0, 0, 0, 0, 1.0, 1.0)]) == tally([])


def test_one_device_is_each_quantile():
    assert figures(tally([LocalEvaluation(10, 2, 4, 3, 5, 5.0, 4.0)])).top1_after == Spread(0.3, 0.3, 0.3, 0.3)


def test_a_round_tells_who_could_run_its_version():
    seats = {
        "a": Seat(state=SeatState.REPORTED),
        "b": Seat(state=SeatState.REPORTED, attempt=2, earlier=(DropoutCause.TRAINING_FAILED,)),
        "c": Seat(state=SeatState.DROPPED, cause=DropoutCause.UNPLUGGED),
        "d": Seat(state=SeatState.DROPPED, cause=DropoutCause.UNTRUSTED),
        "e": Seat(state=SeatState.REFUSED, code="norm"),
        "f": Seat(),
    }
    rules = TaskConfig(model=Path("m")).rules()
    found = tried_in(msgspec.structs.replace(open_round(1, 0, rules, 7, 0.0), seats=seats))
    assert found == Tally(tried=4, failures={"untrusted": 1, "invalid": 1})


@pytest.mark.parametrize("devices", [20, 100, 1000])
def test_a_tenth_that_fails_as_often_as_it_may_rolls_no_version_back(devices):
    failed = DropoutCause.DIVERGED
    liar = Seat(state=SeatState.DROPPED, attempt=MAX_ATTEMPTS, earlier=(failed,) * (MAX_ATTEMPTS - 1), cause=failed)
    seats = {str(n): liar if n < devices / 10 else Seat(state=SeatState.REPORTED) for n in range(devices)}
    rules = TaskConfig(model=Path("m")).rules()
    found = tried_in(msgspec.structs.replace(open_round(1, 0, rules, 7, 0.0), seats=seats))
    assert failing(found, Tally(tried=devices)) == ""


def test_a_person_who_takes_the_phone_is_no_failure_of_the_version():
    assert not FAILURES & {DropoutCause.IN_USE, DropoutCause.UNPLUGGED, DropoutCause.CONNECTION_LOST}


@st.composite
def keyboards(draw):
    letters = draw(st.integers(1, 5000))
    saved, announced = draw(st.tuples(st.integers(0, letters), st.integers(0, letters)))
    return KeyboardEvaluation(letters, saved, draw(st.integers(6, 8)), announced)


@given(st.lists(keyboards(), max_size=20), st.lists(keyboards(), max_size=20))
def test_keystrokes_of_parts_add_up_to_those_of_the_whole(one, other):
    assert merged(keystrokes(one), keystrokes(other)) == keystrokes([*one, *other])


@given(st.lists(keyboards(), min_size=2, max_size=40))
def test_a_gain_is_the_trimmed_mean_of_the_paired_differences_with_its_standard_error(measured):
    points = [100 * (each.saved - each.saved_announced) / each.letters for each in measured if each.announced == 7]
    gain = keystrokes(measured).gain(7)
    assert gain.devices == len(points)
    if len(points) > 1:
        mean, error = trimmed(points)
        assert (gain.mean, gain.error) == (pytest.approx(mean, abs=0.006), pytest.approx(error, abs=0.02))


def test_people_who_type_differently_add_nothing_to_the_error_of_a_gain():
    measured = [KeyboardEvaluation(1000, base + 10, 7, base) for base in (50, 300, 700)]
    found = figures(keystrokes(measured))
    assert found.gain_over == {7: Mean(3, pytest.approx(1.0), pytest.approx(0.0, abs=1e-6))}
    assert found.saved.error > 10
    assert figures(keystrokes(measured[:1])).saved == Mean(1, 6.0, None)


def test_a_person_who_typed_much_counts_once():
    measured = [KeyboardEvaluation(100, 30, 7, 20), KeyboardEvaluation(2**32 - 1, 0, 7, 0)]
    assert keystrokes(measured).gain(7).mean == 5.0


@pytest.mark.parametrize("lie", [0, 1000])
def test_a_device_that_lies_about_its_keystrokes_does_not_decide_for_twenty(lie):
    honest = [KeyboardEvaluation(1000, 300 + gain, 7, 300) for gain in (-20, -22) * 10 + (-20,)]
    liar = KeyboardEvaluation(1000, lie, 7, 1000 - lie)
    gain = keystrokes([*honest, liar]).gain(7)
    found = (gain.mean, max(gain.mean, gain.most) < -2 * gain.error)
    assert found == (pytest.approx(-2.1, abs=0.1), True), "one of twenty decides"


def test_a_tally_of_before_keyboards_measured_is_read():
    stored = msgspec.json.encode({"devices": 2, "counted": 9})
    assert msgspec.json.decode(stored, type=Tally) == Tally(devices=2, counted=9)
    found = keystrokes([KeyboardEvaluation(100, 30, 7, 20)])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Tally) == found
