"""Runs the suggester in a child process, and starts it again when it ends: the agent's side of its control messages.

The first process is forked from the agent, so that both share the memory of what is loaded; each further one is started
from nothing, because the agent has threads by then. The agent keeps the listening sockets, so that a client that comes
between two processes waits instead of being refused.
"""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, Protocol

import msgspec
import structlog

from nightjar.edge_agent.config import KEYBOARD_HOST
from nightjar.edge_agent.core.faults import error_of, fault_of
from nightjar.edge_agent.model import Model
from nightjar.edge_agent.shell.memory import return_free_memory
from nightjar.edge_agent.suggester.control import (
    Begin,
    Forget,
    ModelUsed,
    ToAgent,
    ToSuggester,
    UseModel,
    WipeAsked,
    WipeDone,
    from_suggester,
    send,
)
from nightjar.host.children import python_command
from nightjar.host.unix_sockets import address_of
from nightjar.wire.backoff import BackOff
from nightjar.wire.errors import ConfigError, NightjarError

NAME = "suggester"
FOLDER, SOCKET = NAME, "socket"
"""Where desktop programs find the suggester, in ``data_dir``."""
START_AGAIN = BackOff(first_s=0.5, most_s=60.0)
LIVED_S = 60.0
"""A process that lived this long did not fail at its start."""
USE_S = 30.0
"""How long the driver waits for a model to be loaded; a board that is slower loads it all the same."""
END_S = 5.0

log = structlog.get_logger()


def page_listener(port: int) -> socket.socket:
    """The listening socket of the keyboard's page, on this device's loopback address; port 0 picks a free one.

    Raises:
        ConfigError: the port is in use or forbidden.
    """
    try:
        return socket.create_server((KEYBOARD_HOST, port))
    except OSError as error:
        msg = (
            f"expected to serve the keyboard on {KEYBOARD_HOST} port {port}, got: {error}; "
            "stop the program that holds the port, or set another port in the [keyboard] table of the "
            "agent's configuration"
        )
        raise ConfigError(msg) from error


def local_listener(data_dir: Path) -> socket.socket:
    """The listening Unix socket for desktop programs: mode 0600, in a folder of mode 0700 in the agent's own.

    Raises:
        ConfigError: it cannot be made.
    """
    folder = data_dir / FOLDER
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        (folder / SOCKET).unlink(missing_ok=True)  # of an agent that was killed: this one has the folder's lock
        with address_of(folder / SOCKET) as address:
            listener.bind(address)
        (folder / SOCKET).chmod(0o600)
        listener.listen()
    except OSError as error:
        listener.close()
        msg = f"data_dir: expected to make a socket in {folder}, got: {error}"
        raise ConfigError(msg) from error
    return listener


