import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.learning.device_metrics import Tally
from nightjar.coordinator.versions.quality_gate import (
    COLLAPSE,
    COMPARED_WITH,
    VersionMetrics,
    faults,
    paired_error,
    worse_on_devices,
)

FORMER = VersionMetrics(top1=0.20, top3=0.40, loss=4.0)
GOOD = VersionMetrics(top1=0.195, top3=0.41, loss=4.1)


def of_words(top1, top3=None) -> VersionMetrics:
    """The figures of a version that foresaw these words; (n,) bool."""
    top3 = top1 if top3 is None else top3
    hits = np.packbits(top1).tobytes() + np.packbits(top3).tobytes()
    return VersionMetrics(top1=float(top1.mean()), top3=float(top3.mean()), loss=4.0, hits=hits)


def test_a_good_version_has_no_fault():
    assert faults(GOOD, [FORMER]) == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"top1": 0.18}, "top-1 on the held-out examples fell from 20.0 % to 18.0 %"),
        ({"top3": 0.3}, "top-3 on the held-out examples fell from 40.0 % to 30.0 %"),
        ({"loss": math.nan}, "not finite"),
    ],
)
def test_each_fault_is_said(change, said):
    (fault,) = faults(msgspec.structs.replace(GOOD, **change), [FORMER])
    assert said in fault


def test_faults_are_said_in_the_words_of_the_task_type():
    (fault,) = faults(msgspec.structs.replace(GOOD, top1=0.18), [FORMER], names=("accuracy", "top-3 accuracy"))
    assert fault.startswith("accuracy on the held-out examples fell from 20.0 % to 18.0 %")


def test_all_faults_are_said_at_once():
    assert len(faults(msgspec.structs.replace(GOOD, top1=0.0, top3=0.0), [FORMER])) == 2


def test_what_nobody_measured_is_not_asked_for():
    assert faults(None, [FORMER]) == ()
    assert faults(GOOD, [None]) == ()
    assert faults(GOOD, []) == ()


def test_a_version_is_compared_with_each_of_the_last_ones():
    falling = [VersionMetrics(top1=0.200 - 0.009 * age, top3=0.4, loss=4.0) for age in range(COMPARED_WITH)][::-1]
    (fault,) = faults(VersionMetrics(top1=0.155, top3=0.4, loss=4.0), falling)
    assert "fell from 20.0 % to 15.5 %" in fault


def test_only_a_collapse_counts_where_that_is_the_margin():
    assert faults(msgspec.structs.replace(FORMER, top1=0.151), [FORMER], COLLAPSE) == ()
    assert faults(msgspec.structs.replace(FORMER, top1=0.149), [FORMER], COLLAPSE)


@pytest.mark.slow
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=8, max_size=400).filter(lambda w: len(w) % 8 == 0))
def test_the_error_is_that_of_a_mean_of_paired_differences(words):
    new, old = (np.array([word[at] for word in words]) for at in (0, 1))
    differences = new.astype(float) - old
    expected = np.std(differences) / len(words) ** 0.5
    assert paired_error(np.packbits(new).tobytes(), np.packbits(old).tobytes()) == pytest.approx(expected, abs=1e-12)


def test_a_fall_on_few_words_may_be_chance_and_on_the_same_many_words_it_is_not():
    generator = np.random.default_rng(3)
    for words, refused in ((200, False), (20_000, True)):
        old = generator.random(words) < 0.3
        lost = generator.random(words) < 0.10  # of those that were foreseen
        gained = generator.random(words) < 0.01
        new = (old & ~lost) | gained
        assert of_words(old).top1 - of_words(new).top1 > 0.01
        assert bool(faults(of_words(new), [of_words(old)])) is refused


def test_luck_does_not_become_a_bar_that_no_version_clears():
    """A thousand versions of one quality, measured on the same words: a best of five is never far above the rest."""
    generator = np.random.default_rng(7)
    easy = generator.beta(0.5, 1.5, 1000)
    line, refused = [], 0
    for _ in range(1000):
        made = of_words(generator.random(1000) < easy)
        if faults(made, line[-COMPARED_WITH:]):
            refused += 1
        else:
            line.append(made)
    assert refused < 20


def found(*recalls: int) -> Tally:
    histogram = {recall: recalls.count(recall) for recall in recalls}
    return Tally(devices=len(recalls), top1_before_of=histogram, top3_before_of=histogram)


SOUND = found(180, 200, 220, 190, 210, 200, 195, 205, 200, 200)


def test_devices_that_foresee_less_than_with_any_of_the_last_versions_say_so():
    worse = found(*(150 + n for n in range(10)))
    at, reason = worse_on_devices(worse, [worse, SOUND, Tally()], enough=10)
    assert at == 1
    assert reason == "top-1 on 10 devices that tried it is 15.4 %, with a version before it 20.0 % on 10"
    assert worse_on_devices(worse, [SOUND], 10, ("accuracy", "top-3 accuracy"))[1].startswith("accuracy on 10 devices")
    assert worse_on_devices(SOUND, [worse, SOUND], enough=10) is None
    assert worse_on_devices(worse, [SOUND], enough=11) is None


def test_one_device_cannot_talk_a_version_down():
    sound = [180, 190, 200, 210, 220] * 4
    liar = found(*sound[:-1], 0)
    flattered = found(*sound[:-1], 1000)
    assert worse_on_devices(liar, [flattered], enough=10) is None


def rolled_back(devices: int, gained: float, told: int, told_before: int) -> int:
    """Of a hundred versions, how many go back where a tenth of the devices tell these recalls, in thousandths."""
    generator = np.random.default_rng(devices)
    liars = devices // 10

    def of_honest(mean: float) -> list[int]:
        recalls = np.clip(generator.normal(mean, 0.08, devices - liars), 0, 1)
        return [round(1000 * hits / 60) for hits in generator.binomial(60, recalls)]

    def one() -> bool:
        now = found(*of_honest(0.2 + gained), *[told] * liars)
        return worse_on_devices(now, [found(*of_honest(0.2), *[told_before] * liars)], enough=10) is not None

    return sum(one() for _ in range(100))


@pytest.mark.parametrize("devices", [20, 100, 1000])
def test_a_tenth_of_liars_neither_freezes_nor_moves_a_model(devices):
    """Recalls of people differ by 8 points: what is within that, no statistic can tell from lies of a tenth."""
    better = rolled_back(devices, 0.02, told=0, told_before=1000)
    alike = rolled_back(devices, 0.0, told=0, told_before=1000)
    worse = rolled_back(devices, -0.15, told=1000, told_before=0)
    held = (better <= 2, alike <= 4, worse >= 95 or devices <= 20)
    assert held == (True, True, True), f"of 100: better {better}, alike {alike}, worse {worse}"
