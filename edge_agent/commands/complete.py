"""``nightjar-agent complete``: a pipe for keyboards that ask a program for completions, such as phosh's.

Asks the suggester over its socket. Nothing is kept, and typed text is in no error.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from nightjar.edge_agent.desktop.settings import read_settings, settings_path, socket_path
from nightjar.edge_agent.kept_settings import folder_of
from nightjar.edge_agent.shell.suggester import FOLDER, SOCKET
from nightjar.host.unix_sockets import address_of, expect_this_user
from nightjar.wire.errors import UnavailableError

MOST_CHARACTERS = 2_000
"""Of the end of a text; more are not looked at."""
TIMEOUT_S = 2.0
"""A keyboard that waits longer is no help."""
_MOST_ANSWER_BYTES = 1 << 16
_MOST_BYTES = 4 * MOST_CHARACTERS + 2
"""UTF-8 takes four for a character, and a line two for its end."""


class _Found(msgspec.Struct):
    words: tuple[str, ...] = ()
    prefix: str = ""
    error: str = ""


def read_end(stream: BinaryIO | None) -> str:
    r"""The end of the text of standard input, without the end of its last line; bytes that are no text are left out.

    >>> import io
    >>> read_end(io.BytesIO(b"how ar\n"))
    'how ar'

    Raises:
        UnavailableError: it cannot be read.
    """
    data = b""
    try:
        while stream is not None and (read := stream.read(_MOST_ANSWER_BYTES)):
            data = (data + read)[-_MOST_BYTES:]
    except OSError as error:
        msg = f"expected a text on standard input, got: {error.strerror}"
        raise UnavailableError(msg) from error
    return data.decode(errors="ignore").removesuffix("\n").removesuffix("\r")[-MOST_CHARACTERS:]


def socket_of(config: Path | None, environment: Mapping[str, str]) -> Path:
    """The socket of the agent with this configuration; without one, the socket that the IBus engine asks.

    Raises:
        ConfigError: the configuration cannot be read.
    """
    if config is not None:
        return folder_of(config, environment) / FOLDER / SOCKET
    home = Path.home()
    settings, _ = read_settings(settings_path(environment, home))
    return socket_path(environment, home, settings)


def complete(path: Path, text: str, count: int, language: str) -> list[str]:
    """What the last word of a text may become, or the next words after a space, the likeliest first.

    Raises:
        UnavailableError: the suggester does not answer.
    """
    request = {"do": "suggest", "text": text, "count": min(count + 1, 10), "language": language}
    try:
        with address_of(path) as address, socket.socket(socket.AF_UNIX) as connection:
            until_s = time.monotonic() + TIMEOUT_S
            connection.settimeout(TIMEOUT_S)
            connection.connect(address)
            expect_this_user(connection)
            connection.sendall(msgspec.json.encode(request) + b"\n")
            found = msgspec.json.decode(_line_of(connection, until_s), type=_Found)
    except (OSError, msgspec.MsgspecError, ValueError, RecursionError) as error:
        msg = f"expected the suggester at {path}, got {type(error).__name__}; is the agent running?"
        raise UnavailableError(msg) from error
    if found.error:
        msg = f"the suggester does not answer: {found.error}"
        raise UnavailableError(msg)
    return [word for word in found.words if word != found.prefix and word.isprintable()][:count]


def _line_of(connection: socket.socket, until_s: float) -> bytes:
    """An answer, also of a suggester that sends it byte by byte.

    Raises:
        OSError: it does not come in time.
    """
    data = b""
    while not data.endswith(b"\n") and len(data) < _MOST_ANSWER_BYTES:
        connection.settimeout(max(until_s - time.monotonic(), 0.001))
        read = connection.recv(_MOST_ANSWER_BYTES - len(data))
        if not read:
            break
        data += read
    return data
