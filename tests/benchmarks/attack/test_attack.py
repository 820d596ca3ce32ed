"""The attacks on three people with twenty short messages each, by the smallest model: a few steps, all parts."""

import io
import itertools

import numpy as np
import pytest
from rich.console import Console

from nightjar.benchmarks.attack.__main__ import harms
from nightjar.benchmarks.attack.defences import SentUpdate, defence
from nightjar.benchmarks.attack.malicious import Attack
from nightjar.benchmarks.attack.measure_harm import Battle
from nightjar.benchmarks.attack.measure_leaks import LeakMeter
from nightjar.benchmarks.attack.measure_orders import OrderMeter
from nightjar.benchmarks.attack.measure_programs import ProgramMeter
from nightjar.benchmarks.attack.scene import make_scene
from nightjar.wire.identifiers import DeviceId

pytestmark = [pytest.mark.tflite, pytest.mark.tensorflow, pytest.mark.slow]
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    rows = [f"user{n}\tthe word{n} is word{(n + i) % 12} again" for n in range(12) for i in range(20)]
    path = tmp_path_factory.mktemp("text") / "twelve.tsv"
    path.write_text("\n".join(["user\ttext", *rows]) + "\n")
    return str(path)


@pytest.fixture(scope="module")
def scene(corpus):
    return make_scene(corpus, "tiny", 100, 1, QUIET, steps=3)


def test_a_corpus_with_few_people_makes_smaller_groups(scene):
    assert scene.group == 3


def test_a_report_gives_its_author_away_and_a_masked_one_nothing(scene):
    found = {
        (each.defence, each.attack): each
        for name in ("default", "secure-sum", "secure-dp")
        for each in LeakMeter(scene).leaks(defence(name, 2), lambda _leak: None)
    }
    assert found["default", "canary-one-report"].exposure > 6
    assert found["secure-sum", "canary-one-report"].exposure == pytest.approx(1, abs=0.01), "all candidates tie"
    assert found["secure-sum", "membership-one-report"].auc == 0.5
    masked = found["secure-sum", "words-one-report"]
    assert masked.recall == masked.guess_recall
    assert found["secure-sum", "membership-two-versions"].auc > 0.8, "the sum of two hides nobody"
    assert {name for _, name in found} == {
        f"{what}-{seen}"
        for what, seen in itertools.product(("words", "membership", "canary"), ("one-report", "two-versions"))
    }


def test_every_attack_is_run_and_repeats_itself(scene):
    chosen = [defence("default", 2)]
    first, second = (harms(Battle(scene, 1, 2), chosen, [0, 0.5], list(Attack)[1:], QUIET) for _ in range(2))
    assert first == second
    assert [each.attack for each in first] == [each.value for each in Attack]
    assert all(0 <= each.top1 <= 1 and not each.honest_refused for each in first)


def test_a_device_that_does_not_clip_moves_a_secure_sum_by_no_more_than_the_modulus_holds(scene):
    summed = defence("secure-sum", 3)
    state = summed.first_state(scene.layout)
    rng = np.random.default_rng(0)
    update = rng.standard_normal(scene.layout.size).astype(np.float32)

    def moved(size, *, honest):
        sent = [SentUpdate(DeviceId(f"d{i}"), 100, np.zeros_like(update)) for i in range(2)]
        sent.append(SentUpdate(DeviceId("d2"), 100, update * np.float32(size), honest=honest))
        averaged, _ = summed.average(sent, scene.weights, scene.layout, state, 1)
        return np.linalg.norm(averaged.weights - scene.weights)

    assert moved(1e3, honest=True) == pytest.approx(moved(1.0, honest=True), rel=0.2)
    assert moved(1e6, honest=False) > 10 * moved(1.0, honest=True)
    assert moved(1e6, honest=False) == pytest.approx(moved(1e3, honest=False), rel=0.2)


def test_noise_is_much_longer_than_a_small_sum_and_other_for_another_cohort(scene):
    update, changes = np.full(scene.layout.size, 1e-3, np.float32), []
    for name, people in (("secure-sum", "ab"), ("secure-dp", "ab"), ("secure-dp", "ac")):
        made = defence(name, 2)
        sent = [SentUpdate(DeviceId(person), 100, update) for person in people]
        averaged, _ = made.average(sent, scene.weights, scene.layout, made.first_state(scene.layout), 1)
        changes.append((averaged.weights - scene.weights).astype(np.float64))
    lengths = [float(np.linalg.norm(change)) for change in changes]
    assert lengths[1] > 20 * lengths[0]
    assert abs(changes[1] @ changes[2]) < 0.1 * lengths[1] * lengths[2]


def test_a_crafted_program_reads_what_was_typed_unless_devices_check_it(scene):
    rows = {(each.attack, each.mended): each for each in ProgramMeter(scene, 4).leaks(lambda _leak: None)}
    assert rows["program", False].gain_low > 0
    assert rows["program", True].gain_low <= 0 <= rows["program", True].gain_high
    assert rows["weights", False].gain_low <= rows["weights", False].gain <= rows["weights", False].gain_high


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """Twelve members, each with five words out of sixty."""
    rows = [
        f"user{n}\tthe word{(7 * n + i % 5) % 60} is word{(7 * n + i % 4) % 60}" for n in range(48) for i in range(20)
    ]
    path = tmp_path_factory.mktemp("text") / "people.tsv"
    path.write_text("\n".join(["user\ttext", *rows]) + "\n")
    return make_scene(str(path), "tiny", 100, 1, QUIET, steps=3)


def test_orders_that_give_one_device_away_gain_nothing_where_they_are_checked(people):
    rows = {(each.attack, each.mended): each for each in OrderMeter(people, 6).leaks(lambda _leak: None)}
    attacks = ("inconsistency", "differencing", "evaluation")
    assert set(rows) == set(itertools.product(attacks, (False, True)))
    for attack in attacks:
        assert rows[attack, False].gain_low > 0, attack
    for attack in attacks:
        assert rows[attack, True].gain_low <= 0 <= rows[attack, True].gain_high, attack
