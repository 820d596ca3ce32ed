"""The key of the page: its owner's alone, the same after a restart, and never where a browser would send it."""

import stat
from urllib.parse import urlsplit

import pytest

from nightjar.edge_agent.keyboard.key import FILE, address, headers, kept_key, served_key, shows
from nightjar.wire.errors import ConfigError

URL = "http://127.0.0.1:8700/"


def test_the_key_is_its_owners_alone_and_stays(tmp_path):
    assert address(URL, tmp_path) is served_key(tmp_path) is None  # never served
    assert not list(tmp_path.iterdir()), "who only asks has made it, beside the agent"
    key = kept_key(tmp_path)
    assert served_key(tmp_path) == key
    assert len(key) >= 43  # 256 bits
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert kept_key(tmp_path) == key
    (tmp_path / FILE).unlink()
    assert kept_key(tmp_path) != key


def test_the_address_has_the_key_where_no_browser_sends_it(tmp_path):
    key = kept_key(tmp_path)
    found = urlsplit(address(URL, tmp_path))
    assert found.fragment == f"key={key}"
    assert found._replace(fragment="").geturl() == URL


def test_only_the_key_shows_the_key():
    assert shows(headers("abc")["Authorization"], "abc")
    assert not any(shows(other, "abc") for other in ("", "Bearer", "Bearer ", "Bearer ab", "Bearer abcd", "abc"))


def test_a_key_that_cannot_be_kept_is_told(tmp_path):
    with pytest.raises(ConfigError, match="keyboard"):
        kept_key(tmp_path / "nowhere")
