import json

import pytest

from nightjar.firmware_scripts.twin.belonging import belonging
from nightjar.wire.errors import ConfigError


def test_a_claim_says_where_and_whom_to_trust_and_leaves_the_name_to_the_coordinator():
    claim = json.dumps({"claim": "x", "url": "https://127.0.0.1:8080", "authority": "PEM"})
    found = belonging('data_dir = "d"', claim, None)
    assert (found.url, found.device, found.authority) == ("https://127.0.0.1:8080", "", "PEM")


def test_what_is_asked_for_counts_more_than_what_the_card_says():
    assert belonging('coordinator_url = "http://a"', None, "http://b").url == "http://b"
    assert belonging('coordinator_url = "http://a"', None, None).url == "http://a"


@pytest.mark.parametrize(("settings", "claim"), [("device =", None), (None, "{"), (None, "[]"), ("broker = 1", None)])
def test_files_that_are_something_else_are_refused(settings, claim):
    if claim == "[]":
        claim = "[1]"
    with pytest.raises(ConfigError, match="cannot be read"):
        belonging(settings, claim, None)
