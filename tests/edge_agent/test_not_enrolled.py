"""An agent that needs a claim and has none: a keyboard with the model that its settings name, connected to nobody."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nightjar.edge_agent.config import NOT_ENROLLED, load
from nightjar.edge_agent.core.eligibility import Answer, Condition
from nightjar.edge_agent.inbox import LinkDown
from nightjar.edge_agent.shell.no_transport import WHY, NoTransport, not_enrolled
from tests.edge_agent.fake_coordinator import PATIENCE_S

ROOT = Path(__file__).parents[2]


def settings(folder, port=1883, model=""):
    path = folder / "agent.toml"
    path.write_text(
        f'needs_claim = true\ndata_dir = "data"\ncoordinator_url = "http://127.0.0.1:{port}"\n'
        f'[broker]\nport = {port}\n[keyboard]\nenabled = true\nport = 0\nmodel = "{model}"\n'
    )
    return path


def test_it_needs_no_name_and_connects_once_it_is_enrolled(tmp_path):
    config = load(settings(tmp_path), {})
    assert (config.device, config.connects, config.keyboard.model) == (NOT_ENROLLED, False, None)
    path = settings(tmp_path)
    path.write_text(path.read_text().replace("true\ndata", "false\ndata"))
    assert "device: is missing" in refused(path, {})
    assert load(path, {"NIGHTJAR_AGENT_NEEDS_CLAIM": "true"}).device == NOT_ENROLLED
    assert load(path, {"NIGHTJAR_AGENT_DEVICE": "phone"}).connects


def refused(path, environment):
    with pytest.raises(Exception, match="cannot be used") as caught:
        load(path, environment)
    return str(caught.value)


def test_a_folder_in_the_persons_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = settings(tmp_path)
    path.write_text(path.read_text().replace('"data"', '"~/.local/share/nightjar"'))
    assert load(path, {}).data_dir == tmp_path / "home/.local/share/nightjar"


def test_nothing_is_published_and_the_reason_is_said():
    posted = []
    transport = NoTransport(posted.append)
    transport.start()
    assert posted == [LinkDown(WHY)]
    assert not transport.connected
    assert not transport.publish("a", b"b")
    assert not_enrolled()[Condition.WANTED].value is Answer.NO


@pytest.mark.tflite
@pytest.mark.slow
def test_it_foresees_learns_this_persons_words_and_connects_to_nobody(tmp_path, exported):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        path = settings(tmp_path, nobody.getsockname()[1], exported.model.program.parent.resolve())
        with (tmp_path / "log").open("wb") as log:
            command = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(path)]
            agent = subprocess.Popen(command, cwd=ROOT, stderr=log)
        try:
            found = ask(tmp_path / "data/suggester/socket", {"do": "suggest", "text": "how "}, "version")
            assert len(found["words"]) == 3
            for _ in range(2):
                told = ask(tmp_path / "data/suggester/socket", learned("meet me at the zyzzyvarium"), "kept")
                assert told == {"kept": True, "reason": ""}
            found = ask(tmp_path / "data/suggester/socket", {"do": "complete", "partial": "zyzzyv"}, "words")
            assert found["words"][0] == "zyzzyvarium"
            said = told_by(path, "status")
            assert (said["running"], said["connected"], said["reason"]) == (True, False, WHY)
            assert said["keyboard_url"].startswith("http://127.0.0.1:")
            checks = {(check["category"], check["name"]): check for check in told_by(path, "doctor", None)["checks"]}
            assert checks["broker", "connection"]["detail"] == WHY
            assert checks["coordinator", "connection"]["detail"] == WHY
            nobody.settimeout(0.0)
            with pytest.raises(BlockingIOError):
                nobody.accept()
        finally:
            agent.terminate()
            assert agent.wait(PATIENCE_S) == 0, (tmp_path / "log").read_text()


@pytest.mark.tflite
def test_a_model_that_was_changed_is_refused(tmp_path, exported):
    folder = tmp_path / "model"
    folder.mkdir()
    for file in exported.model.program.parent.iterdir():
        if file.is_file():
            (folder / file.name).write_bytes(file.read_bytes())
    with (folder / "weights.bin").open("r+b") as file:
        file.write(b"abcd")
    command = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config", str(settings(tmp_path, model=folder))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert "keyboard.model: expected the folder of an exported model" in done.stderr
    assert "Traceback" not in done.stderr


def learned(text):
    return {"do": "learn", "text": text, "program": "editor"}


def ask(path, request, field):
    """The first answer that has a value in this field."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(os.path.relpath(path))
                connection.sendall(json.dumps(request).encode() + b"\n")
                answer = json.loads(connection.makefile("rb").readline())
                if answer[field] is not None:
                    return answer
        except OSError:
            pass  # not there yet
        threading.Event().wait(0.1)
    raise AssertionError(f"no answer to {request['do']}")


def told_by(path, name, status=0):
    command = [sys.executable, "-m", "nightjar.edge_agent", name, "--json", "--config", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert status in (None, done.returncode), done.stderr
    return json.loads(done.stdout)
