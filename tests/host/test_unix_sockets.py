"""Another user of the machine who listens where a person's suggester is looked for gets nothing that was typed."""

import os
import socket
import threading

import pytest

from nightjar.edge_agent.commands.complete import complete
from nightjar.edge_agent.desktop.suggester_line import SuggesterLine
from nightjar.wire.errors import UnavailableError

NOBODY = 65534


class Impostor:
    """Notes what comes; the kernel says of a socket whose process it was that began to listen."""

    def __init__(self, path) -> None:
        self.heard: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        os.seteuid(NOBODY)
        try:
            self._listener.listen()
        finally:
            os.seteuid(0)
        self._thread = threading.Thread(target=self._hear)
        self._thread.start()

    def _hear(self) -> None:
        connection, _ = self._listener.accept()
        with connection:
            self.heard.append(connection.recv(1 << 16))

    def heard_all(self) -> list[bytes]:
        self._thread.join(20)
        self._listener.close()
        return self.heard


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen as another user")
@pytest.mark.parametrize("program", ["engine", "pipe"])
def test_another_users_socket_gets_no_typed_text(tmp_path, program):
    path, answers = tmp_path / "socket", []
    impostor = Impostor(path)
    if program == "engine":
        line = SuggesterLine(path, lambda: 0.0, lambda _: None)
        line.ask({"do": "suggest", "text": "my quokkas "}, answers.append)
        line.close()
    else:
        with pytest.raises(UnavailableError):
            complete(path, "my quokkas ", 3, "en")
    assert (impostor.heard_all(), answers) == ([b""], [None] if program == "engine" else [])
