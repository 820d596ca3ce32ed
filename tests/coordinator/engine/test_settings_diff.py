"""An operator who looks into the log or the audit sees which settings are others since the last start."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from nightjar.coordinator.config import CoordinatorConfig, TaskConfig
from nightjar.coordinator.engine.settings_diff import changes, note_settings, settings_of
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


def test_lists_are_stored_as_json_as_databases_that_there_are_hold_them():
    with_names = replace(CONFIG, enrolment=replace(CONFIG.enrolment, names=("a.example", "b.example")))
    stored = [settings_of(config)["enrolment.names"] for config in (CONFIG, with_names)]
    assert stored == ["[]", '["a.example","b.example"]']


def test_lists_that_would_read_alike_are_told_as_they_are_stored():
    split, joined, word = '["sign","a","b"]', '["sign","a, b"]', '["none"]'
    assert [each[1:] for each in changes({"x": joined, "y": "[]"}, {"x": split, "y": word})] == [
        (joined, split),
        ("[]", word),
    ]


@pytest.mark.parametrize("nothing", [{}, {"broker.password": ""}])
def test_a_secret_that_is_empty_is_not_set(nothing):
    name, one = "broker.password", {"broker.password": "d83b"}
    assert changes(nothing, {name: ""}) == changes({name: ""}, nothing) == []
    assert changes(nothing, one) == [(name, "not set", "one value")]
    assert changes(one, nothing) == [(name, "one value", "not set")]


def test_no_password_is_stored_or_told(database, capsys):
    note_settings(replace(CONFIG, database_url="postgresql://ada:sesame@host/a"), database, 1.0)
    note_settings(replace(CONFIG, database_url="postgresql://ada:abracadabra@host/a"), database, 2.0)
    assert audited(database) == [("database_url", "one value", "another value")]
    with database.transaction() as view:
        stored = str(view.settings())
    assert not any(word in stored + capsys.readouterr().out for word in ("sesame", "abracadabra"))


def test_a_password_that_comes_or_goes_is_said_to_and_lists_are_in_words(database, capsys):
    """Each kind of setting: one that is added, changed and removed, a secret, and a list."""
    asked = ("", "sesame", "abracadabra", "")
    for number, password in enumerate(asked):
        names = ("a.example", "b.example")[:number]
        broker = replace(CONFIG.broker, password=password)
        config = replace(CONFIG, broker=broker, enrolment=replace(CONFIG.enrolment, names=names))
        note_settings(config, database, float(number))
    told = audited(database)
    assert [each[1:] for each in told if each[0] == "broker.password"] == [
        ("one value", "not set"),
        ("one value", "another value"),
        ("not set", "one value"),
    ]
    assert [each[1:] for each in told if each[0] == "enrolment.names"] == [
        ("a.example", "a.example, b.example"),
        ("none", "a.example"),
    ]
    assert not any(word in capsys.readouterr().out for word in ("sesame", "abracadabra"))
