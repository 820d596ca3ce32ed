"""The engine in real programs under a real IBus: no key is lost or doubled, and secrets are neither shown nor kept."""

import os
import random
import shutil
import socket
import subprocess
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest

from tests.edge_agent.desktop.desk import PROGRAMS, PYTHON, needs, wait_for
from tests.edge_agent.desktop.desk import typing_desk as typing_desk  # a fixture

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.xdist_group("ibus")]
GTK3 = needs(**{"gir1.2-gtk-3.0": "/usr/share/doc/gir1.2-gtk-3.0", "ibus-gtk3": "/usr/share/doc/ibus-gtk3"})
GTK4 = needs(**{"gir1.2-gtk-4.0": "/usr/share/doc/gir1.2-gtk-4.0", "ibus-gtk4": "/usr/share/doc/ibus-gtk4"})
QT5 = needs(**{"python3-pyqt5": "/usr/lib/python3/dist-packages/PyQt5"})
QT6 = needs(**{"python3-pyqt6": "/usr/lib/python3/dist-packages/PyQt6"})
CHROMIUM = needs(chromium="chromium")
XTERM = needs(xterm="xterm")
LETTERS = "abehlopr"
OTHERS = ["Tab", "Tab", "1", "2", "3", "space", "period", "BackSpace", "Left", "Right"]
CHARACTERS = {"space": " ", "period": ".", "Return": "\n", "Tab": "\t", "comma": ","}
SECRET = "plumhorsezebra"

PAGE = b"""<!doctype html><title>nightjar-test</title><textarea id=t rows=40 cols=90></textarea>
<input id=p type=password>
<script>
let number = 0;
t.onkeydown = (event) => {
  if (event.key !== "Tab") return;
  event.preventDefault();
  document.execCommand("insertText", false, "\\t");
};
const tell = (text) => fetch("/" + ++number, { method: "POST", body: text });
t.oninput = () => tell(t.value);
p.oninput = () => tell(String(p.value.length));
(location.hash ? p : t).focus();
</script>"""


