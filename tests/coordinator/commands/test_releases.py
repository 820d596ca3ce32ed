"""``release``: publishing bundles, and what is shown of them; the pages and the API show the same."""

import shutil
import tempfile

import pytest

from nightjar.coordinator.storage import release_metadata
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.tasks.operations import ChangeRelease, ReleaseAction
from tests.coordinator.commands.site import web_half
from tests.releases.world import Owner

NAME = "nightjar-0.2.0-trixie-aarch64.tar"


@pytest.fixture
def owner(tmp_path):
    return Owner(tmp_path / "owner")


def add(ask, owner, *bundles):
    return ask("release", "add", *bundles, "--metadata", owner.metadata, "--online-key", owner.online_key)


def test_an_added_release_is_listed_and_audited_and_nobody_takes_it_yet(ask, site, owner):
    (added,) = add(ask, owner, owner.release("0.2.0"))
    assert list(added["bundles"]) == [NAME]
    (listed,) = ask("release", "list")
    assert (listed["version"], listed["rollout"]["stage"], listed["health"]) == ("0.2.0", "candidate", None)
    assert ask("release", "show", "0.2.0") == listed
    assert [(entry["action"], entry["target"]) for entry in ask("audit")][:1] == [("add-release", "0.2.0")]
    assert (site.data / "releases/online.key").stat().st_mode & 0o077 == 0


def test_a_bundle_that_devices_would_refuse_is_not_published(run, site, owner):
    bundle = owner.release("0.2.0")
    bundle.write_bytes(bundle.read_bytes() + b"\0")
    words = ("release", "add", bundle, "--metadata", owner.metadata, "--online-key", owner.online_key)
    status, _, err = run(*words, "--config", site.config)
    assert (status, "devices would refuse this" in err) == (2, True)
    unlisted = shutil.copy(bundle, bundle.with_name("nightjar-0.3.0-trixie-aarch64.tar"))
    status, _, err = run(*words[:2], unlisted, *words[3:], "--config", site.config)
    assert (status, "targets does not list" in err) == (2, True)
    assert not (site.data / "releases").exists()


def test_a_release_that_is_being_added_has_no_second_copy_of_the_online_key(run, site, owner, tmp_path, monkeypatch):
    """Proven before: a kill left a folder with a copy of the key in the data folder for ever."""
    (place := tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    private, as_a_device = {}, release_metadata._as_a_device

    def looks(*given):
        files = [path for folder in (site.data, place) for path in folder.rglob("*") if path.is_file()]
        private.update({path.name: b"PRIVATE KEY" in path.read_bytes() for path in files})
        return as_a_device(*given)

    monkeypatch.setattr(release_metadata, "_as_a_device", looks)
    words = ("release", "add", owner.release("0.2.0"), "--metadata", owner.metadata, "--online-key", owner.online_key)
    assert run(*words, "--config", site.config)[0] == 0
    assert "timestamp.json" in private
    assert [name for name, it_is in private.items() if it_is] == []


def test_a_missing_key_and_a_folder_without_metadata_are_named(ask, run, site, owner):
    status, _, err = run("release", "add", "--metadata", owner.metadata, "--config", site.config)
    assert (status, "--online-key names it" in err) == (2, True)
    add(ask, owner, owner.release("0.2.0"))
    status, _, err = run("release", "add", "--metadata", owner.folder, "--config", site.config)
    assert (status, f"{owner.folder}: expected metadata such as 1.root.json" in err) == (2, True)


def test_rotated_metadata_is_published_without_a_bundle(ask, site, owner):
    from nightjar.firmware_scripts import release_keys
    from tests.releases.world import now

    add(ask, owner)
    release_keys.rotate(owner.folder / "tuf", "online", now())
    add(ask, owner)
    with Database(f"sqlite:///{database_file(site.data)}").transaction() as view:
        assert "2.root.json" in view.release_files()
    assert (site.data / "releases/online.key").read_bytes() == owner.online_key.read_bytes()


def test_restoring_without_the_online_key_says_that_it_lacks(ask, site, owner, tmp_path):
    add(ask, owner, owner.release("0.2.0"))
    assert "releases" in ask("backup", tmp_path / "daily")["keys_left_out"]
    site.data.rename(tmp_path / "lost")
    assert "releases" in ask("restore", tmp_path / "daily")["keys_lacking"]
    assert ask("release", "list")[0]["version"] == "0.2.0"


def test_the_service_is_asked_to_change_who_gets_it(run, site, owner, ask):
    asked = []

    def post(event, _database):
        asked.append(event.operation)
        event.answer(True)

    add(ask, owner, owner.release("0.2.0"))
    with web_half(site, post):
        status, out, err = run("release", "start", "0.2.0", "--share", 2.5, "--config", site.config)
        assert (status, "2.5 % of the devices try 0.2.0" in out) == (0, True), err
        words = ("release", "start", "0.2.0", "--labels", "kitchen,porch", "--config", site.config)
        assert run(*words)[0] == run(*words[:4], "", *words[5:])[0] == 0
        for action in ("pause", "promote", "rollback"):
            assert run("release", action, "0.2.0", "--reason", "so", "--config", site.config)[0] == 0
    assert asked[0] == ChangeRelease("0.2.0", ReleaseAction.START, "no reason given", 0.025)
    assert [each.labels for each in asked[:3]] == [None, ("kitchen", "porch"), ()]
    assert [(each.action, each.reason) for each in asked[3:]] == [
        (action, "so") for action in (ReleaseAction.PAUSE, ReleaseAction.PROMOTE, ReleaseAction.ROLLBACK)
    ]


def test_the_page_shows_releases_and_what_can_be_done(site, owner, ask):
    from nightjar.coordinator.config_file import load_config
    from nightjar.coordinator.engine.clock import WallClock
    from nightjar.coordinator.storage.blobs import FileBlobs
    from nightjar.coordinator.storage.tokens import TokenTable
    from nightjar.coordinator.web.app import create_app
    from nightjar.coordinator.web.ports import WebPorts

    add(ask, owner, owner.release("0.2.0"))
    database = Database(f"sqlite:///{database_file(site.data)}")
    ports = WebPorts(
        load_config(site.config, {}), database, FileBlobs(site.data / "artifacts"), WallClock(), "none", list,
        TokenTable(database), lambda _event: None,
    )  # fmt: skip
    client = create_app(ports).test_client()
    assert ">0.2.0<" in client.get("/releases").text
    assert client.get("/api/v1/releases").json["items"][0]["bundles"].keys() == {NAME}
    assert client.get("/api/v1/releases/9.9.9").status_code == 404
    assert client.get("/tuf/timestamp.json").json["signed"]["_type"] == "timestamp"
    assert client.get("/tuf/1.root.json").json["signed"]["_type"] == "root"
    assert client.get("/tuf/online.key").status_code == client.get("/tuf/..").status_code == 404
    database.close()
