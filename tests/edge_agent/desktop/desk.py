"""A desk without a screen: X, a session bus, IBus, the engine, a suggester and a program that is typed into."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from nightjar.edge_agent.desktop.component import component_xml

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
PYTHON = "/usr/bin/python3"
WAIT_S = 60.0
NEEDED = {
    "ibus-daemon": "ibus",
    "Xvfb": "xvfb",
    "xdotool": "xdotool",
    "dbus-daemon": "dbus-daemon",
    "/usr/lib/python3/dist-packages/gi": "python3-gi",
    "/usr/share/doc/gir1.2-ibus-1.0": "gir1.2-ibus-1.0",
}


def missing(**more: str) -> list[str]:
    """The packages that this machine lacks, of those that each desk needs and of some more."""
    wanted = {**NEEDED, **{what: package for package, what in more.items()}}
    return [
        package
        for what, package in wanted.items()
        if not (Path(what).exists() if what.startswith("/") else shutil.which(what))
    ]


def needs(**more: str) -> pytest.MarkDecorator:
    lacking = missing(**more)
    return pytest.mark.skipif(bool(lacking), reason=f"not installed: apt install {' '.join(lacking)}")


def wait_for(condition, what: str):
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"{what} did not come"
        time.sleep(0.02)
    return found


class FakeSuggester:
    """A suggester with a few words, which can be killed, started again and given other words."""

    def __init__(self, path: Path) -> None:
        self.path, self.words = path, ("hello", "help", "held", "other", "are")
        self.corrections: dict[str, str] = {}
        self.requests: list[dict] = []
        self.connections: list[socket.socket] = []
        self.start()

    def start(self) -> None:
        self.path.unlink(missing_ok=True)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.path))
        self.listener.listen()
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def kill(self) -> None:
        for each in (self.listener, *self.connections):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self.connections.clear()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection.makefile("rb") as lines:
            for line in lines:
                request = json.loads(line)
                self.requests.append(request)
                connection.sendall(json.dumps(self._answer(request)).encode() + b"\n")

    def _answer(self, request: dict) -> dict:
        if request["do"] == "suggest":
            prefix = request["text"].rpartition(" ")[2].rpartition("\t")[2]
            if prefix in self.corrections:
                words = [self.corrections[prefix]]
                return {"words": words, "version": 1, "reason": "", "prefix": prefix, "space_takes": True}
            begun = [word for word in self.words if word.startswith(prefix) and word != prefix]
            words = [*begun[:2], *([f"{prefix[0]}or"] if prefix[:1].isalpha() else [])]
            return {"words": words, "version": 1, "reason": "", "prefix": prefix, "space_takes": False}
        return {"kept": True, "reason": ""} if request["do"] == "learn" else {"paused": False}

    def asked(self, what: str) -> list[dict]:
        return [request for request in self.requests if request["do"] == what]


class TypingDesk:
    """All of it; ``folder`` holds what the engine and the daemon keep, ``aside`` what the test does."""

    def __init__(self, folder: Path) -> None:
        self.home, self.aside = folder / "home", folder / "aside"
        self.home.mkdir()
        self.aside.mkdir()
        (folder / "run").mkdir(mode=0o700)
        self.record, self.text = self.aside / "record", self.aside / "text"
        self.record.touch()
        self.suggester = FakeSuggester(self.aside / "socket")
        (self.aside / "ibus.toml").write_text(f'socket = "{self.aside / "socket"}"\n')
        component = self.aside / "component"
        component.mkdir()
        command = ["/usr/bin/env", f"PYTHONPATH={ROOT}", "PYTHONDONTWRITEBYTECODE=1", PYTHON]
        command += [str(PROGRAMS / "recorded_engine.py"), str(self.record)]
        (component / "nightjar.xml").write_text(component_xml(shlex.join(command), "0"))
        self.processes: list[subprocess.Popen] = []
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "LANG": "C.UTF-8",
            "XDG_RUNTIME_DIR": str(folder / "run"), "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_CACHE_HOME": str(self.home / "cache"), "XDG_DATA_HOME": str(self.home / "data"),
            "IBUS_COMPONENT_PATH": str(component), "GTK_IM_MODULE": "ibus", "QT_IM_MODULE": "ibus",
            "XMODIFIERS": "@im=ibus", "NO_AT_BRIDGE": "1", "GTK_A11Y": "none", "GIO_USE_VFS": "local",
            "GSETTINGS_BACKEND": "memory", "GDK_BACKEND": "x11", "QT_QPA_PLATFORM": "xcb",
        }  # fmt: skip

    def start(self) -> None:
        self._start_display()
        self._start_bus()
        self.start_ibus()

    def run(self, *command: str) -> subprocess.Popen:
        log = (self.aside / f"log{len(self.processes)}").open("wb")
        started = subprocess.Popen(
            command, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        self.processes.append(started)
        return started

    def _start_display(self) -> None:
        readable, writable = os.pipe()
        # -r: no key repeats itself while a busy machine is late with its release.
        server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(writable), "-screen", "0", "1024x768x24", "-nolisten", "tcp", "-r"],
            pass_fds=[writable], stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.processes.append(server)
        os.close(writable)
        with os.fdopen(readable) as number:
            self.environment["DISPLAY"] = f":{number.readline().strip()}"

    def _start_bus(self) -> None:
        bus = subprocess.Popen(
            ["dbus-daemon", "--session", "--nofork", "--print-address=1"],
            env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self.processes.append(bus)
        self.environment["DBUS_SESSION_BUS_ADDRESS"] = bus.stdout.readline().strip()
        bus.stdout.close()

    def start_ibus(self) -> None:
        command = "ibus-daemon --xim --panel disable --config disable --cache none --emoji-extension disable"
        self.daemon = self.run(*command.split())
        wait_for(self._engine_is_set, "the engine")

    def _engine_is_set(self) -> bool:
        self.call("ibus", "engine", "nightjar")  # fails without setxkbmap, though it has done what it should
        return self.call("ibus", "engine").stdout.strip() == "nightjar"

    def call(self, *command: str) -> subprocess.CompletedProcess:
        return subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=120, check=False)

    pause_ms = 15
    """Between keys, which is faster than anybody types."""
    before = 0
    """Keys that made the field ready."""

    def open(self, *command: str, title: str = "nightjar-test") -> None:
        """Start a program and give it the keys."""
        self.program = self.run(*command)
        found = wait_for(
            lambda: self.call("xdotool", "search", "--onlyvisible", "--name", title).stdout.split(), "a window"
        )
        self.call("xdotool", "windowfocus", "--sync", found[-1])

    def press(self, *keys: str) -> None:
        if keys:
            done = self.call("xdotool", "key", "--delay", str(self.pause_ms), *keys)
            assert done.returncode == 0, done.stderr

    def start_panel(self) -> None:
        """What draws the candidates, and is touched."""
        self.panel = subprocess.Popen(
            [PYTHON, str(PROGRAMS / "panel.py")], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self.processes.append(self.panel)
        assert self.panel.stdout.readline() == "ready\n"
        self.panel.stdout.close()

    def touch(self, place: int) -> None:
        """Touch a candidate."""
        self.panel.stdin.write(f"{place}\n")
        self.panel.stdin.flush()

    def candidates(self) -> list[str]:
        """What is offered."""
        shown = [
            effect["words"] for _, effects in self.records() for effect in effects if effect["is"] == "ShowCandidates"
        ]
        return shown[-1] if shown else []

    def make_ready(self) -> None:
        """Type a letter until the field has one, and delete it: a window may be there before its field takes keys."""

        def has_some() -> bool:
            self.press("a")
            end = time.monotonic() + 2
            while self.shown() in ("", "0") and time.monotonic() < end:
                time.sleep(0.02)
            return self.shown() not in ("", "0")

        def has_none() -> bool:
            self.press("BackSpace")
            return self.shown() in ("", "0")

        wait_for(has_some, "a letter")
        wait_for(has_none, "an empty field")
        self.before = len(self.pressed())

    def records(self) -> list:
        return [json.loads(line) for line in self.record.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def pressed(self) -> list:
        return [record for record in self.records() if record[0]["is"] == "KeyPressed"][self.before :]

    def shown(self) -> str:
        return self.text.read_text() if self.text.exists() else ""

    def comes_to(self, text: str, candidates: tuple[str, ...] = ()) -> bool:
        """Whether the program shows a text in a while, and the panel these candidates first."""

        def there() -> bool:
            return self.shown() == text and tuple(self.candidates()[: len(candidates)]) == candidates

        end = time.monotonic() + 3
        while not (found := there()) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def goes_back_to(self, text: str) -> None:
        """Take back what was typed after a text."""
        while self.shown() != text:
            self.press("BackSpace")
            self.comes_to(text)

    def close(self) -> None:
        for process in reversed(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self.suggester.kill()


@pytest.fixture
def typing_desk():
    # libdbus, and so Qt, takes no path of a socket above 99 bytes; that of a worker's tmp_path is longer.
    with tempfile.TemporaryDirectory(prefix="nightjar-desk-", ignore_cleanup_errors=True) as folder:
        desk = TypingDesk(Path(folder))
        try:
            desk.start()
            yield desk
        finally:
            desk.close()
