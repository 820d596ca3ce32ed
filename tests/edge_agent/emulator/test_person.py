import pytest

from edge_agent.emulator.person import move_in, read_messages
from edge_agent.shell.database import Database
from tests.edge_agent.fakes import CAPS, FakeClock
from wire.errors import ConfigError


@pytest.fixture
def messages(tmp_path):
    path = tmp_path / "messages.txt"
    path.write_text("hello there\n\n  how are you \nnaïve café\n", encoding="utf-8")
    return path


def test_messages_are_lines(messages):
    assert read_messages(messages) == ["hello there", "how are you", "naïve café"]


def test_a_person_moves_in_once(tmp_path, messages):
    for expected in (3, 0):
        database = Database(tmp_path / "agent.db", CAPS, FakeClock())
        assert move_in(database, messages) == expected
        assert database.count() == 3
        database.close()


@pytest.mark.parametrize("content", [b"", b"\n  \n", b"\xff\xfe"])
def test_a_file_without_messages_is_a_config_error(tmp_path, content):
    path = tmp_path / "messages.txt"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"emulator\.messages"):
        read_messages(path)


def test_a_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        read_messages(tmp_path / "nowhere.txt")
