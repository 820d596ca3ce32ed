"""The whole agent as a process: its faults, and a life among a real broker and a scripted coordinator."""

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from nightjar.coordinator.mqtt.free_ports import free_ports
from nightjar.edge_agent.keyboard.key import headers, served_key
from nightjar.models.keyboard import held_out
from nightjar.models.vocabulary import words
from nightjar.wire import frame
from nightjar.wire.codec import codec_for
from nightjar.wire.messages import (
    Announcement,
    CheckIn,
    CodecChoice,
    DropoutCause,
    Missing,
    Receipt,
    Rejection,
    RejectionReason,
    Status,
    TrainingPlan,
    Verdict,
)
from tests.edge_agent.fake_coordinator import (
    PATIENCE_S,
    FakeCoordinator,
    artifact_server,
    mosquitto,
    mosquitto_path,
)
from tests.edge_agent.fakes import assignment

ROOT = Path(__file__).parents[2]
PROMPTLY_S = 30.0
"""A second on a quiet machine; whatever it could wait for at its end takes a minute."""
COMMAND = [sys.executable, "-m", "nightjar.edge_agent", "run", "--config"]


def run_to_the_end(path, **environment):
    return subprocess.run(
        [*COMMAND, str(path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**os.environ, **environment},
    )


# --- what a person can get wrong ---


def test_a_missing_config_is_said_without_a_traceback(tmp_path):
    done = run_to_the_end(tmp_path / "nowhere.toml")
    assert done.returncode == 2
    assert "there is no configuration file" in done.stderr
    assert "nightjar-agent example" in done.stderr
    assert "Traceback" not in done.stderr


def test_all_faults_of_a_config_are_said_at_once(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text('device = "a b"\n[broker]\nport = -1\n')
    done = run_to_the_end(path, NIGHTJAR_AGENT_TRAINING_THREADS="none")
    assert done.returncode == 2
    for part in ("device:", "data_dir: is missing", "broker.port:", "NIGHTJAR_AGENT_TRAINING_THREADS"):
        assert part in done.stderr
    assert "Traceback" not in done.stderr


def test_a_data_dir_that_is_a_file_is_said(tmp_path):
    (tmp_path / "data").write_text("")
    path = tmp_path / "agent.toml"
    path.write_text('device = "p"\ndata_dir = "data"\n')
    done = run_to_the_end(path)
    assert done.returncode == 2
    assert "data_dir: expected a folder" in done.stderr


@pytest.mark.slow
def test_a_taken_keyboard_port_is_said(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = tmp_path / "agent.toml"
        port = taken.getsockname()[1]
        path.write_text(f'device = "p"\ndata_dir = "data"\n[keyboard]\nenabled = true\nport = {port}\n')
        done = run_to_the_end(path)
    assert done.returncode == 2
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_unreadable_messages_are_said(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text('device = "p"\ndata_dir = "data"\n[emulator]\nmessages = "nowhere.txt"\n')
    done = run_to_the_end(path)
    assert done.returncode == 2
    assert "emulator.messages" in done.stderr


# --- a life ---


SEGMENT = "from_hour = 0\ncharging = true\nin_use = false\nwifi = true\nbattery = 1.0\n"


class Agent:
    """An agent process; its standard error goes to a file."""

    def __init__(self, folder, port, url, more="", device="phone", keyboard_port=None):
        self.log = folder / f"{device}.log"
        self.config = folder / f"{device}.toml"
        self.data = folder / f"{device}-data"
        keyboard = "" if keyboard_port is None else f"[keyboard]\nenabled = true\nport = {keyboard_port}\n"
        self.config.write_text(
            f'device = "{device}"\npopulation = "test"\ndata_dir = "{device}-data"\ncoordinator_url = "{url}"\n'
            f"[broker]\nport = {port}\n[conditions]\nhysteresis_s = 0.2\npoll_s = 0.05\n{keyboard}"
            "[limits]\ncohort = 1\ndensity = 1.0\n"
            '[emulator]\nseed = 3\nmessages = "messages.txt"\n'
            f"{more}[emulator.day]\njitter_minutes = 0\ninterruptions_per_hour = 0\n"
        )
        self.process = None

    def day(self, *segments):
        with self.config.open("a") as file:
            file.writelines(f"[[emulator.day.segments]]\n{segment}" for segment in segments or (SEGMENT,))
        return self

    def start(self):
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*COMMAND, str(self.config)], cwd=ROOT, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def stop(self):
        """SIGTERM; returns (exit status, seconds)."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S), time.monotonic() - begun

    def wait_for_log(self, text, timeout_s=PATIENCE_S):
        begun = time.monotonic()
        while text not in self.log.read_text():
            assert time.monotonic() - begun < timeout_s, self.log.read_text()[-3000:]
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            threading.Event().wait(0.05)


@pytest.fixture
def world(tmp_path, exported):
    """A broker, a coordinator and a phone with a person in it."""
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    words = exported.words
    generator = random.Random(1)
    texts = [" ".join(generator.choices(words[:60], k=9)) + " zyzzyva" for _ in range(400)]
    (tmp_path / "messages.txt").write_text("\n".join(texts))
    (port,) = free_ports(1)
    with contextlib.ExitStack() as stack:
        stack.enter_context(mosquitto(tmp_path, port))
        url = stack.enter_context(artifact_server(exported.artifacts))
        coordinator = FakeCoordinator(port)
        stack.callback(coordinator.close)
        agents = []

        def make(**changes):
            agents.append(Agent(tmp_path, port, url, **changes))
            return agents[-1]

        def end_all():
            for agent in agents:
                if agent.process is not None and agent.process.poll() is None:
                    agent.kill()

        stack.callback(end_all)
        yield coordinator, make, exported, texts


def make_assignment(exported, number=1, **changes):

    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, local_epochs=2)
    return assignment(exported.model, number, **({"plan": plan, "report_deadline_s": 600.0} | changes))


def memory_of(pid):
    """All bytes in the writable memory of a process."""
    found = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            span, rights = line.split()[:2]
            start, end = (int(part, 16) for part in span.split("-"))
            if rights.startswith("rw"):
                memory.seek(start)
                with contextlib.suppress(OSError):  # given back in the meantime
                    found.append(memory.read(end - start))
    return b"".join(found)


LONG = TrainingPlan(learning_rate=0.1, clip_norm=1.0, local_epochs=1000)


@pytest.mark.broker
@pytest.mark.tflite
def test_a_round_among_a_real_broker_and_no_typed_text_in_any_published_byte(world):
    coordinator, make, exported, texts = world
    agent = make().day()
    agent.start()
    check_in = coordinator.next("check-in")
    assert (check_in.examples, check_in.emulated) == (400, True)
    coordinator.say("phone", make_assignment(exported, codec=CodecChoice(density=0.02)))
    report = frame.decode(coordinator.next("report"))
    layout = exported.model.manifest.layout
    assert codec_for(CodecChoice(density=0.02)).decode(report.payload, layout).indices.size == round(
        0.02 * layout.size + 0.5
    )
    coordinator.say("phone", Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED, retry_after_s=0))
    assert coordinator.next("check-in").weights == exported.model.manifest.weights.sha256
    coordinator.say("phone", Rejection(reason=RejectionReason.NO_TASK, retry_after_s=60))
    assert coordinator.next("status", state="resting", reason="no task; again in 60 s").emulated
    assert b"agent_started" in memory_of(agent.process.pid)
    assert b"zyzzyva" not in memory_of(agent.process.pid)
    status, seconds = agent.stop()
    assert status == 0
    assert seconds < PROMPTLY_S
    assert not coordinator.next("status", online=False).online
    log = agent.log.read_text()
    assert "emulated_phone" in log
    published = b"".join(payload for _, payload in coordinator.payloads)
    for secret in ["zyzzyva", *texts[:50], *(text.split(" ", 1)[1] for text in texts[:50])]:
        assert secret.encode() not in published
        assert secret not in log
    assert len(log.splitlines()) < 25


@pytest.mark.broker
@pytest.mark.tflite
def test_the_training_process_counts_what_the_keyboard_saves_if_the_coordinator_asks(world):
    coordinator, make, exported, texts = world
    version = exported.model.manifest.version
    coordinator.announce(Announcement(version=version, manifest=exported.model.sha256))
    agent = make().day()
    agent.start()
    agent.wait_for_log("keyboard_model")
    coordinator.next("check-in")
    plan = TrainingPlan(learning_rate=1.0, clip_norm=1.0, evaluation_share=0.05, keystrokes=True)
    coordinator.say("phone", make_assignment(exported, plan=plan))
    report = frame.decode(coordinator.next("report"))
    assert report.evaluation.counted > 0
    found = report.keyboard
    held = held_out(texts, 0.05)[1]
    assert found.letters == sum(len(word) + 1 for text in held for word in words(text))
    assert 0 < found.saved == found.saved_announced < found.letters
    assert found.announced == version
    assert agent.stop()[0] == 0
    assert "keystrokes_saved" in agent.log.read_text()


@pytest.mark.broker
@pytest.mark.tflite
def test_kill_while_training_and_while_reporting(world):
    coordinator, make, exported, _ = world
    agent = make().day()
    agent.start()
    coordinator.next("check-in")
    coordinator.say("phone", make_assignment(exported, 1, plan=LONG))
    coordinator.next("status", state="training")
    agent.kill()
    coordinator.next("status", online=False)  # the last will
    agent.start()
    dropout = coordinator.next("dropout")
    assert (dropout.round, dropout.cause) == (1, DropoutCause.RESTARTED)
    assert coordinator.next("check-in").examples == 400  # not put into the store twice

    coordinator.say("phone", make_assignment(exported, 2))
    first = coordinator.next("report")
    agent.kill()
    agent.start()
    assert coordinator.next("report") == first
    coordinator.say("phone", Receipt(round=2, attempt=1, verdict=Verdict.DUPLICATE))
    coordinator.next("check-in")
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_a_phone_that_is_unplugged_while_training_drops_out_within_a_moment(world):
    coordinator, make, exported, _ = world
    # A day in twelve seconds: on the charger until noon.
    agent = make(more="speed = 7200\n").day(SEGMENT, SEGMENT.replace("= 0\ncharging = true", "= 12\ncharging = false"))
    agent.start()
    training, number = False, 0
    while not training:  # on a busy machine it may be noon before an assignment is there
        match coordinator.next("check-in", "status"):
            case CheckIn():
                number += 1
                coordinator.say("phone", make_assignment(exported, number, plan=LONG))
            case Status(state=state):
                training = state == "training"
    coordinator.dropped_out(DropoutCause.UNPLUGGED, "unplugged")
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_a_chunked_report_loses_chunks_and_resumes(world):
    coordinator, make, exported, _ = world
    agent = make().day()
    agent.start()
    coordinator.next("check-in")
    dense = CodecChoice(name="dense-f32")
    coordinator.say("phone", make_assignment(exported, codec=dense))
    first = frame.decode(coordinator.next("report"))
    assert first.count == 4
    chunks = {chunk.index: chunk for chunk in (frame.decode(coordinator.next("report")) for _ in range(3))}
    assert set(chunks) == {1, 2, 3}
    query = coordinator.next("query")
    assert query.chunks == 4
    coordinator.say("phone", Missing(round=1, attempt=1, chunks=(0,)))
    again = frame.decode(coordinator.next("report"))
    assert again == first
    report = frame.decode(frame.join(chunks | {0: again}))
    update = codec_for(dense).decode(report.payload, exported.model.manifest.layout)
    assert update.values.any()
    coordinator.say("phone", Receipt(round=1, attempt=1, verdict=Verdict.ACCEPTED))
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_an_artifact_with_another_hash_is_a_dropout(world):
    coordinator, make, exported, _ = world
    agent = make().day()
    weights = exported.model.manifest.weights.sha256
    true_bytes = exported.artifacts[weights]
    exported.artifacts[weights] = true_bytes[:-1] + b"\x01"
    try:
        agent.start()
        coordinator.next("check-in")
        coordinator.say("phone", make_assignment(exported))
        dropout = coordinator.next("dropout")
        assert dropout.cause is DropoutCause.FETCH_FAILED
        assert "sha256" in dropout.detail
        assert not list((agent.config.parent / "phone-data/artifacts").glob("*.part"))
    finally:
        exported.artifacts[weights] = true_bytes


@pytest.mark.broker
@pytest.mark.tflite
def test_without_broker_or_coordinator_it_says_so_and_the_keyboard_works(tmp_path, world):
    coordinator, make, exported, _ = world
    port, nobody = free_ports(2)
    agent = make(keyboard_port=port, device="alone").day()
    usual = agent.config.read_text()
    agent.start()
    agent.wait_for_log("event=checked_in ")
    coordinator.announce(Announcement(version=0, manifest=exported.model.sha256))
    agent.wait_for_log("event=keyboard_model ")
    assert agent.stop()[0] == 0

    # From here on neither answers.
    agent.config.write_text(usual.replace("[broker]\nport = ", f"[broker]\nport = {nobody} #"))
    agent.start()
    agent.wait_for_log("event=broker_unreachable ")
    said = ask(agent, port, "/api/suggest", {"text": "hello "})
    assert len(said["suggestions"]) == 3
    assert said["version"] == 0
    kept = ask(agent, port, "/api/messages", {"text": "something new"})
    assert kept == {"kept": True, "stored": 401, "reason": "", "rule": ""}
    about = ask(agent, port, "/api/about")
    assert (agent.data / "keyboard.key").stat().st_mode & 0o777 == 0o600
    assert (about["device"], about["emulated"], about["stored"]) == ("alone", True, 401)
    agent.wait_for_log("in use")
    assert ask(agent, port, "/api/wipe", {"everything": "delete"}) == {"stored": 0}
    files = [file for file in agent.config.parent.rglob("agent.db*") if file.is_file()]
    assert files
    assert b"something new" not in b"".join(file.read_bytes() for file in files)
    assert len(ask(agent, port, "/api/suggest", {"text": "hello "})["suggestions"]) == 3
    assert agent.process.poll() is None
    status, seconds = agent.stop()
    assert status == 0
    assert seconds < PROMPTLY_S


def suggester_of(agent):
    """The process id of an agent's suggester: its only child while it does not train."""
    (pid,) = [
        int(pid)
        for path in Path(f"/proc/{agent.process.pid}/task").glob("*/children")
        for pid in path.read_text().split()
    ]
    return pid


def request(agent, **asked):
    """An answer through the Unix socket."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_S)
        folder = os.open(agent.data / "suggester", os.O_PATH)
        line.connect(f"/proc/self/fd/{folder}/socket")
        os.close(folder)
        line.sendall(json.dumps(asked).encode() + b"\n")
        return json.loads(line.makefile("rb").readline())


@pytest.fixture
def typist(world):
    """An agent whose keyboard has a model, and the port of its page."""
    coordinator, make, exported, _ = world
    (port,) = free_ports(1)
    agent = make(keyboard_port=port).day()
    agent.start()
    coordinator.announce(Announcement(version=0, manifest=exported.model.sha256))
    agent.wait_for_log("event=keyboard_model ")
    return agent, port


@pytest.mark.broker
@pytest.mark.tflite
def test_what_is_typed_is_in_the_suggester_and_never_in_the_agent(typist):
    agent, port = typist
    suggester = suggester_of(agent)
    assert ask(agent, port, "/api/suggest", {"text": "a velvet xylophone"})["version"] == 0
    assert ask(agent, port, "/api/messages", {"text": "a velvet xylophone plays"})["kept"]
    assert request(agent, do="learn", text="a quilted marzipan sings", program="letters") == {
        "kept": True,
        "reason": "",
    }
    typed = (b"velvet xylophone", b"quilted marzipan", b"zyzzyva")
    assert any(text in memory_of(suggester) for text in typed)
    assert not [text for text in typed if text in memory_of(agent.process.pid)]
    assert ask(agent, port, "/api/wipe", {"everything": "delete"}) == {"stored": 0}
    assert not [text for text in typed if text in memory_of(agent.process.pid)]
    assert agent.stop()[0] == 0
    assert not Path(f"/proc/{suggester}").exists()
    assert not any(text.decode() in agent.log.read_text() for text in typed)


@pytest.mark.broker
@pytest.mark.tflite
def test_the_suggester_has_no_network_and_only_its_sockets(typist):
    agent, port = typist
    suggester = suggester_of(agent)
    assert "\nSeccomp:\t2\n" in Path(f"/proc/{suggester}/status").read_text()
    listening = {line.split()[9]: line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines()[1:]}
    own = [path.readlink() for path in Path(f"/proc/{suggester}/fd").iterdir()]
    inodes = {str(target)[8:-1] for target in own if str(target).startswith("socket:")}
    assert [listening[inode] for inode in inodes & set(listening)] == [f"0100007F:{port:04X}"]
    assert not [target for target in own if target.name == "lock"], "a second agent could not start"
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_a_suggester_that_is_killed_comes_again_with_its_model_and_clients_wait_for_it(typist):
    agent, port = typist
    for number in range(2):  # the first is forked, the second started from nothing
        assert request(agent, do="learn", text=f"the {['first', 'second'][number]} one", program="letters")["kept"]
        os.kill(suggester_of(agent), signal.SIGKILL)
        begun = time.monotonic()
        while agent.log.read_text().count("event=suggester_ended") <= number:
            assert time.monotonic() - begun < PATIENCE_S
            threading.Event().wait(0.05)
        assert request(agent, do="status")["stored"] == 401 + number
        begun = time.monotonic()
        while request(agent, do="suggest", text="hello ")["version"] != 0:
            assert time.monotonic() - begun < PATIENCE_S
        assert ask(agent, port, "/api/suggest", {"text": "hello "})["version"] == 0
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_an_agent_that_is_killed_takes_its_suggester_with_it_and_the_next_has_the_page(typist):
    agent, port = typist
    suggester = suggester_of(agent)
    agent.kill()
    begun = time.monotonic()
    while Path(f"/proc/{suggester}").exists():
        assert time.monotonic() - begun < PATIENCE_S
    agent.start()
    while agent.log.read_text().count("event=keyboard_model ") < 2:
        assert agent.process.poll() is None, agent.log.read_text()[-3000:]
        threading.Event().wait(0.05)
    assert ask(agent, port, "/api/suggest", {"text": "hello "})["version"] == 0
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_suggestions_come_while_the_trainer_is_busy(world, typist):
    coordinator, _, exported, _ = world
    agent, port = typist
    coordinator.next("check-in")
    coordinator.say("phone", make_assignment(exported, plan=LONG))
    coordinator.next("status", state="training")
    for _ in range(20):
        assert ask(agent, port, "/api/suggest", {"text": "hello "})["version"] == 0
    coordinator.next("dropout")  # somebody types
    assert agent.stop()[0] == 0


@pytest.mark.broker
@pytest.mark.tflite
def test_a_broker_that_comes_later_or_again_is_found(tmp_path, exported):
    if mosquitto_path() is None:
        pytest.skip("mosquitto is not installed: apt install mosquitto")
    (tmp_path / "messages.txt").write_text("hello there\n")
    (port,) = free_ports(1)
    agent = Agent(tmp_path, port, "http://127.0.0.1:1").day()
    agent.start()
    try:
        agent.wait_for_log("event=broker_unreachable ")
        for _ in range(2):
            with mosquitto(tmp_path, port):
                coordinator = FakeCoordinator(port)
                coordinator.next("check-in")
                coordinator.close()
        assert agent.stop()[0] == 0
    finally:
        if agent.process.poll() is None:
            agent.kill()


@pytest.mark.broker
@pytest.mark.tflite
def test_a_second_agent_in_the_same_folder_is_refused(world):
    coordinator, make, _, _ = world
    agent = make().day()
    agent.start()
    coordinator.next("check-in")
    second = run_to_the_end(agent.config)
    assert second.returncode == 2
    assert "another agent is running" in second.stderr


def ask(agent, port, path, body=None):
    """What the keyboard's page answers its user."""
    deadline = time.monotonic() + PATIENCE_S
    while (key := served_key(agent.data)) is None:  # it is made with the page, after the agent has come online
        assert time.monotonic() < deadline, "the page has no key"
        time.sleep(0.05)
    shown = {"Content-Type": "application/json", **headers(key)}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, shown)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.load(answer)
