"""Small simulations: a fleet that fits into a second, on phones that are free most of the time."""

from pathlib import Path

import pytest

from nightjar.simulation.rounds.faults import dangers
from nightjar.simulation.rounds.logs import errors_counted
from nightjar.simulation.rounds.world import Settings, SimulationResult, World, simulate


@pytest.fixture(scope="session")
def quiet() -> SimulationResult:
    """A hundred phones and three rounds, and nothing goes wrong."""
    return simulate(Settings(devices=100, rounds=3, seed=1))


@pytest.fixture
def make_world(tmp_path: Path):
    """A world that a test can look into; at the end nothing may have been logged that no fault explains."""

    def make(
        devices: int = 100, rounds: int = 3, seed: int = 1, faults: str = "none", severity: float = 1.0, **more
    ) -> World:
        return World(Settings(devices, rounds, seed, dangers(faults), severity, **more), tmp_path)

    with errors_counted() as errors:
        yield make
    assert errors.unexpected == {}
