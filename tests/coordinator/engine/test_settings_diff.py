"""An operator who looks into the log or the audit sees which settings are others since the last start."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.engine.settings_diff import note_settings
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import IN_MEMORY


@pytest.fixture
def database():
    made = Database(IN_MEMORY)
    yield made
    made.close()


CONFIG = CoordinatorConfig(task=TaskConfig(model=Path("model"), goal=2, minimum=2))


def audited(database):
    with database.transaction() as view:
        return [(each.target, each.before, each.after) for each in view.audit(10)]


def test_a_first_start_and_the_same_settings_tell_nothing(database):
    assert note_settings(CONFIG, database, 1.0) == []
    assert note_settings(CONFIG, database, 2.0) == []
    assert audited(database) == []


def test_what_changed_is_logged_and_audited(database, capsys):
    note_settings(CONFIG, database, 1.0)
    plan = replace(CONFIG.task.plan, learning_rate=0.2)
    note_settings(replace(CONFIG, task=replace(CONFIG.task, goal=3, plan=plan)), database, 2.0)
    assert audited(database) == [("task.plan.learning_rate", "1.0", "0.2"), ("task.goal", "2", "3")]
    assert "setting_changed" in capsys.readouterr().out


def test_no_password_is_stored_or_told(database, capsys):
    note_settings(replace(CONFIG, database_url="postgresql://ada:sesame@host/a"), database, 1.0)
    note_settings(replace(CONFIG, database_url="postgresql://ada:abracadabra@host/a"), database, 2.0)
    assert audited(database) == [("database_url", "one value", "another value")]
    with database.transaction() as view:
        stored = str(view.settings())
    assert not any(word in stored + capsys.readouterr().out for word in ("sesame", "abracadabra"))
