import datetime
import os

import structlog

from nightjar.edge_agent.assembly import caps
from nightjar.edge_agent.config import load
from nightjar.edge_agent.core.lifecycle import STARTING
from nightjar.edge_agent.core.privacy_ledger import LedgerEntry
from nightjar.edge_agent.core.stored import Change
from nightjar.edge_agent.link.connection import FACT, Connection
from nightjar.edge_agent.shell.clock import SystemClock
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.folder import DATABASE, own_folder
from nightjar.wire.messages import PrivacyTerms


def test_before_the_first_start(place):
    found = place.json("status", status=4)
    assert (found["state"], found["running"], found["messages"]) == ("never-started", False, 0)
    assert not place.data.exists(), "looking makes nothing"


def test_while_the_agent_does_not_run_its_folder_speaks(place):
    place.move_in("hello there", "you too")
    found = place.json("status", status=4)
    assert (found["running"], found["pid"], found["messages"], found["message_bytes"]) == (False, None, 2, 18)
    assert "hello" not in place.run("status", status=4)


def test_while_it_runs(place):
    place.move_in("hello there")
    with own_folder(load(place.config, {}).data_dir):
        found = place.json("status")
    assert (found["running"], found["pid"]) == (True, os.getpid())
    assert (found["state"], found["learning_paused"]) == ("ineligible", False)


def test_a_person_reads_words(place):
    said = place.run("status", status=4)
    assert "running            no" in said
    assert "last trained       -" in said
    assert "connected          no, because the agent does not run" in said


def test_what_a_device_has_spent_of_its_privacy_is_shown(place):
    place.move_in("hello there")
    settings = load(place.config, {})
    with own_folder(settings.data_dir):
        database = Database(settings.data_dir / DATABASE, caps(settings), SystemClock())
        terms = PrivacyTerms(epsilon=8.9, delta=1e-6, rounds=500, separation=100, step=3)
        database.commit(Change(STARTING, charged=LedgerEntry("keyboard", terms, 2)))
        database.close()
        assert place.json("status")["privacy_spent"] == 8.9
        said = place.run("status")
    assert "keyboard: epsilon 8.9, delta 1e-06 after 500 rounds; 2 reports" in said


def test_a_refused_device_says_since_when_and_why(place):
    place.move_in("hello there")
    settings = load(place.config, {})
    with own_folder(settings.data_dir):
        database = Database(settings.data_dir / DATABASE, caps(settings), SystemClock())
        log = structlog.get_logger()
        connection = Connection(lambda: 1.7e9, lambda state: database.remember(FACT, state), log)
        connection.begin()
        connection.told("an operator blocked this device: lost")
        database.close()
        found = place.json("status")
        assert (found["connected"], found["connected_since_s"]) == (False, 1.7e9)
        assert found["not_connected_because"] == "an operator blocked this device: lost"
        day = datetime.datetime.fromtimestamp(1.7e9).astimezone().isoformat(" ", "seconds")
        said = place.run("status")
    assert f"connected          no, since {day}, because an operator blocked this device: lost" in said
