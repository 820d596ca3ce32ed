import typing

import numpy as np
import pytest

from nightjar.coordinator.rounds.round import TERMINAL, Phase
from nightjar.edge_agent.core import lifecycle
from nightjar.simulation.rounds.faults import (
    PHASES,
    RATES,
    STATES,
    Danger,
    Dice,
    Fuse,
    PowerCut,
    SimulatedFault,
    dangers,
)
from nightjar.wire.errors import ConfigError


def dice(text: str, severity: float = 1000.0) -> Dice:
    return Dice(dangers(text), severity, np.random.default_rng(0))


def test_every_fault_has_a_rate():
    assert set(RATES) == set(SimulatedFault)


def test_states_and_phases_are_those_of_the_machines():
    assert set(STATES) == {kind.__struct_config__.tag for kind in typing.get_args(lifecycle.State)}
    assert set(PHASES) == {phase.value for phase in Phase if phase not in TERMINAL}


@pytest.mark.parametrize("text", ["nonsense", "drop,nonsense", "", "drop:training", "power-cut:committing"])
def test_what_is_no_fault_is_refused_with_what_there_is(text):
    with pytest.raises(ConfigError, match="power-cut:training"):
        dangers(text)


def test_only_what_was_chosen_happens():
    chosen = dice("drop")
    assert any(chosen.strikes(SimulatedFault.DROP) for _ in range(50))
    assert not any(chosen.strikes(SimulatedFault.DELAY) for _ in range(50))
    chosen.rest()
    assert not any(chosen.strikes(SimulatedFault.DROP) for _ in range(50))


def test_a_fault_of_one_place_happens_only_there():
    chosen = dice("power-cut:training")
    assert chosen.one_of([SimulatedFault.POWER_CUT], "resting") is None
    assert any(chosen.strikes(SimulatedFault.POWER_CUT, "training") for _ in range(50))
    assert not any(chosen.strikes(SimulatedFault.POWER_CUT, "resting") for _ in range(50))


def test_what_was_carried_out_is_counted_by_place():
    chosen = dice("all")
    chosen.note(SimulatedFault.POWER_CUT, "training")
    assert chosen.thrown == {str(Danger("power-cut", "training")): 1}


def test_a_message_is_damaged_and_never_as_long_as_it_was_whole():
    chosen = dice("corrupt")
    for payload in (b"x", b"a longer message"):
        damaged = [chosen.flipped(payload) for _ in range(20)]
        assert all(len(one) == len(payload) for one in damaged)
        assert any(one != payload for one in damaged)
    assert chosen.flipped(b"") == b""


def test_a_fuse_blows_once_at_the_touch_it_was_lit_for():
    fuse = Fuse(2)
    fuse.touch()
    with pytest.raises(PowerCut):
        fuse.touch()
    fuse.touch()
