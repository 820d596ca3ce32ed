"""What the service finds in its database at a start: nothing, or what another start left."""

import pytest

from nightjar.coordinator.config import CoordinatorConfig
from nightjar.coordinator.engine.starting import import_once
from nightjar.coordinator.records.effects import EvaluateVersion
from nightjar.coordinator.storage.blobs import FileBlobs
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.tasks.record import TaskRecord
from nightjar.coordinator.tasks.settings import TaskSettings
from nightjar.coordinator.tasks.task import Task
from nightjar.coordinator.versions.rollout import Stage
from nightjar.firmware_scripts.program_signing import sign_model
from nightjar.models.signed_programs import SIGNATURE_FILE
from nightjar.wire.errors import ConfigError
from tests.coordinator.fakes import task_config
from tests.coordinator.model_folder import write_model


@pytest.fixture
def start(tmp_path):
    """Start as the service does; what it leaves in the database."""
    write_model(tmp_path / "model")
    database = Database(f"sqlite:///{tmp_path / 'test.sqlite'}")
    artifacts = FileBlobs(tmp_path / "artifacts")

    def once(**task):
        config = CoordinatorConfig(task=task_config(tmp_path / "model", **task))
        import_once(config, database, artifacts, 5.0)
        with database.transaction() as tx:
            left = tx.begin_effects()
            tx.remove_effects([number for number, *_ in left])
            return tx.versions(10), [effect for _, effect, _ in left]

    once.database = database
    yield once
    database.close()


def test_the_first_start_imports_the_model(start):
    [first], left = start()
    assert (first.version, first.rollout.stage, first.rollout.reason) == (0, Stage.CURRENT, "imported")
    assert left == []


def test_another_start_changes_nothing(start):
    before, _ = start()
    assert start() == (before, [])


def test_what_devices_have_is_measured_once_on_each_text(start, tmp_path):
    text = tmp_path / "text.tsv"
    text.write_text("user\ttext\nann\tthe cat sat\n")
    assert start(evaluation_text=text)[1] == [EvaluateVersion(0)]
    assert start(evaluation_text=text)[1] == []
    text.write_text("user\ttext\nann\ta dog ran\n")
    assert start(evaluation_text=text)[1] == [EvaluateVersion(0)]
    assert start()[1] == []


def test_a_task_is_not_held_to_its_best_share_on_another_text(start, tmp_path):
    text = tmp_path / "text.tsv"
    text.write_text("user\ttext\nann\tthe cat sat\n")
    start(evaluation_text=text)
    task = Task(name="keyboard", number=1, created_s=5.0, best_top1=0.4, since_best=3)
    with start.database.transaction() as tx:
        tx.save_task(TaskRecord(state=task, settings=TaskSettings(name="keyboard")))

    def best():
        with start.database.transaction() as tx:
            return tx.task("keyboard").state.best_top1

    start(evaluation_text=text)
    assert best() == 0.4
    text.write_text("user\ttext\nann\ta dog ran\n")
    start(evaluation_text=text)
    assert best() is None


def test_a_signature_that_is_laid_beside_the_model_later_is_kept_at_the_next_start(start, tmp_path):
    def kept():
        with start.database.transaction() as tx:
            return list(tx.signed_programs().values())

    start()
    assert kept() == []
    made = sign_model(tmp_path / "owner", tmp_path / "model")
    start()
    start()
    assert kept() == [made]


@pytest.mark.parametrize("damage", ["other", "text"])
def test_a_signature_of_another_model_ends_the_start(start, tmp_path, damage):
    sign_model(tmp_path / "owner", tmp_path / "model")
    if damage == "other":
        write_model(tmp_path / "model", hidden=7)
    else:
        (tmp_path / "model" / SIGNATURE_FILE).write_text("{}")
    with pytest.raises(ConfigError, match="sign it again: nightjar-firmware keys sign"):
        start()