class Program:
    """How a program is opened, and what stands in its field."""

    def __init__(self, desk, name, *, alone=False):
        self.desk, self.name = desk, name
        # IBus's module for GTK 4 and Qt's own change the order of keys that wait for a busy processor, with any engine.
        if not alone:
            self.desk.pause_ms = {"gtk4": 60, "qt5": 100, "qt6": 100}.get(name, desk.pause_ms)

    def open(self, *arguments):
        if self.name == "gtk4":
            self.desk.environment["IBUS_ENABLE_SYNC_MODE"] = "1"
        file = str(self.desk.text)
        if self.name == "chromium":
            self._open_page(*arguments)
        else:
            self.desk.open(PYTHON, str(PROGRAMS / f"{self.name}.py"), file, *arguments)
        self.desk.make_ready()

    def _open_page(self, *arguments):
        newest, text, one_by_one = [0], self.desk.text, Lock()

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(PAGE if self.path == "/" else b"")

            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with one_by_one:
                    if int(self.path[1:]) > newest[0]:
                        newest[0] = int(self.path[1:])
                        text.write_bytes(body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        Thread(target=server.serve_forever, daemon=True).start()
        options = ["--no-sandbox", "--no-first-run", "--disable-gpu", "--ozone-platform=x11", "--disable-dev-shm-usage"]
        profile = f"--user-data-dir={self.desk.aside / 'profile'}"
        page = f"--app=http://127.0.0.1:{server.server_port}/{'#p' if arguments else ''}"
        self.desk.open(shutil.which("chromium"), *options, profile, page)


def typed_by(random_source, count):
    """Random keys, with the keys that choose where candidates may be."""
    keys = []
    while len(keys) < count:
        keys += random_source.choices(LETTERS, k=random_source.randint(1, 3))
        keys.append(
            random_source.choice(["Tab", "Tab", "1", "2", "3", "space", "period", "BackSpace", "Left", "Right"])
        )
        if random_source.random() < 0.1:
            keys.append("Return")
    return keys[:count]


def expected_text(keys):
    """What stands in a field after these keys, each with what the engine replaced instead of it, if it did."""
    before, after = "", ""
    for key, change in keys:
        if change is not None:
            before = before[: len(before) - change["delete"]] + change["insert"]
        elif key == "BackSpace":
            before = before[:-1]
        elif key == "Left":
            before, after = before[:-1], before[-1:] + after
        elif key == "Right":
            before, after = before + after[:1], after[1:]
        else:
            before += CHARACTERS.get(key, key)
    return before + after


def change_of(record):
    event, effects = record
    changes = [effect for effect in effects if effect["is"] == "ReplaceText"]
    consumed = any(effect["is"] == "ConsumeKey" for effect in effects)
    assert consumed == bool(changes), event
    assert not changes or event["name"] in (*"123", "Tab", *LETTERS), event
    return changes[0] if changes else None


def settled(desk, keys, said):
    def done():
        return len(desk.pressed()) >= said and desk.shown() == expected_text(keys())

    try:
        wait_for(done, "the expected text")
    except AssertionError:
        assert desk.shown() == expected_text(keys()), f"after {keys()[-60:]}"
        raise


def type_at_random(desk, count, seed, *, restart):
    """Type, while the suggester is killed and started, its model replaced, and the daemon started again."""
    source = random.Random(seed)
    injected: list[str] = []

    def matched():
        seen = iter(desk.pressed())
        return [(key, change_of(next(seen)) if at not in lost else None) for at, key in enumerate(injected)]

    lost = set()
    burst = 25
    bursts = max(1, count // burst)
    for number in range(bursts):
        match number % 20:
            case 5:
                desk.suggester.kill()
            case 7:
                desk.suggester.start()
            case 11:
                desk.suggester.words = ("people", "bear", "label", "rope", "hope")
            case 13 if number == 13 and restart:
                # Plain letters while there is no daemon: they go to the program without the engine.
                desk.daemon.terminate()
                desk.daemon.wait()
                keys = source.choices(LETTERS, k=10)
                lost |= set(range(len(injected), len(injected) + len(keys)))
                injected += keys
                desk.press(*keys)
                settled(desk, matched, len(injected) - len(lost))
                desk.start_ibus()
        keys = typed_by(source, burst)
        injected += keys
        desk.press(*keys)
        settled(desk, matched, len(injected) - len(lost))
    seen = [record[0]["name"] for record in desk.pressed()]
    assert seen == [key for at, key in enumerate(injected) if at not in lost]
    return [change for _, change in matched() if change]


FIELDS = [
    pytest.param("gtk3", marks=GTK3),
    pytest.param("gtk4", marks=GTK4),
    pytest.param("qt5", marks=QT5),
    pytest.param("qt6", marks=QT6),
    pytest.param("chromium", marks=CHROMIUM),
]


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "count", [500, pytest.param(10_000, marks=[pytest.mark.verify, pytest.mark.timeout(3600)])], ids=["ci", "verify"]
)
def test_no_key_is_lost_or_doubled(typing_desk, name, count):
    Program(typing_desk, name, alone=count == 10_000).open()
    # Qt itself drops a key that it has sent to a daemon which ends before it answers.
    chosen = type_at_random(typing_desk, count, seed=52, restart=not name.startswith("qt"))
    # Chromium gets no words after the daemon ended, and chooses none before it has drawn the last key.
    assert len(chosen) > (0 if name == "chromium" else count / 100)
    if name == "chromium":
        assert typing_desk.suggester.asked("learn") == []
    else:
        assert typing_desk.suggester.asked("learn")


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("by", ["Tab", "figure", "touch"])
def test_a_candidate_is_chosen_by_tab_a_figure_and_a_touch(typing_desk, name, by):
    typing_desk.start_panel()
    Program(typing_desk, name).open()
    desk, word = typing_desk, "hello" if by == "Tab" else "help"
    desk.press(*"ah", "space", "h")

    def chosen():
        desk.press("e")
        if desk.comes_to("ah he", ("hello", "help")):
            if by == "touch":
                desk.touch(1)
            else:
                desk.press("Tab" if by == "Tab" else "2")
            if desk.comes_to(f"ah {word}"):
                return True
        # On a busy machine a program tells so late where its cursor is that it could have been clicked.
        desk.goes_back_to("ah h")
        return False

    wait_for(chosen, "the word")
    typing_desk.press("r")
    wait_for(lambda: typing_desk.shown() == f"ah {word} r", "the space that the word owes")


@pytest.mark.parametrize("name", FIELDS[:-1])
def test_a_touched_correction_takes_the_place_of_what_was_typed(typing_desk, name):
    typing_desk.start_panel()
    Program(typing_desk, name).open()
    typing_desk.press(*"ah", "space", *"hl")
    typing_desk.suggester.corrections = {"hle": "help"}

    def replaced():
        typing_desk.press("e")
        if typing_desk.comes_to("ah hle", ("help",)):
            typing_desk.touch(0)
            if typing_desk.comes_to("ah help"):
                return True
        typing_desk.goes_back_to("ah hl")
        return False

    wait_for(replaced, "the word")


@pytest.mark.parametrize(
    "name",
    [pytest.param("gtk3", marks=GTK3), pytest.param("gtk4", marks=GTK4), pytest.param("chromium", marks=CHROMIUM)],
)
def test_a_password_field_is_neither_offered_words_nor_kept(typing_desk, name):
    Program(typing_desk, name).open("password")
    typing_desk.press(*SECRET, "Return")
    wait_for(lambda: typing_desk.shown() == str(len(SECRET)), "the password")
    nothing_of_it(typing_desk)


@XTERM
@pytest.mark.parametrize("prompt", ["[sudo] password for ada: ", "ada@example.org password: "])
def test_a_prompt_in_a_terminal_is_neither_offered_words_nor_kept(typing_desk, prompt):
    out, ready = typing_desk.text, typing_desk.aside / "ready"
    asks = f"stty -echo; printf %s '{prompt}'; : > {ready}; read -r line; printf %s ${{#line}} > {out}; sleep 60"
    typing_desk.open("xterm", "-T", "nightjar-test", "-e", "sh", "-c", asks)
    wait_for(ready.exists, "the prompt")
    typing_desk.press(*SECRET, "Return")
    wait_for(lambda: typing_desk.shown() == str(len(SECRET)), "the password")
    nothing_of_it(typing_desk)


@XTERM
@pytest.mark.parametrize(
    ("program", "prompt", "refusal"),
    [
        pytest.param("sudo", "password for", "try again", marks=needs(sudo="sudo")),
        pytest.param("ssh", "password:", "denied", marks=needs(**{"openssh-server": "/usr/sbin/sshd", "ssh": "ssh"})),
    ],
)
def test_a_password_for_sudo_and_ssh_is_neither_offered_words_nor_kept(typing_desk, program, prompt, refusal):
    # Root is asked for nothing, and must not be who serves ssh without its folder below /run.
    as_nobody = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as folder:
        asks = [*as_nobody, "sudo", "-k", "true"] if program == "sudo" else ssh_to(typing_desk, Path(folder), as_nobody)
        log = typing_desk.aside / "log-of-terminal"
        typing_desk.open("xterm", "-T", "nightjar-test", "-l", "-lf", str(log), "-e", *asks)
        shown = lambda words: log.exists() and words in log.read_text(errors="replace")  # noqa: E731
        wait_for(lambda: shown(prompt), "the prompt")
        typing_desk.press(*SECRET, "Return")
        wait_for(lambda: shown(refusal), "the refusal of a wrong password")
    nothing_of_it(typing_desk)


def ssh_to(desk, folder, as_nobody):
    """A server that asks for a password and takes none, and the command that comes to it."""
    folder.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    key, settings = folder / "key", folder / "settings"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    if as_nobody:
        shutil.chown(key, "nobody")
    settings.write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {key}\nPidFile none\nUsePAM no\nPasswordAuthentication yes\n"
        "KbdInteractiveAuthentication no\n"
    )
    desk.run(*as_nobody, "/usr/sbin/sshd", "-D", "-e", "-f", str(settings))

    def listens():
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", int(port))) == 0

    wait_for(listens, "the server")
    kept_nowhere = [f"-o{each}=/dev/null" for each in ("UserKnownHostsFile", "GlobalKnownHostsFile")]
    return ["ssh", "-F", "none", *kept_nowhere, "-oStrictHostKeyChecking=no", "-p", port, "ada@127.0.0.1"]


def nothing_of_it(desk):
    effects = [effect["is"] for _, effects in desk.records() for effect in effects]
    assert not {"AskWords", "ShowCandidates", "KeepText", "ReplaceText"} & set(effects)
    assert {request["do"] for request in desk.suggester.requests} <= {"status"}
    for file in (*desk.home.rglob("*"), *desk.aside.glob("log*")):
        if file.is_file():
            data = file.read_bytes()
            assert not any(SECRET[at : at + 5].encode() in data for at in range(len(SECRET) - 4)), file
