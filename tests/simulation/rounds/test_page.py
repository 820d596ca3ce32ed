"""docs/simulation.md says what the code does."""

from pathlib import Path

import pytest

from nightjar.simulation.rounds.command import rounds
from nightjar.simulation.rounds.faults import PHASES, RATES, STATES, SimulatedFault
from nightjar.simulation.rounds.result import result_of

PAGE = (Path(__file__).parents[3] / "docs" / "simulation.md").read_text()


@pytest.mark.parametrize("fault", SimulatedFault, ids=lambda fault: fault.value)
def test_every_fault_has_its_rate_on_the_page(fault):
    rate = RATES[fault]
    (line,) = [each for each in PAGE.split("\n- ") if each.startswith(f"of each {rate.each}")]
    assert f"`{fault.value}` {100 * rate.chance:g} %" in line


def test_every_place_of_a_fault_is_on_the_page():
    assert [place for place in (*STATES, *PHASES) if f"`{place}`" not in PAGE] == []


def test_every_key_of_the_result_is_on_the_page(quiet):
    assert [key for key in result_of(quiet) if f"`{key}`" not in PAGE] == []


def test_every_option_is_on_the_page():
    names = [(*option.opts, *option.secondary_opts) for option in rounds.params]
    assert [either for either in names if not any(name in PAGE for name in either)] == []
