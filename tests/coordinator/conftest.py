import itertools

import pytest

from nightjar.coordinator.storage.database import Database
from tests.coordinator.fakes import World, on_disk, worlds
from tests.coordinator.model_folder import write_model
from tests.coordinator.storage.postgresql import fresh_database, server

NUMBERS = itertools.count()
LEADERS = itertools.count()


@pytest.fixture(scope="session")
def postgresql_server():
    with server() as url:
        yield url


@pytest.fixture
def postgresql(postgresql_server):
    """The URL of an empty database."""
    return fresh_database(postgresql_server, f"test_{next(NUMBERS)}")


@pytest.fixture(scope="session")
def migrated(postgresql_server):
    """The name of a database on the server that has the tables."""
    name = "migrated"
    Database(fresh_database(postgresql_server, name)).close()
    return name


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)])
def worlds_of(request, tmp_path):
    """Makes worlds around a small model; on a database that hosts share, each start is another host that leads."""
    if request.param == "memory":
        open_fresh = None
    elif request.param == "sqlite":
        open_fresh = on_disk(tmp_path)
    else:
        server_url, template = request.getfixturevalue("postgresql_server"), request.getfixturevalue("migrated")

        def open_fresh():
            url = fresh_database(server_url, f"test_{next(NUMBERS)}", template)

            def lead() -> Database:
                database = Database(url)
                database.lead(f"host-{next(LEADERS)}", "key", [])
                return database

            return lead

    with worlds(tmp_path, open_fresh) as make:
        yield make


@pytest.fixture
def make_world(tmp_path):
    """Makes worlds around a small model, given fields of their task."""
    manifest = write_model(tmp_path)
    return lambda **task: World(manifest, tmp_path, **task)
