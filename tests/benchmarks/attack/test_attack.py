"""The attacks on three people with twenty short messages each, by the smallest model: a few steps, all parts."""

import io
import itertools

import pytest
from rich.console import Console

from benchmarks.attack.__main__ import harms, leaks
from benchmarks.attack.defences import defence
from benchmarks.attack.malicious import Attack
from benchmarks.attack.measure_harm import Battle
from benchmarks.attack.scene import make_scene

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
        for each in leaks(scene, [defence("default", 2), defence("secure-sum", 2)], QUIET)
    }
    assert found["default", "canary-one-report"].exposure > 6
    assert found["secure-sum", "canary-one-report"].exposure == pytest.approx(1, abs=0.01), "all candidates tie"
    assert found["secure-sum", "membership-one-report"].auc == 0.5
    masked = found["secure-sum", "words-one-report"]
    assert masked.recall == masked.guess_recall
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
