import itertools

import pytest

from tests.coordinator.storage.postgresql import fresh_database, server

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgresql_server():
    with server() as url:
        yield url


@pytest.fixture
def postgresql(postgresql_server):
    """The URL of an empty database."""
    return fresh_database(postgresql_server, f"test_{next(NUMBERS)}")
