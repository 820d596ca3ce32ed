import json
import os

import pytest

from nightjar.edge_agent.shell.releases import VARIABLE, rollback_reason


@pytest.fixture
def record(tmp_path):
    path = tmp_path / "releases.json"
    return path, {VARIABLE: str(path)}


def test_the_newest_release_that_was_taken_back_is_said_with_its_reason(record):
    path, environment = record
    refused = {"0.9.0": "hangs", "0.10.0": "not connected within 180 s", "0.2.0": "crashes"}
    path.write_text(json.dumps({"format": 1, "state": "settled", "version": "0.1.0", "refused": refused}))
    assert rollback_reason(environment) == "0.10.0: not connected within 180 s"


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"refused": 3}', b'{"refused": {}}', b"{}"])
def test_without_a_record_that_says_one_there_is_nothing_to_say(record, data):
    path, environment = record
    assert rollback_reason(environment) == ""
    path.write_bytes(data)
    assert rollback_reason(environment) == ""
    assert rollback_reason({}) == ""


def test_a_pipe_in_the_place_of_the_record_keeps_nobody_waiting(record):
    path, environment = record
    os.mkfifo(path)
    assert rollback_reason(environment) == ""


def test_a_long_or_odd_reason_still_fits_into_a_message(record):
    path, environment = record
    path.write_text(json.dumps({"refused": {"not a version": "x\0" * 1000}}))
    assert len(rollback_reason(environment)) <= 400
    assert "\0" not in rollback_reason(environment)
