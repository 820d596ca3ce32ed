"""A person's settings of the engine, also wrong ones."""

import os
from pathlib import Path

import pytest

from nightjar.edge_agent.desktop.fields import NOTHING, Field, allowed_in, program_of
from nightjar.edge_agent.desktop.settings import (
    MOST_BYTES,
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


@pytest.mark.parametrize("named", ["Signal-Desktop", "/opt/Signal/signal-desktop ", "signal-desktop.desktop"])
def test_a_program_may_be_named_by_its_path_or_file_in_any_case(named):
    settings, _ = settings_from({"never_learned": [named]})
    for client in ("gtk3-im:signal-desktop", "gtk3-im:Signal-Desktop", "gtk4-im:/usr/lib/signal-desktop"):
        assert not allowed_in(Field(program_of(client), surrounding=True), settings).keep
    assert allowed_in(Field("gedit", surrounding=True), settings).keep


@pytest.mark.parametrize("client", ["org.keepassxc.KeePassXC", "org.gnome.Secrets", "com.bitwarden.desktop"])
def test_a_password_manager_is_known_by_the_name_of_its_application_too(client):
    assert allowed_in(Field(program_of(f"gtk4-im:{client}"), surrounding=True), DesktopSettings()) == NOTHING


@pytest.mark.parametrize("tag", ["", "de", "de-AT", "pt-BR", "zh-Hant-TW"])
def test_a_language_is_a_tag_or_that_of_the_session(tag):
    settings, faults = settings_from({"language": tag})
    assert (settings.language, faults) == (tag, [])


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"candidates": 0}, "candidates"),
        ({"candidates": True}, "candidates"),
        ({"next_words": 1}, "next_words"),
        ({"figures": "sometimes"}, "figures"),
        ({"socket": 3}, "socket"),
        ({"socket": "a\0b"}, "socket"),
        ({"pause_key": ""}, "pause_key"),
        ({"ask_key": "Control+ "}, "ask_key"),
        ({"language": "German"}, "language"),
        ({"language": "de_AT"}, "language"),
        ({"language": "de-" + "x" * 40}, "language"),
        ({"language": 3}, "language"),
        ({"pause_key": "<Control><Alt>p"}, "pause_key"),
        ({"pause_key": "Strg+Alt+p"}, "pause_key"),
        ({"pause_key": "Control-Alt-p"}, "pause_key"),
        ({"pause_key": "Control+."}, "pause_key"),
        ({"pause_key": "Control+Alt"}, "pause_key"),
    ],
)
def test_a_faulty_setting_is_named_and_keeps_its_default(table, named):
    settings, faults = settings_from(table)
    assert settings == DesktopSettings()
    assert len(faults) == 1
    assert named in faults[0]


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ({"terminals": "konsole"}, "terminals"),
        ({"never_learned": [1]}, "never_learned"),
        ({"never_lerned": ["diary"], "keep": True}, "never_lerned"),
        ({"keep": "no"}, "keep"),
    ],
)
def test_nothing_is_kept_while_a_list_of_programs_may_not_be_what_the_person_meant(table, named):
    settings, faults = settings_from(table)
    assert settings == DesktopSettings(keep=False)
    assert len(faults) == 1
    assert named in faults[0]


DAMAGED = {
    "cut off": b'never_learned = ["diary", ',
    "no text": b"\xff\xfe",
    "a deep list": b"a = " + b"[" * 5_000,
    "a long figure": b"candidates = " + b"9" * 10_000,
    "too large": b"# " + b"x" * MOST_BYTES,
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_nothing_is_kept_with_a_file_that_cannot_be_read(tmp_path, data):
    (tmp_path / "ibus.toml").write_bytes(data)
    settings, faults = read_settings(tmp_path / "ibus.toml")
    assert settings == DesktopSettings(keep=False)
    assert len(faults) == 1
    assert not allowed_in(Field("gedit", surrounding=True), settings).keep


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_file_is_named_at_once(tmp_path, make):
    make(tmp_path / "ibus.toml")
    settings, faults = read_settings(tmp_path / "ibus.toml")
    assert settings == DesktopSettings(keep=False)
    assert len(faults) == 1


def test_where_the_suggester_is():
    home = Path("/home/ada")
    default = DesktopSettings()
    assert socket_path({}, home, default) == home / ".local/share/nightjar/suggester/socket"
    assert socket_path({"XDG_DATA_HOME": "/data"}, home, default) == Path("/data/nightjar/suggester/socket")
    assert socket_path({}, home, DesktopSettings(socket="/run/s")) == Path("/run/s")
    assert socket_path({"NIGHTJAR_SUGGESTER_SOCKET": "/x"}, home, DesktopSettings(socket="/run/s")) == Path("/x")
    assert settings_path({"XDG_CONFIG_HOME": ""}, home) == home / ".config/nightjar/ibus.toml"
