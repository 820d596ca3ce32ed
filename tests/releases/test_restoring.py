"""Devices go on taking releases from a coordinator that was restored from a backup."""

import contextlib
import shutil
from datetime import timedelta

import pytest

from nightjar.coordinator.storage.backup import ARTIFACTS, back_up, keys_in, restore
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.storage.release_metadata import FOLDER, ONLINE_KEY
from nightjar.wire.errors import UnavailableError
from tests.coordinator.commands.site import Site
from tests.releases.world import TO_ALL, Coordinator, Device


@pytest.fixture
def data(tmp_path):
    return Site(tmp_path).data


@contextlib.contextmanager
def database(folder):
    opened = Database(f"sqlite:///{database_file(folder)}", migrate=False)
    try:
        with opened.transaction() as transaction:
            yield transaction
    finally:
        opened.close()


def test_a_device_that_looked_before_takes_a_release_of_the_restored_coordinator(tmp_path, data, owner):
    with Coordinator(data).served() as lost:
        lost.age = timedelta(hours=1)
        lost.add(owner, owner.release("0.2.0"))
        device = Device(tmp_path / "device", owner, lost.url)
        with database(data) as tx:
            tx.save_release_files(lost.files)
        back_up(data, tmp_path / "saved", with_keys=True)
        assert device.look().refused == ""
    restore(tmp_path / "saved", tmp_path / "new", now_s=1e9)
    with Coordinator(tmp_path / "new").served() as restored:
        device.url, restored.order = restored.url, TO_ALL
        with database(tmp_path / "new") as view:
            restored.files = view.release_files()
        assert device.look().text == "release 0.2.0 was fetched and handed over"


def test_a_backup_without_keys_has_only_what_the_owner_signed(tmp_path, data, owner):
    Coordinator(data).add(owner, owner.release("0.2.0"))
    back_up(data, tmp_path / "saved")
    assert "releases" not in keys_in(tmp_path / "saved")
    assert not (tmp_path / "saved" / FOLDER).exists()
    assert any((tmp_path / "saved" / ARTIFACTS).rglob("*"))


def test_a_backup_that_lacks_what_the_owner_signed_is_not_made(tmp_path, data, owner):
    with database(data) as tx:
        tx.save_release_files({"1.root.json": "00" * 32})
    with pytest.raises(UnavailableError, match="0000"):
        back_up(data, tmp_path / "saved")


def test_an_online_key_that_is_there_is_not_replaced_by_an_older_one(tmp_path, data, owner):
    Coordinator(data).add(owner)
    back_up(data, tmp_path / "saved", with_keys=True)
    (tmp_path / "new" / FOLDER).mkdir(parents=True)
    shutil.copy(owner.folder / "fleet.key", tmp_path / "new" / FOLDER / ONLINE_KEY)
    restore(tmp_path / "saved", tmp_path / "new", now_s=1e9)
    assert (tmp_path / "new" / FOLDER / ONLINE_KEY).read_bytes() == (owner.folder / "fleet.key").read_bytes()
