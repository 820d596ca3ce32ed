import pytest
from msgspec.structs import replace

from nightjar.edge_agent.core.privacy_ledger import LedgerEntry, charged, faults, noise_faults, spent
from nightjar.wire.identifiers import Sha256
from nightjar.wire.limits import Limits
from nightjar.wire.messages import Assignment, CodecChoice, PrivacyTerms, TrainingPlan, Work
from nightjar.wire.secure_sum.grid import Grid
from nightjar.wire.secure_sum.low_rank import Rank
from nightjar.wire.secure_sum.order import BINDING, SumOrder

TERMS = PrivacyTerms(epsilon=8.0, delta=1e-6, rounds=100, separation=10, step=4)


PLAN = TrainingPlan(learning_rate=1.0, clip_norm=1.0)
COUNTED, KEYSTROKES = replace(PLAN, evaluation_share=0.3), replace(PLAN, keystrokes=True)


def order(task="keyboard", terms=TERMS, plan=PLAN, **changes):
    return Assignment(
        task=task,
        round=9,
        attempt=1,
        version=1,
        manifest=Sha256("0" * 64),
        codec=CodecChoice(),
        plan=plan,
        report_deadline_s=60.0,
        privacy=terms,
        **changes,
    )


def test_a_task_is_charged_once_and_its_reports_are_counted():
    first = charged([], order())
    assert first == LedgerEntry("keyboard", TERMS, 1)
    later = charged([first], order(terms=replace(TERMS, step=14)))
    assert (later.reports, later.terms.step) == (2, 14)
    assert spent([later]) == 8.0


def test_what_promises_nothing_costs_nothing():
    assert charged([], order(terms=None)) is None
    assert faults([], order(terms=None), Limits()) == []


@pytest.mark.parametrize("evaluated", [{"work": Work.EVALUATE}, {"plan": COUNTED}, {"plan": KEYSTROKES}])
def test_what_is_counted_without_noise_is_refused_under_a_promise_and_charged_if_it_were_made(evaluated):
    (fault,) = faults([], order(**evaluated), Limits())
    assert fault == "privacy: expected training only, because what an evaluation counts has no noise"
    assert charged([], order(**evaluated)) == LedgerEntry("keyboard", TERMS, 1)


def test_a_device_keeps_the_separation_though_the_coordinator_does_not():
    entry = LedgerEntry("keyboard", TERMS, 1)
    assert faults([entry], order(terms=replace(TERMS, step=14)), Limits()) == []
    for step in (3, 4, 5, 13):
        assert "may again from 14 on" in faults([entry], order(terms=replace(TERMS, step=step)), Limits())[0]


def test_terms_that_change_within_a_task_are_refused():
    entry = LedgerEntry("keyboard", TERMS, 1)
    for changed in ({"epsilon": 7.0}, {"rounds": 200}, {"separation": 1}, {"delta": 1e-5}):
        (fault,) = faults([entry], order(terms=replace(TERMS, step=50, **changed)), Limits())
        assert fault == "privacy: the terms of the task keyboard changed"


def test_a_report_after_the_last_round_is_refused():
    assert "ends after 100 rounds" in faults([], order(terms=replace(TERMS, step=100)), Limits())[0]


def test_tasks_add_up_to_the_limit_of_the_device():
    entry, limits = LedgerEntry("keyboard", TERMS, 1), Limits(epsilon=10.0)
    assert faults([entry], order(terms=replace(TERMS, step=14)), limits) == []
    (fault,) = faults([entry], order(task="another"), limits)
    assert fault == "privacy: expected an epsilon of at most 10 in all, 8 is spent and the task has 8"


GRID = Grid(step=0.01, most=100)
RANK = Rank(rows=10, right=1, left=1)


def noised(variance, **changes):
    summed = SumOrder(
        number=1,
        threshold=5,
        cohort=26,
        rank=RANK,
        grid=GRID,
        clip_norm=1.0,
        most_examples=100,
        noise_variance=variance,
        binding=BINDING,
    )
    return order(minimum=16, secure_sum=summed, **changes)


def test_a_grid_so_fine_that_its_steps_overflow_is_refused():
    asked = noised(400)
    asked = replace(asked, secure_sum=replace(asked.secure_sum, grid=Grid(step=1e-300, most=100)))
    assert "gives epsilon" in noise_faults(asked, 1000)[0]


def test_noise_without_a_promise_and_a_promise_without_noise_are_refused():
    assert noise_faults(order(), 1000) == [], "the coordinator adds the noise"
    assert noise_faults(noised(0, terms=None), 1000) == []
    for given in (noised(0), noised(400, terms=None)):
        assert "one without the other" in noise_faults(given, 1000)[0]
    assert "noise_variance of at least 16" in noise_faults(noised(15, terms=replace(TERMS, epsilon=1e6)), 1000)[0]
