import csv
import io
import re

import msgspec
import pytest
from msgspec.structs import replace

from nightjar.coordinator.engine.clock import WallClock
from nightjar.coordinator.enrolment.claims import Claim
from nightjar.coordinator.enrolment.register import Register
from nightjar.coordinator.rounds.labelling import Labelling, LabelRule
from nightjar.coordinator.rounds.seats import SeatState
from nightjar.coordinator.storage.database import Database
from nightjar.coordinator.storage.engine import database_file
from nightjar.coordinator.tasks.operations import DropLabelRule, SetLabelRule
from nightjar.host.trusted_time import ClockReading
from nightjar.models.manifest import Manifest
from nightjar.wire.errors import ConfigError
from nightjar.wire.messages import DropoutCause
from tests.coordinator.commands.site import web_half


def test_rounds_are_listed_with_what_they_made(ask):
    first, second = ask("round", "list")
    assert (first["number"], first["phase"], first["version"], first["top1"]) == (1, "committed", 1, 0.25)
    assert (second["number"], second["phase"], second["accepted"], second["selected"]) == (2, "reporting", 1, 2)


def test_an_old_round_is_listed_with_its_recall_though_newer_versions_were_made_elsewhere(ask, site):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        for number in range(2, 6):
            tx.add_version(replace(tx.version(1), version=number, task="other", round=None, metrics=None))
    database.close()
    first, _ = ask("round", "list", "--limit", 2)
    assert (first["version"], first["top1"]) == (1, 0.25)


def test_a_round_shows_what_became_of_each_device(ask):
    shown = ask("round", "show", 2)
    assert {seat["device"]: seat["state"] for seat in shown["seats"]} == {"a": "reported", "b": "working"}
    assert shown["mean_training_loss"] == 4.5


def test_why_a_device_dropped_out_and_what_it_does_are_words(run, ask, site):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_lease(replace(tx.lease("a"), state="checked-in", last_seen_s=WallClock().now_s()))
        over = tx.round(2)
        seat = replace(over.seats["b"], state=SeatState.DROPPED, cause=DropoutCause.FETCH_FAILED)
        tx.save_round(replace(over, seats={**over.seats, "b": seat}))
    database.close()
    assert ask("round", "show", 2)["seats"][1]["cause"] == "fetch-failed"
    for command, words in ((("round", "show", 2), "could not fetch the model"), (("device", "list"), "waiting for a")):
        status, out, _ = run(*command, "--config", site.config)
        assert (status, words in out) == (0, True), out


def test_versions_are_listed_with_their_recall(ask):
    assert [(row["version"], row["top1"]) for row in ask("model", "list")] == [(0, 0.1), (1, 0.25)]
    assert [row["version"] for row in ask("model", "list", "--limit", 1)] == [1]


def test_an_exported_version_can_be_the_first_of_another_coordinator(ask, site, tmp_path):
    from nightjar.coordinator.storage.model_folder import check_model

    answer = ask("model", "export", 1, "--out", tmp_path / "out")
    manifest = check_model(tmp_path / "out")
    assert (manifest.version, manifest.sha256) == (0, answer["manifest"])
    assert manifest.weights == Manifest.decode((tmp_path / "model" / "manifest.json").read_bytes()).weights


def test_devices_are_listed_and_shown(ask):
    assert [(row["device"], row["state"]) for row in ask("device", "list")] == [("a", "training"), ("b", "ineligible")]
    assert ask("device", "show", "a")["examples"] == 7


def test_a_device_shows_its_standing_and_what_to_do(ask, site):
    assert ask("device", "show", "a")["standing"] == "not enrolled"
    database = Database(f"sqlite:///{database_file(site.data)}")
    register = Register(database)
    register.add_claim(Claim(name="shelf", sha256="0", device="new", approval=True, created_s=1, expires_s=9), "test")
    register.redeem("0", "f" * 64, "", "", 2.0)
    shown = ask("device", "show", "new")
    assert (shown["standing"], "enrolment approve new" in shown["remedy"]) == ("pending", True)
    register.revoke("new", "test", 3.0)
    shown = ask("device", "show", "new")
    assert (shown["standing"], "enrol-token create" in shown["remedy"]) == ("revoked", True)
    with database.transaction() as tx:
        tx.save_lease(replace(tx.lease("a"), blocked="lost"))
    shown = ask("device", "show", "a")
    assert (shown["standing"], "device unblock a" in shown["remedy"]) == ("blocked", True)
    database.close()


def test_a_device_is_shown_without_bit_masks_and_epochs(run, site, ask):
    assert isinstance(ask("device", "show", "a")["rounds_counted"], list)
    status, out, _ = run("device", "show", "a", "--config", site.config)
    assert status == 0
    rows = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in out.splitlines() if "  " in line.strip())
    assert rows["rounds that counted a report"] == rows["last round that counted a report"] == "none"
    assert rows["last heard of"] == "1970-01-01 00:03:23+00:00"
    assert (rows["connection"], rows["state"]) == ("connected", "training")
    assert (rows["emulated"], rows["unusable reports"], rows["blocked because"]) == ("no", "0", "-")
    assert "_" not in out


