"""A file of settings that cannot be used does not end a device: it goes on with those that it ran with last."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightjar.edge_agent.commands.doctor import CheckOutcome, examine
from nightjar.edge_agent.commands.status import status
from nightjar.edge_agent.config import DATA_DIR_VARIABLE
from nightjar.edge_agent.kept_settings import cut_off, folder_of, settings_of
from nightjar.edge_agent.shell.kept_apart import KEPT_SETTINGS
from nightjar.host import put_away
from nightjar.host.put_away import in_short, notes
from nightjar.wire.errors import ConfigError
from tests.edge_agent.test_agent_process import COMMAND, PATIENCE_S, ROOT

TEXT = """device = "pi-kitchen"
population = "home"
[limits]
epsilon = 1.5
household = false
[broker]
port = 2
[conditions]
poll_s = 0.05
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text(TEXT)
    return path


@pytest.fixture
def environment(tmp_path):
    (tmp_path / "data").mkdir(mode=0o700)
    return {DATA_DIR_VARIABLE: str(tmp_path / "data")}


def damage(path, kind):
    if kind in {"gone", "folder", "link to nowhere", "unreadable"}:
        path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "link to nowhere":
        path.symlink_to("/nowhere/at/all")
    elif kind == "unreadable":
        path.symlink_to("/proc/self/mem")  # its first page cannot be read, by root neither
    elif kind != "gone":
        path.write_bytes(
            {
                "empty": b"",
                "nothing but a remark": b"# agent.toml\n\n",
                "cut": TEXT[: TEXT.index("household") + 3].encode(),
                "cut, and still valid": TEXT[: TEXT.index("1.5") + 1].encode(),
                "zeroed": bytes(len(TEXT)),
                "end zeroed": TEXT[:50].encode() + bytes(50),
                "random": random.Random(1).randbytes(500),
                "other types": b"device = 5\nlimits = 3\nbroker = [1]\n",
                "unknown settings": b'device = "a"\ncolour = "red"\n',
                "nested": b"a = " + b"[" * 5000,
                "huge": b"#" * (3 << 20),
                "other encoding": TEXT.encode("utf-16"),
            }[kind]
        )


KINDS = (
    "gone", "folder", "link to nowhere", "unreadable", "empty", "nothing but a remark", "cut", "cut, and still valid",
    "zeroed", "end zeroed", "random", "other types", "unknown settings", "nested", "huge", "other encoding",
)  # fmt: skip


