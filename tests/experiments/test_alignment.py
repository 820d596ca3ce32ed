from functools import partial

import pytest

from nightjar.experiments.alignment import _P, _point, first, second
from nightjar.experiments.parties import run_parties

ONE, OTHER = ["ann", "bob", "cleo", "dan"], ["dan", "eve", "ann"]


@pytest.fixture(scope="module")
def made():
    roles = {"one": partial(first, other="other", people=ONE), "other": partial(second, other="one", people=OTHER)}
    return run_parties(roles)


def test_both_find_the_common_people_in_the_same_order(made):
    found = [ONE[place] for place in made.results["one"]]
    assert sorted(found) == ["ann", "dan"]
    assert [OTHER[place] for place in made.results["other"]] == found


def test_no_identifier_and_no_hash_is_sent(made):
    sent = b"".join(each.body for each in made.messages)
    for name in ONE + OTHER:
        assert name.encode() not in sent
        assert _point(name) not in sent


def test_hashes_are_points_of_the_curve_and_not_of_its_twist():
    for name in ONE + OTHER:
        x = int.from_bytes(_point(name), "little")
        assert pow(x**3 + 486662 * x * x + x, (_P - 1) // 2, _P) == 1


def test_nobody_in_common_is_an_answer():
    roles = {"one": partial(first, other="other", people=["a"]), "other": partial(second, other="one", people=["b"])}
    assert run_parties(roles).results == {"one": [], "other": []}