def test_devices_are_listed_by_label_and_exported_with_all_that_is_known(run, ask, site):
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_lease(replace(tx.lease("b"), labels="kitchen porch"))
    database.close()
    assert [row["device"] for row in ask("device", "list", "--label", "porch")] == ["b"]
    for other in ("por", "%"):
        assert ask("device", "list", "--label", other) == []
    status, out, _ = run("fleet", "export", "--config", site.config)
    rows = {row["device"]: row for row in csv.DictReader(io.StringIO(out))}
    assert (status, rows.keys()) == (0, {"a", "b"})
    assert (rows["b"]["labels"], rows["a"]["state"], rows["a"]["examples"]) == ("kitchen porch", "training", "7")


@pytest.mark.parametrize("sign", list("=+-@\uff1d"))
def test_what_a_device_says_is_no_formula_of_a_spreadsheet(run, site, sign):
    """Proven before: ``=HYPERLINK(...)`` as the reason of a device was run by whoever opened the export."""
    with site.transaction() as tx:
        tx.save_lease(replace(tx.lease("b"), reason=f"{sign}1+1", notice=f"it was {sign}"))
    _, out, _ = run("fleet", "export", "--config", site.config)
    row = {row["device"]: row for row in csv.DictReader(io.StringIO(out))}["b"]
    assert (row["reason"], row["notice"]) == (f"'{sign}1+1", f"it was {sign}")


def test_no_device_is_lost_by_a_clock_that_is_not_trusted(run, ask, site, monkeypatch):
    """Proven before: with a clock a year ahead each device was said to be lost, here only and not on the pages."""
    now_s = WallClock().now_s()
    with site.transaction() as tx:
        tx.save_trusted_time(now_s)
        tx.save_lease(replace(tx.lease("a"), last_seen_s=now_s - 60))

    def said(wrong_by_days):
        reading = ClockReading(now_s + wrong_by_days * 86_400, 1.0, synchronised=False)
        monkeypatch.setattr("nightjar.coordinator.commands.stored.read_clock", lambda: reading)
        listed = {row["device"]: row["apart"] for row in ask("device", "list")}
        _, out, _ = run("fleet", "export", "--config", site.config)
        exported = {row["device"]: row["standing"] for row in csv.DictReader(io.StringIO(out))}
        assert listed == exported
        return exported

    assert said(400) == {"a": "", "b": ""}
    assert said(0) == {"a": "", "b": "lost"}


def test_the_service_is_asked_for_rules_and_lists_them(run, ask, site):
    asked = []

    def post(event, _database):
        asked.append(event.operation)
        event.answer(True)

    with web_half(site, post):
        words = ("--memory-to", 1024, "--device", "pi-*", "--real", "--with", "kitchen", "--config", site.config)
        assert run("fleet", "rule", "small", *words)[0] == 0
        assert run("fleet", "drop-rule", "old", "--config", site.config)[0] == 0
    rule = LabelRule(label="small", maximum_memory_mb=1024, device="pi-*", emulated=False, labels=("kitchen",))
    assert asked == [SetLabelRule(rule), DropLabelRule("old")]
    database = Database(f"sqlite:///{database_file(site.data)}")
    with database.transaction() as tx:
        tx.save_labelling(Labelling(rules=(rule,)))
    database.close()
    assert msgspec.convert(ask("fleet", "rules"), list[LabelRule]) == [rule]


def test_an_export_replaces_nothing(run, site, tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    for out in (precious, tmp_path):
        status, _, err = run("model", "export", 1, "--out", out, "--config", site.config)
        assert (status, "nothing is written over it" in err) == (ConfigError.exit_status, True)
    assert precious.read_text() == "mine"


@pytest.mark.parametrize("command", [("device", "list"), ("device", "show", "b"), ("fleet", "export")])
def test_what_a_device_says_cannot_steer_the_terminal(run, site, command):
    status, out, _ = run(*command, "--config", site.config)
    assert status == 0
    assert "red" in out
    assert "\x1b" not in out
    assert "\x07" not in out


@pytest.mark.parametrize(
    "arguments",
    [("round", "show", 99), ("model", "export", 9, "--out", "nowhere"), ("device", "show", "c")],
)
def test_what_is_not_there_is_said_with_what_to_look_at(run, site, arguments):
    status, _, err = run(*arguments, "--config", site.config)
    assert status == ConfigError.exit_status
    assert "list' shows" in err


def test_without_a_database_the_commands_say_what_to_do(run, site, tmp_path):
    site.config.write_text('data_dir = "empty"\n[task]\nmodel = "model"\n')
    status, _, err = run("round", "list", "--config", site.config)
    assert status == ConfigError.exit_status
    assert "'serve'" in err
    assert not (tmp_path / "empty").exists()


def test_looking_on_never_changes_tables_of_another_version(run, site):
    import sqlite3

    from nightjar.coordinator.storage.engine import database_file

    with sqlite3.connect(database_file(site.data)) as connection:
        connection.execute("DELETE FROM alembic_version")
    connection.close()
    status, _, err = run("round", "list", "--config", site.config)
    assert status == ConfigError.exit_status
    assert "brings them up to date" in err
    database_file(site.data).write_bytes(b"")
    status, _, err = run("round", "list", "--config", site.config)
    assert (status, "no tables yet" in err, "None" in err) == (ConfigError.exit_status, True, False)
