"""A person's settings of the engine, also wrong ones."""

from pathlib import Path

import pytest

from nightjar.edge_agent.desktop.settings import (
    DesktopSettings,
    read_settings,
    settings_from,
    settings_path,
    socket_path,
)


def test_the_defaults_stand_without_a_file(tmp_path):
    assert read_settings(tmp_path / "none.toml") == (DesktopSettings(), [])


def test_a_list_of_programs_adds_to_ours():
    settings, faults = settings_from({"terminals": ["MyTerm"], "candidates": 5})
    assert faults == []
    assert {"myterm", "konsole"} <= settings.terminals
    assert settings.candidates == 5


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"candidates": 0}, "candidates"),
        ({"candidates": True}, "candidates"),
        ({"next_words": 1}, "next_words"),
        ({"figures": "sometimes"}, "figures"),
        ({"terminals": "konsole"}, "terminals"),
        ({"terminals": [1]}, "terminals"),
        ({"socket": 3}, "socket"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_faulty_setting_is_named_and_keeps_its_default(table, named):
    settings, faults = settings_from(table)
    assert settings == DesktopSettings()
    assert len(faults) == 1
    assert named in faults[0]


def test_a_file_that_is_no_toml_is_named(tmp_path):
    for name, data in {"a": b"candidates = ", "b": b"\xff\xfe"}.items():
        (tmp_path / name).write_bytes(data)
        settings, faults = read_settings(tmp_path / name)
        assert settings == DesktopSettings()
        assert len(faults) == 1


def test_where_the_suggester_is():
    home = Path("/home/ada")
    default = DesktopSettings()
    assert socket_path({}, home, default) == home / ".local/share/nightjar/suggester/socket"
    assert socket_path({"XDG_DATA_HOME": "/data"}, home, default) == Path("/data/nightjar/suggester/socket")
    assert socket_path({}, home, DesktopSettings(socket="/run/s")) == Path("/run/s")
    assert socket_path({"NIGHTJAR_SUGGESTER_SOCKET": "/x"}, home, DesktopSettings(socket="/run/s")) == Path("/x")
    assert settings_path({"XDG_CONFIG_HOME": ""}, home) == home / ".config/nightjar/ibus.toml"