class SuggesterProcess:
    """The suggester, from :meth:`start` to :meth:`close`.

    ``ask_to_wipe`` deletes everything and returns when it is done, or raises a NightjarError. ``serve`` is what a
    forked process does (:func:`nightjar.edge_agent.suggester.__main__.serve`). ``log_level`` is the least that is
    logged by one that is started from nothing.
    """

    def __init__(
        self,
        settings: Begin,
        page: socket.socket,
        local: socket.socket,
        ask_to_wipe: Callable[[], None],
        *,
        serve: Callable[[socket.socket, socket.socket, socket.socket], NoReturn],
        log_level: str,
        jitter: Callable[[], float],
    ) -> None:
        self._settings, self._page, self._local = settings, page, local
        self._ask_to_wipe, self._serve, self._log_level, self._jitter = ask_to_wipe, serve, log_level, jitter
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._up = False  # runs, or is being started
        self._line: socket.socket | None = None
        self._model: Model | None = None
        self._answers: queue.SimpleQueue[ModelUsed | None] | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Fork the first process, which shares the memory of all that is loaded. Call it before any thread starts."""
        ours, theirs = socket.socketpair()
        return_free_memory()
        gc.freeze()  # the collector would write to shared pages
        pid = os.fork()
        if not pid:
            _only_these(theirs, self._page, self._local)
            self._serve(theirs, self._page, self._local)
        theirs.close()
        self._up = True
        self._thread = threading.Thread(target=self._keep, args=((_Forked(pid), ours),), name="suggester", daemon=True)
        self._thread.start()

    def use(self, model: Model) -> None:
        """Let it suggest with this model, also after a restart; returns when it does, or soon.

        Raises:
            NightjarError: the model's files cannot be used; it keeps the one that it has.
        """
        answers: queue.SimpleQueue[ModelUsed | None] = queue.SimpleQueue()
        with self._lock:
            self._model, self._answers = model, answers
            self._tell(UseModel(model))
            if not self._up:
                return  # the next process uses it
        with contextlib.suppress(queue.Empty):
            used = answers.get(timeout=USE_S)
            if used is not None and used.fault is not None:
                raise error_of(used.fault)

    def forget(self) -> None:
        """Let it forget what was typed."""
        with self._lock:
            self._tell(Forget())

    def close(self) -> None:
        """End the process."""
        self._closing.set()
        with self._lock:
            if self._line is not None:
                self._line.shutdown(socket.SHUT_RDWR)
        if self._thread is not None:
            self._thread.join(2 * END_S)

    def _tell(self, message: ToSuggester) -> None:
        if self._line is not None:
            with contextlib.suppress(OSError):  # it has just ended
                send(self._line, message)

    def _keep(self, begun: tuple[_Process, socket.socket] | str) -> None:
        tries = 0
        while True:
            begun_s = time.monotonic()
            status = begun if isinstance(begun, str) else self._run(*begun)
            if self._closing.is_set():
                return
            tries = 1 if time.monotonic() - begun_s > LIVED_S else tries + 1
            wait_s = START_AGAIN.delay_s(tries, self._jitter())
            log.warning("suggester_ended", status=status, again_in_s=round(wait_s, 1))
            if self._closing.wait(wait_s):
                return
            begun = self._begin()

    def _begin(self) -> tuple[_Process, socket.socket] | str:
        """Start a process from nothing, which threads may do at any time; or why it could not be started."""
        ours, theirs = socket.socketpair()
        handed = [theirs.fileno(), self._page.fileno(), self._local.fileno()]
        command = python_command("-m", "nightjar.edge_agent.suggester", *map(str, handed), self._log_level)
        with theirs:
            try:
                return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=handed), ours  # noqa: S603 - our own module
            except OSError as error:
                ours.close()
                return str(error)

    def _run(self, process: _Process, line: socket.socket) -> int:
        """Talk with a process until it ends; returns its exit status."""
        with line:
            with self._lock:
                self._line, self._up = line, True
                self._tell(self._settings)
                if self._model is not None:
                    self._tell(UseModel(self._model))
            try:
                for message in from_suggester(line):
                    self._take(message)
            except (OSError, msgspec.MsgspecError) as error:
                log.debug("suggester_killed", error=type(error).__name__)
            with self._lock:
                self._line, self._up = None, False
                if self._answers is not None:
                    self._answers.put(None)
            return _ended(process)

    def _take(self, message: ToAgent) -> None:
        match message:
            case ModelUsed():
                answers, model = self._answers, self._model
                if answers is not None and model is not None and message.model == model.sha256:
                    answers.put(message)
            case WipeAsked():
                # The driver may wait for a model, whose answer comes through this thread.
                threading.Thread(target=self._wipe, name="wipe", daemon=True).start()

    def _wipe(self) -> None:
        fault = None
        try:
            self._ask_to_wipe()
        except NightjarError as error:
            fault = fault_of(error)
        with self._lock:
            self._tell(WipeDone(fault))


class _Process(Protocol):
    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status."""

    def kill(self) -> None:
        """Kill it."""


@dataclass(frozen=True, slots=True)
class _Forked:
    """A forked child; its methods are those of a :class:`subprocess.Popen`."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status."""
        until_s = None if timeout is None else time.monotonic() + timeout
        while True:
            pid, status = os.waitpid(self.pid, 0 if until_s is None else os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if until_s is not None and time.monotonic() > until_s:
                raise subprocess.TimeoutExpired(NAME, timeout or 0.0)
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it."""
        os.kill(self.pid, signal.SIGKILL)


def _only_these(*sockets: socket.socket) -> None:
    """Close everything else that a forked process has open, the lock of the agent's folder among it."""
    kept = {0, 1, 2, *(each.fileno() for each in sockets)}
    for descriptor in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if descriptor not in kept:
            with contextlib.suppress(OSError):  # that of the listing
                os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _ended(process: _Process) -> int:
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
