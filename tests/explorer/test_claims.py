"""Whatever the owner of a card, a thief of it and an operator do, in whatever order, and whichever answers get lost."""

import pytest
from msgspec.structs import replace

from nightjar.coordinator.enrolment import register
from nightjar.coordinator.enrolment.claims import redeem
from nightjar.coordinator.storage.database import Database
from tests.explorer.claims import Enrolling, rules
from tests.explorer.search import explore


@pytest.fixture
def database(tmp_path):
    made = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("device", ["pi-kitchen", ""])
@pytest.mark.parametrize("approval", [False, True])
@pytest.mark.parametrize("uses", [1, 2])
def test_a_claim_holds_whoever_uses_it_in_whatever_order(database, uses, approval, device):
    enrolling = Enrolling(database, uses=uses, approval=approval, device=device)
    explored = explore(enrolling.start(), enrolling.moves, rules(enrolling))
    assert explored.rule == "", explored.way
    assert explored.states > 20


@pytest.mark.slow
def test_without_the_count_of_uses_the_explorer_finds_a_thief_who_gets_in(database, monkeypatch):
    def careless(claim, held, key, now_s):
        return redeem(claim and replace(claim, uses_left=1), held, key, now_s)

    monkeypatch.setattr(register, "redeem", careless)
    enrolling = Enrolling(database, uses=1, approval=False, device="pi-kitchen")
    explored = explore(enrolling.start(), enrolling.moves, rules(enrolling))
    assert explored.rule == "a claim lets in no more keys than it has uses"


@pytest.mark.slow
def test_without_the_stored_verdict_the_explorer_finds_a_device_that_is_lost_with_its_answer(database, monkeypatch):
    monkeypatch.setattr(register, "redeem", lambda claim, _held, key, now_s: redeem(claim, None, key, now_s))
    enrolling = Enrolling(database, uses=1, approval=False, device="pi-kitchen")
    explored = explore(enrolling.start(), enrolling.moves, rules(enrolling))
    assert explored.rule.startswith("whoever was let in and lost the answer")
