"""Each file of an agent's folder is damaged in turn: it is put away, and its place is free."""

import hashlib
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from nightjar.edge_agent.shell import clock, damaged_files, folder
from nightjar.edge_agent.shell.damage import FOUND
from nightjar.edge_agent.shell.damaged_files import put_damaged_away, put_lock_away
from nightjar.edge_agent.shell.database import Database
from nightjar.edge_agent.shell.kept_apart import LEDGER
from nightjar.edge_agent.shell.typed_put_away import forget_typed
from nightjar.host import put_away
from tests.edge_agent.fakes import CAPS, FakeClock
from tests.edge_agent.test_agent_process import COMMAND, PATIENCE_S, ROOT

WEIGHTS = b"weights" * 1000
NAMED = hashlib.sha256(WEIGHTS).hexdigest()
FILES = {
    "keyboard.key": b"k" * 43,
    "artifacts/current": NAMED.encode(),
    f"artifacts/{NAMED}": WEIGHTS,
    "release/metadata/timestamp.json": b'{"signed": {}}',
    "release/handed-over": b"0" * 64,
}
CHECKED = set(FILES) - {"release/handed-over"}


@pytest.fixture
def data_dir(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path


def test_a_sound_folder_is_left_alone(data_dir):
    put_damaged_away(data_dir, None)
    assert {name: (data_dir / name).read_bytes() for name in FILES} == FILES
    assert put_away.notes(data_dir) == []


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["zeroed", "flipped", "cut", "empty", "folder", "link to nowhere"])
def test_a_damaged_file_is_put_away_with_what_was_wrong(data_dir, name, kind):
    path = data_dir / name
    data = bytearray(FILES[name])
    if kind == "folder":
        path.unlink()
        path.mkdir()
        (path / "inside").write_bytes(b"kept")
    elif kind == "link to nowhere":
        path.unlink()
        path.symlink_to("/nowhere/at/all")
    else:
        data[0] ^= 0x80
        damaged = {"zeroed": bytes(len(data)), "flipped": bytes(data), "cut": FILES[name][:3], "empty": b""}[kind]
        path.write_bytes(damaged)
    put_damaged_away(data_dir, 1.8e9)
    if kind not in {"folder", "link to nowhere"} and name not in CHECKED:
        assert path.exists()
        return
    assert not path.exists() or "metadata" in name
    (note,) = put_away.notes(data_dir)
    assert "put away on 2027-01-15" in note
    kept = [each for each in (data_dir / put_away.FOLDER).rglob("*") if not each.name.endswith(".why")]
    assert kept
    put_damaged_away(data_dir, None)
    assert len(put_away.notes(data_dir)) == 1


def test_a_part_of_metadata_that_goes_meanwhile_is_no_damage(data_dir, monkeypatch):
    going = data_dir / "release" / "metadata" / "root.json.part"
    going.write_bytes(b"")
    real = damaged_files.read_file

    def read(path):
        if path == going:
            going.unlink()
        return real(path)

    monkeypatch.setattr(damaged_files, "read_file", read)
    put_damaged_away(data_dir, None)
    assert not going.exists()
    assert put_away.notes(data_dir) == []


def test_what_goes_while_it_is_put_away_is_passed_over(data_dir, monkeypatch):
    paths = [data_dir / name for name in ("a", "b")]
    for path in paths:
        path.write_bytes(b"")
    real = put_away.free_name

    def free(folder, name):
        paths[0].unlink(missing_ok=True)
        return real(folder, name)

    monkeypatch.setattr(put_away, "free_name", free)
    put_away.put_away(data_dir, paths, "bad")
    assert put_away.notes(data_dir) == ["b was put away: bad"]


@pytest.mark.parametrize("before_s", [None, 1.8e9])
def test_typed_text_that_goes_while_it_is_looked_for_is_passed_over(data_dir, monkeypatch, before_s):
    for name in ("agent.db", "kept"):
        (data_dir / name).write_bytes(b"")
    put_away.put_away(data_dir, [data_dir / "agent.db", data_dir / "kept"], "bad")
    monkeypatch.setattr(Path, "is_file", lambda path: path.unlink() or True)
    forget_typed(data_dir, before_s)
    assert list((data_dir / put_away.FOLDER).iterdir()) == []


@pytest.mark.parametrize("name", ["artifacts", "release"])
def test_a_file_in_the_place_of_a_folder_is_put_away(data_dir, name):
    shutil.rmtree(data_dir / name)
    (data_dir / name).write_bytes(b"")
    put_damaged_away(data_dir, None)
    assert not (data_dir / name).exists()
    assert name in put_away.in_short(data_dir)


def test_a_folder_in_the_place_of_the_lock_or_of_what_is_put_away(data_dir):
    (data_dir / folder.LOCK).mkdir()
    (data_dir / put_away.FOLDER).write_bytes(b"")
    put_lock_away(data_dir)
    with folder.own_folder(data_dir):
        pass
    assert "lock was put away" in put_away.in_short(data_dir)


def test_only_the_newest_notes_are_told_to_the_coordinator(data_dir):
    for number in range(5):
        put_away.note(data_dir, f"file{number}", "gone")
    assert put_away.in_short(data_dir) == "file4 was made anew: gone; file3 was made anew: gone; and 3 before"


@pytest.mark.parametrize("kind", ["zeroed", "folder"])
def test_an_agent_starts_in_a_folder_where_everything_is_damaged(tmp_path, kind):
    config, data_dir = tmp_path / "agent.toml", tmp_path / "data"
    config.write_text('device = "pi"\ndata_dir = "data"\n[conditions]\npoll_s = 0.05\n[emulator]\n[broker]\nport = 1\n')
    data_dir.mkdir(mode=0o700)
    Database(data_dir / folder.DATABASE, CAPS, FakeClock()).close()
    for name, content in FILES.items():
        (data_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (data_dir / name).write_bytes(content)
    names = [folder.DATABASE, LEDGER, clock.FILE, damaged_files.TYPED, *FILES]
    names += [folder.LOCK, "agent.db-wal"] if kind == "folder" else []
    for name in names:
        path = data_dir / name
        path.unlink(missing_ok=True)
        path.mkdir() if kind == "folder" else path.write_bytes(bytes(5000))
    with subprocess.Popen([*COMMAND, str(config)], cwd=ROOT, stderr=subprocess.PIPE, text=True) as agent:
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(iter(agent.stderr.readline, "")))
        reader.start()

        def comes(text, times):
            begun_s = time.monotonic()
            while sum(text in line for line in lines) < times:
                assert agent.poll() is None, "".join(lines)
                assert time.monotonic() - begun_s < PATIENCE_S, "".join(lines)
                threading.Event().wait(0.05)

        comes("broker_unreachable", 1)
        (data_dir / FOUND).touch()  # what a process of it leaves that comes upon a damaged page
        comes("agent_started", 2)
        comes("broker_unreachable", 2)
        assert not (data_dir / FOUND).exists()
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(PATIENCE_S) == 0, "".join(lines)
        reader.join()
    assert any("agent.db was put away" in note for note in put_away.notes(data_dir))
    Database(data_dir / folder.DATABASE, CAPS, FakeClock()).close()
