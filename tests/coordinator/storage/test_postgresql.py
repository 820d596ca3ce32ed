import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.rounds.round import Phase
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_url
from nightjar.coordinator.storage.tables import METADATA
from nightjar.wire.errors import ConfigError, UnavailableError
from tests.coordinator.engine.reporting import report
from tests.coordinator.fakes import World, task_config
from tests.coordinator.model_folder import write_model


@pytest.mark.postgresql
def test_migrations_make_exactly_the_tables_that_the_code_uses(postgresql):
    Database(postgresql).close()
    engine = sa.create_engine(postgresql)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    engine.dispose()


@pytest.mark.postgresql
def test_a_round_goes_from_check_in_to_the_next_version_over_a_restart(postgresql, tmp_path):
    opened: list[Database] = []

    def open_database() -> Database:
        opened.append(Database(postgresql))
        return opened[-1]

    world = World(write_model(tmp_path), tmp_path, open_database)
    world.check_in("a", "b")
    world.receive("a", "report", report(world, "a"))
    world.start()
    world.receive("b", "report", report(world, "b"))
    world.work()
    with world.repository.transaction() as tx:
        assert tx.rounds_in(Phase.COMMITTED) == 1
        assert tx.current_version().version == 1
    for database in opened:
        database.close()


def test_only_postgresql_is_taken_and_the_password_is_never_said(tmp_path):
    config = {"task": task_config(tmp_path)}
    with pytest.raises(ConfigError, match="got one of mysql"):
        database_url(CoordinatorConfig(database_url="mysql://u:secret@h/d", **config))
    with pytest.raises(ConfigError, match="expected a URL") as caught:
        database_url(CoordinatorConfig(database_url="secret", **config))
    assert "secret" not in str(caught.value)
    url = database_url(CoordinatorConfig(database_url="postgresql://u:secret@127.0.0.1:1/d", **config))
    with pytest.raises(UnavailableError) as unreachable:
        Database(url)
    assert "secret" not in str(unreachable.value)
