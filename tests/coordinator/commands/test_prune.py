"""``prune`` shows what is not needed, and deletes it only when told."""

import contextlib

from msgspec.structs import replace

from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.versions.rollout import Rollout, Stage


def superseded(site, many):
    """Versions after the site's own that were current once, each with files of its own."""
    with (
        contextlib.closing(Database(f"sqlite:///{database_file(site.data)}")) as database,
        database.transaction() as tx,
    ):
        first = tx.version(0)
        for number in range(2, many + 2):
            manifest = site.artifacts.put(replace(site.manifest, version=number).encode())
            tx.add_version(
                replace(
                    first,
                    version=number,
                    manifest=manifest,
                    created_s=WallClock().now_s() - 3600,
                    rollout=Rollout(stage=Stage.CURRENT if number == many + 1 else Stage.SUPERSEDED),
                )
            )


def test_it_shows_first_and_deletes_on_request(ask, run, site):
    superseded(site, 40)
    found = ask("prune")
    assert found["versions"] > 0
    assert not found["deleted"]
    assert ask("prune") == found, "nothing was deleted"
    done = ask("prune", "--yes")
    assert done["deleted"]
    assert done["versions"] == found["versions"]
    assert ask("prune")["versions"] == 0
    status, out, _err = run("prune", "--config", site.config)
    assert (status, out.splitlines()[0]) == (0, "there is nothing to delete")
    entry = ask("audit")[0]
    assert entry["action"] == "prune"
    assert f"{done['versions']} versions' files" in entry["after"]


def test_a_version_without_files_is_said_to_be_one(ask, run, site):
    superseded(site, 40)
    ask("prune", "--yes")
    gone = next(each["version"] for each in ask("model", "list", "--limit", "50") if each["pruned"])
    status, _out, err = run("model", "export", gone, "--out", site.data / "out", "--config", site.config)
    assert status == 2
    assert f"the files of version {gone} were deleted" in err