@pytest.mark.parametrize("read", [settings_of, folder_of])
def test_an_empty_path_is_refused_in_words(read, tmp_path, monkeypatch):
    """Proven before: ``--config "$UNSET"`` ended each command with a traceback."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="cannot read the configuration file"):
        read(Path(), {})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("told_by", ["environment", "file"])
def test_a_damaged_file_leaves_the_settings_of_before(path, environment, told_by, kind):
    if told_by == "file":
        path.write_text(f'data_dir = "{environment.pop(DATA_DIR_VARIABLE)}"\n{TEXT}')
    before = settings_of(path, environment)
    before.keep()
    assert before.notice == ""
    damage(path, kind)
    found = settings_of(path, environment)
    assert found.config == before.config
    assert str(path) in found.notice
    assert "the settings of before are used" in found.notice
    assert folder_of(path, environment) == before.config.data_dir
    for _ in range(3):
        found.put_damaged_away(1.8e9)
        found.keep()
    (note,) = notes(found.config.data_dir)
    assert note.startswith("agent.toml cannot be used since 2027-01-15: ")
    assert status(found.config).put_away == [note]
    first = next(examine(found.config, found.notice))
    assert (first.category, first.outcome) == ("settings", CheckOutcome.WARNING)
    if path.is_file() and kind not in {"unreadable", "empty", "huge"}:
        assert (found.config.data_dir / put_away.FOLDER / "agent.toml.1").read_bytes() == path.read_bytes()
    path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    path.write_text(before.text.replace("1.5", "2.5"))
    mended = settings_of(path, environment)
    assert (mended.notice, mended.config.limits.epsilon) == ("", 2.5)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cut, and still valid"])
def test_a_file_that_was_never_used_is_refused_as_before(path, environment, kind):
    damage(path, kind)
    with pytest.raises(ConfigError):
        settings_of(path, environment)


def test_what_is_wrong_elsewhere_is_not_hidden_by_the_settings_of_before(path, environment):
    settings_of(path, environment).keep()
    with pytest.raises(ConfigError, match="NIGHTJAR_AGENT_BROKER_PORT"):
        settings_of(path, environment | {"NIGHTJAR_AGENT_BROKER_PORT": "none"})


@pytest.mark.parametrize("content", [b"", b"x" * 200, bytes(300), None], ids=["empty", "other", "zeroed", "folder"])
def test_a_damaged_copy_is_not_used_and_is_made_again(path, environment, tmp_path, content):
    settings_of(path, environment).keep()
    copy = tmp_path / "data" / KEPT_SETTINGS
    copy.unlink()
    copy.mkdir() if content is None else copy.write_bytes(content)
    assert settings_of(path, environment).notice == ""
    damage(path, "empty")
    with pytest.raises(ConfigError, match="device: is missing"):
        settings_of(path, environment)


def test_a_person_may_take_settings_out(path, environment):
    settings_of(path, environment).keep()
    path.write_text('device = "pi-kitchen"\npopulation = "home"\n')
    assert settings_of(path, environment).notice == ""


@given(st.integers(0, len(TEXT) - 1))
def test_a_cut_within_a_line_is_seen(length):
    within = TEXT[length] != "\n" and TEXT[:length][-1:] not in {"", "\n"}
    nothing = not TEXT[:length].strip()
    assert bool(cut_off(TEXT[:length], TEXT)) == (within or nothing)


def test_the_oldest_goes_when_too_much_was_put_away(tmp_path, monkeypatch):
    monkeypatch.setattr(put_away, "MOST_BYTES", 10_000)
    for number in range(400):
        (tmp_path / "agent.db").write_bytes(bytes([number % 256]) * 1_500)
        put_away.put_away(tmp_path, [tmp_path / "agent.db"], f"damage {number}")
        os.utime(tmp_path / put_away.FOLDER / f"agent.db.{number + 1}", (number % 7, number % 7))  # clocks may be wrong
    kept = sorted(each.name for each in (tmp_path / put_away.FOLDER).iterdir() if not each.name.endswith(".why"))
    assert kept == [f"agent.db.{number}" for number in range(395, 401)]
    said = notes(tmp_path)
    assert len(said) == put_away.MOST_NOTES
    assert said[-1].endswith("damage 399")
    for number in range(60):
        (tmp_path / "current").mkdir()
        put_away.put_away(tmp_path, [tmp_path / "current"], f"a folder {number}")
    assert sum(1 for each in (tmp_path / put_away.FOLDER).iterdir() if each.is_dir()) == put_away.MOST_FILES


def test_what_alone_is_too_large_stays_until_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(put_away, "MOST_BYTES", 10)
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"more than ten bytes")
        put_away.put_away(tmp_path, [tmp_path / name], "damaged")
        assert [each.name[0] for each in (tmp_path / put_away.FOLDER).glob("*.?")] == [name]


@pytest.mark.tflite
def test_an_agent_goes_on_with_the_settings_of_before_and_says_so(path, environment, tmp_path):
    path.write_text(TEXT.replace("port = 2", "port = 1"))

    def lines_until(event):
        told = {**os.environ, **environment}
        with subprocess.Popen([*COMMAND, str(path)], cwd=ROOT, stderr=subprocess.PIPE, text=True, env=told) as a:
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(iter(a.stderr.readline, "")))
            reader.start()
            begun_s = time.monotonic()
            while not any(event in line for line in lines):
                assert a.poll() is None, "".join(lines)
                assert time.monotonic() - begun_s < PATIENCE_S, "".join(lines)
                threading.Event().wait(0.05)
            a.send_signal(signal.SIGTERM)
            assert a.wait(PATIENCE_S) == 0, "".join(lines)
            reader.join()
        return "".join(lines)

    assert "settings_of_before" not in lines_until("broker_unreachable")
    damage(path, "random")
    said = lines_until("broker_unreachable")
    assert "settings_of_before" in said
    assert "device=pi-kitchen" in said
    assert "agent.toml cannot be used" in in_short(tmp_path / "data")
    command = [sys.executable, "-m", "nightjar.edge_agent", "status", "--config", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )
    assert "the settings of before are used" in done.stderr
    assert "pi-kitchen" in done.stdout
