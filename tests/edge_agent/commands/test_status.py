import os

from edge_agent.config import load
from edge_agent.shell.folder import own_folder


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
    assert "last trained at s  -" in said
