"""A client of Debian's ``qemu-guest-agent`` inside the machine, which runs programs as a user at a terminal would.

Source: QEMU's documentation of the guest agent protocol (guest-sync-delimited, guest-exec, guest-exec-status). The
protocol is JSON, one object per line, over a socket that QEMU connects to a port inside.
"""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightjar.wire.errors import RemoteProtocolError, UnavailableError

_MAX_LINE_BYTES = 32 * 2**20
_MAX_FILE_BYTES = 48 * 2**10
_FILE_S = 60.0
_ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a program that ran inside the machine."""

    status: int  # its exit status; 128 plus the signal's number if a signal ended it, as in shells
    output: str  # its standard output, followed by its standard error


class Guest:
    """The inside of one machine. Every method raises UnavailableError if the guest agent does not answer in time.

    Each request opens QEMU's socket again, so restarts in between do not matter.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = 0

    def wait_until_there(self, deadline_s: float) -> None:
        """Wait until the guest agent answers."""
        until = time.monotonic() + deadline_s
        while True:
            try:
                self._ask(5.0, "guest-ping")
            except UnavailableError:
                if time.monotonic() > until:
                    raise
                time.sleep(_ASK_EVERY_S)
            else:
                return

    def run(self, command: Sequence[str], *, given: bytes = b"", deadline_s: float = 60.0) -> Done:
        """Run a program inside the machine until it ends.

        ``given`` is its standard input. A program that exceeds the deadline keeps running inside.

        Raises:
            UnavailableError: the program took too long.
            RemoteProtocolError: the guest agent refused, for example because there is no such program.
        """
        until = time.monotonic() + deadline_s
        arguments: dict[str, Any] = {"path": command[0], "arg": list(command[1:]), "capture-output": True}
        if given:
            arguments["input-data"] = base64.b64encode(given).decode()
        pid = self._ask(deadline_s, "guest-exec", arguments)["pid"]
        while True:
            state = self._ask(max(1.0, until - time.monotonic()), "guest-exec-status", {"pid": pid})
            if state["exited"]:
                output = base64.b64decode(state.get("out-data", "")) + base64.b64decode(state.get("err-data", ""))
                status = state["exitcode"] if "exitcode" in state else 128 + int(state.get("signal", 0))
                return Done(status, output.decode(errors="replace"))
            if time.monotonic() > until:
                msg = f"{command[0]} takes longer than {deadline_s:.0f} s in the machine"
                raise UnavailableError(msg)
            time.sleep(_ASK_EVERY_S)

    def shell(self, script: str) -> str:
        """Run a shell command inside the machine and return its output.

        Raises:
            UnavailableError: the command took too long or failed.
        """
        done = self.run(["/bin/sh", "-c", script])
        if done.status:
            msg = f"{script[:80]!r} ended with {done.status} in the machine: {done.output.strip()[-500:]}"
            raise UnavailableError(msg)
        return done.output

    def read(self, path: str) -> bytes | None:
        """The first 48 KiB of a file inside the machine; None if it cannot be opened. Starts no program."""
        try:
            handle = self._ask(_FILE_S, "guest-file-open", {"path": path, "mode": "r"})
        except RemoteProtocolError:
            return None
        try:
            read = self._ask(_FILE_S, "guest-file-read", {"handle": handle, "count": _MAX_FILE_BYTES})
        finally:
            self._ask(_FILE_S, "guest-file-close", {"handle": handle})
        return base64.b64decode(read["buf-b64"])

    def _ask(self, timeout_s: float, command: str, arguments: dict[str, Any] | None = None) -> Any:
        self._number += 1
        try:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.settimeout(timeout_s)
                channel.connect(str(self._path))
                with channel.makefile("rwb") as stream:
                    # Answers to an earlier client may still be in the pipe: skip everything up to our number.
                    self._send(stream, b"\xff", "guest-sync-delimited", {"id": self._number})
                    while (answer := self._receive(stream)) != {"return": self._number}:
                        pass
                    self._send(stream, b"", command, arguments)
                    answer = self._receive(stream)
        except (OSError, TimeoutError) as error:
            msg = f"the agent inside the machine does not answer: {error or 'timed out'}"
            raise UnavailableError(msg) from error
        if "error" in answer:
            msg = f"the agent inside refused {command}: {answer['error'].get('desc', answer['error'])}"
            raise RemoteProtocolError(msg)
        return answer["return"]

    @staticmethod
    def _send(stream: Any, before: bytes, command: str, arguments: dict[str, Any] | None) -> None:
        question = {"execute": command} | ({"arguments": arguments} if arguments else {})
        stream.write(before + json.dumps(question).encode() + b"\n")
        stream.flush()

    @staticmethod
    def _receive(stream: Any) -> dict[str, Any]:
        line = stream.readline(_MAX_LINE_BYTES)
        if not line.endswith(b"\n"):
            msg = "the connection ended"
            raise OSError(msg)
        try:
            answer = json.loads(line.rpartition(b"\xff")[2])
        except ValueError:
            return {}
        return answer if isinstance(answer, dict) else {}
