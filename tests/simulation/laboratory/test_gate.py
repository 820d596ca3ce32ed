from hypothesis import given
from hypothesis import strategies as st

from nightjar.coordinator.versions.quality_gate import VersionMetrics
from nightjar.simulation.laboratory.experiment import GateSettings
from nightjar.simulation.laboratory.gate import Gate, after_round
from nightjar.wire.frame import KeyboardEvaluation

SETTINGS = GateSettings(keyboards=True, minimum=2, patience=4)
FINE = VersionMetrics(top1=0.2, top3=0.3, loss=4.0)
LETTERS = 1000


def run(saved: dict[int, int], rounds: int, settings: GateSettings = SETTINGS, texts=None) -> Gate:
    """A run in which every device saves so many of a thousand keystrokes with each version."""
    gate = Gate()
    for number in range(1, rounds + 1):
        if gate.paused:
            break
        announced = gate.announced[-1]
        each = KeyboardEvaluation(LETTERS, saved.get(gate.base, 300), announced, saved.get(announced, 300))
        gate = after_round(gate, number, {0: each, 1: each, 2: each}, (texts or {}).get(number, FINE), settings)
    return gate


def test_a_better_version_is_announced_a_round_after_it_was_made():
    assert run({0: 300, 1: 310}, 1).announced == (0,)
    gate = run({0: 300, 1: 310}, 2)
    assert (gate.announced, gate.base) == ((0, 1), 2)
    assert gate.saved == {0: {0: 30.0, 1: 30.0, 2: 30.0}, 1: {0: 31.0, 1: 31.0, 2: 31.0}}


def test_rounds_go_on_from_a_version_that_is_a_little_worse_without_announcing_it():
    gate = run({0: 300, 1: 299, 2: 305}, 3)
    assert (gate.announced, gate.base) == ((0, 2), 3)


def test_a_version_that_is_clearly_worse_is_taken_back_with_what_was_trained_from_it():
    gate = run({0: 300, 1: 250}, 2)
    assert (gate.announced, gate.base) == ((0,), 0)
    assert run({0: 300, 1: 250}, 3).base == 3


def test_a_version_that_forgets_the_language_is_refused_before_anybody_measures_it():
    gate = run({}, 2, texts={2: VersionMetrics(top1=0.1, top3=0.2, loss=6.0)})
    assert gate.base == 1


def test_a_run_that_gains_nothing_is_paused_and_says_why():
    gate = run(dict.fromkeys(range(1, 99), 290), 99)
    assert gate.announced == (0,)
    assert gate.paused == (
        "no version was announced in the last 4 rounds: 3 devices save 29.0 % of their keystrokes with version 3, 1.0 "
        "points fewer than with version 0 (standard error 0.0)"
    )
    assert not run(dict.fromkeys(range(1, 99), 290), 99, GateSettings(keyboards=True, minimum=2, patience=0)).paused


@given(st.lists(st.integers(0, LETTERS), min_size=1, max_size=30))
def test_none_is_announced_that_was_measured_worse(saved):
    table = dict(enumerate(saved))
    announced = run(table, len(saved)).announced
    figures = [table.get(version, 300) for version in announced]
    assert figures == sorted(figures)
