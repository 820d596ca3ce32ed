"""A person's desk for a measurement: a home, a session bus, Xvfb, ``ibus-daemon`` with one engine, and a text field.

Nothing of the machine's own desktop is used or changed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

import nightjar
from nightjar.host.children import LineChild, python_command
from nightjar.wire.errors import UnavailableError

PYTHON = "/usr/bin/python3"
"""Debian's, which has ``gi``."""
FIELD = Path(__file__).with_name("ibus_field.py")
CANDIDATES = 3
FIGURES = ("1", "2", "3")
"""The keys that choose a candidate."""
START_S = 300.0
_PROGRAMS = {"ibus-daemon": "ibus", "Xvfb": "xvfb", "dbus-daemon": "dbus"}


class FieldShown(msgspec.Struct, frozen=True):
    """What the field shows after a key."""

    candidates: list[str]
    text: str
    ms: float


class TypedField:
    """Types a text so that candidates are chosen where they save keys (:func:`core.keystrokes.replay`'s ``suggest``).

    Attributes:
        times_ms: from each key to its candidates.
        differing: messages whose text in the field was not what was meant, but for its case.
        further: keys that a person needs besides: Escape before a figure that would choose a candidate, and the space
            after a chosen word before a sign, which takes its place.
    """

    def __init__(self, child: LineChild, choosing: Sequence[str] = FIGURES) -> None:
        self._choosing = choosing
        self._child, self._meant, self._shown = child, "", FieldShown([], "", 0.0)
        self._begun = False
        self.times_ms: list[float] = []
        self.differing = 0
        self.messages = 0
        self.further = 0

    def suggest(self, text: str) -> Sequence[str]:
        """The candidates for a text that continues the one before, or begins anew."""
        if not self._begun or not text.startswith(self._meant):
            self._begin()
        self._come_to(text)
        return [word.strip() for word in self._shown.candidates[:CANDIDATES]]

    def send(self, message: str) -> None:
        """End a message, whose last word may still have to be typed, with Return."""
        if self._begun:
            self._come_to(message)
            self.messages += 1
            self.differing += self._shown.text.strip().lower() != message.strip().lower()
            self._press("Return")
        self._begun = False

    def _begin(self) -> None:
        self._shown = self._ask({"do": "begin"})
        self._meant, self._begun = "", True

    def _come_to(self, text: str) -> None:
        begun = self._meant.rpartition(" ")[0]
        before = f"{begun} " if begun or self._meant.startswith(" ") else ""
        words = [word.strip().lower() for word in self._shown.candidates[:CANDIDATES]]
        for key, word in zip(self._choosing, words, strict=False):
            # The text ends with the space that a chosen word brings, or with the message.
            if text.rstrip() == before + word and len(text) > len(self._meant) + 1:
                self._press(key)
                self._meant = text
                return
        if self._meant.endswith(" ") and text.startswith(f"{self._meant}'") and not self._shown.text.endswith(" "):
            self._press("space")
            self.further += 1
        for letter in text[len(self._meant) :]:
            if letter in self._choosing[: len(self._shown.candidates)]:
                self._press("Escape")
                self.further += 1
            self._press(letter)
        self._meant = text

    def _press(self, key: str) -> None:
        self._shown = self._ask({"do": "press", "key": "space" if key == " " else key})
        if self._shown.ms:
            self.times_ms.append(self._shown.ms)

    def _ask(self, request: Mapping[str, str]) -> FieldShown:
        answer = self._child.ask(msgspec.json.encode(request), START_S)
        if answer is None:
            msg = "the field of IBus ended or does not answer; its log is named above"
            raise UnavailableError(msg)
        return msgspec.json.decode(answer, type=FieldShown)


def missing() -> list[str]:
    """Debian's packages that a desk needs and this machine lacks."""
    packages = [package for program, package in _PROGRAMS.items() if shutil.which(program) is None]
    code = "import gi; gi.require_version('IBus', '1.0'); from gi.repository import IBus"
    done = subprocess.run(python_command("-c", code, python=PYTHON), capture_output=True, check=False)  # noqa: S603 - fixed
    return packages + ([] if done.returncode == 0 else ["python3-gi", "gir1.2-ibus-1.0"])


@contextlib.contextmanager
def desk(
    home: Path,
    engine: str,
    component: str | None,
    environment: Mapping[str, str],
    choosing: Sequence[str] = FIGURES,
) -> Iterator[TypedField]:
    """A desk with an engine of IBus, until the end of the block.

    ``component`` is the text of its component file; None for an installed engine. The keys ``choosing`` choose the
    first, second and third candidate.

    Raises:
        UnavailableError: IBus or the engine does not start.
    """
    runtime, components = home / "run", home / "components"
    for folder in (runtime, components):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if component is not None:
        (components / "nightjar.xml").write_text(component, encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG")}
    own = {
        **kept,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(runtime),
        "GSETTINGS_BACKEND": "keyfile",
        "LC_ALL": "C.UTF-8",
        "NO_AT_BRIDGE": "1",
        "IBUS_COMPONENT_PATH": f"{components}:/usr/share/ibus/component",
        **environment,
    }
    with contextlib.ExitStack() as stack:
        log = stack.enter_context((home / "desk.log").open("ab"))
        bus = f"unix:path={runtime}/bus"
        own["DBUS_SESSION_BUS_ADDRESS"] = bus
        own["IBUS_ADDRESS"] = f"unix:path={runtime}/ibus"
        _started(stack, ["dbus-daemon", "--session", "--nofork", f"--address={bus}"], own, log.fileno())
        _wait_for(runtime / "bus")
        own["DISPLAY"] = _display(stack, own, log.fileno())
        daemon = [
            "ibus-daemon",
            "--cache",
            "none",
            "--panel",
            "disable",
            "--config",
            "disable",
            "--address",
            own["IBUS_ADDRESS"],
        ]
        _started(stack, daemon, own, log.fileno())
        _wait_for(runtime / "ibus")
        child = LineChild(python_command(str(FIELD), engine, python=PYTHON), home / "desk.log", own)
        stack.callback(child.end)
        yield TypedField(child, choosing)


def checkout() -> str:
    """The folder of our packages, for a Python that is not ours."""
    return str(Path(nightjar.__file__).parents[1])


def _display(stack: contextlib.ExitStack, environment: Mapping[str, str], log: int) -> str:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        command = ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp", "-screen", "0", "640x480x24"]
        _started(stack, command, environment, log, pass_fds=(writing,))
        os.close(writing)
        number = pipe.readline().strip().decode()
    if not number:
        msg = "Xvfb did not start"
        raise UnavailableError(msg)
    return f":{number}"


def _started(
    stack: contextlib.ExitStack,
    command: Sequence[str],
    environment: Mapping[str, str],
    log: int,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(  # noqa: S603 - programs of Debian
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=pass_fds
    )

    def end() -> None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            return
        process.kill()
        process.wait()

    stack.callback(end)
    return process


def _wait_for(path: Path) -> None:
    until_s = time.monotonic() + START_S
    while not path.exists():
        if time.monotonic() > until_s:
            msg = f"expected {path.name} of a desk for the measurement, and it did not start"
            raise UnavailableError(msg)
        time.sleep(0.05)
