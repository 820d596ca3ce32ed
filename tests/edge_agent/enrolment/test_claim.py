import json
import os

import pytest

from nightjar.edge_agent.enrolment.claim import read_claim, remove_claim_file, wipe_claim
from nightjar.wire.errors import ConfigError

CLAIM = "njc_" + 43 * "a"
FILE = {"claim": CLAIM, "url": "https://pi.local:8080", "authority": "PEM"}


def written(path, **changes):
    path.write_text(json.dumps({**FILE, **changes}))
    return path


def test_a_claim_file_is_read(tmp_path):
    assert read_claim(written(tmp_path / "claim.json")).url == "https://pi.local:8080"


@pytest.mark.parametrize(
    "changes",
    [
        {"claim": "short"},
        {"url": "http://pi.local:8080"},
        {"url": "https://pi.local:8080/path"},
        {"authority": 5},
        {"authority": "x" * 9000},
    ],
)
def test_what_is_no_claim_is_said_without_saying_the_claim(tmp_path, changes):
    with pytest.raises(ConfigError, match=r"enrol-token create") as raised:
        read_claim(written(tmp_path / "claim.json", **changes))
    assert CLAIM not in str(raised.value)


def test_a_missing_file_may_have_been_wiped(tmp_path):
    with pytest.raises(ConfigError, match="wiped"):
        read_claim(tmp_path / "claim.json")


def test_a_pipe_in_the_place_of_a_claim_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "claim.json")
    with pytest.raises(ConfigError, match="it is no regular file"):
        read_claim(tmp_path / "claim.json")
    with pytest.raises(ConfigError, match="it is no regular file"):
        wipe_claim(tmp_path / "claim.json", CLAIM)


def test_a_claim_is_blanked_in_place_wherever_it_stands_and_the_rest_stays(tmp_path):
    path = tmp_path / "user-data"
    path.write_text(f"a: {CLAIM}\nb: {CLAIM}{CLAIM}\nc: kept\n")
    before = path.stat()
    assert wipe_claim(path, CLAIM)
    after = path.stat()
    assert (after.st_ino, after.st_size) == (before.st_ino, before.st_size)  # the same clusters on a card's FAT
    assert CLAIM not in path.read_text()
    assert path.read_text().endswith("c: kept\n")
    assert not wipe_claim(path, CLAIM)
    assert not wipe_claim(tmp_path / "none", CLAIM)


def test_only_a_file_that_holds_the_claim_is_removed(tmp_path):
    path = written(tmp_path / "claim.json")
    remove_claim_file(path, CLAIM.replace("a", "b"))
    assert path.exists()
    remove_claim_file(path, CLAIM)
    assert not path.exists()
    remove_claim_file(path, CLAIM)
