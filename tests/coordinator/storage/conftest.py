"""Every kind of repository, empty or with a version and a round."""

import contextlib

import pytest

from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import IN_MEMORY
from nightjar.simulation.rounds.storage import MemoryRepository as SimulatedRepository
from tests.coordinator.storage.records import start

KINDS = ["sqlite", "memory", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(params=KINDS)
def database(request, tmp_path):
    with contextlib.closing(opened(request, tmp_path)) as database:
        yield database


@pytest.fixture(params=[*KINDS, "simulation"])
def repository(request, tmp_path):
    """What the driver needs of a database; what people ask is the real one's alone."""
    if request.param == "simulation":
        yield SimulatedRepository()
        return
    with contextlib.closing(opened(request, tmp_path)) as database:
        yield database


def opened(request, tmp_path):
    match request.param:
        case "sqlite":
            return Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
        case "memory":
            return Database(IN_MEMORY)
        case _:
            return Database(request.getfixturevalue("postgresql"))


@pytest.fixture
def started(repository):
    """With version 0 and round 1."""
    return start(repository)


@pytest.fixture
def started_database(database):
    return start(database)
